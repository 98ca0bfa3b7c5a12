"""The stored bytes of a sealed event, together with what opens them.

Whatever reads the log attaches the key, and nobody else needs to know of it: the chain is computed
over the bytes, and the codec decodes what they open to. They can be handed to another process, and
open the one box alone.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self, cast

from pydantic import BaseModel, JsonValue

from turnlog.events.errors import Corrupt
from turnlog.events.seals.word_fields import fill_erased, merge_words

_STRING: Final = rb'"(?:[^"\\]|\\.)*"'

_SEALED_EVENT: Final = re.compile(
    rb'\{"specversion":"1\.0","id":"[^"\\]*","source":"[^"\\]*","type":"([^"\\]*)"'
    rb',"subject":"[^"\\]*","time":"[^"\\]*","tenant":"([^"\\]*)","sequence":([0-9]{1,20})'
    rb'(?:,"prevstreamseq":[0-9]{1,20})?(?:,"prevhash":"[^"\\]*")?,"actor":' + _STRING + rb'(?:,"'
    rb'(?:causationid|correlationid|commandkey|traceparent|copyof)":' + _STRING + rb")*"
    rb',"sealedof":"([A-Za-z0-9_:,;-]+)","sealed":"([A-Za-z0-9+/=]+)","data":\{'
)
"""How the stored bytes of a sealed event begin; no event can have this in one of its values."""

_HINT: Final = b'"sealedof":"'


FindKind = Callable[[str], type[BaseModel] | None]
"""Return the model of a type of events; None for a type that this release does not know."""


class SealedHeader(NamedTuple):
    """What the bytes of a sealed event say in the clear of their box."""

    tenant: str
    place: bytes
    """What the box is bound to."""
    leaves: str
    """The name of the leaves that it is sealed under."""
    box: str
    """Base64."""


def parse_sealed_header(stored: bytes) -> SealedHeader | None:
    """Return the header of a sealed event; None for all other bytes."""
    found = _SEALED_EVENT.match(stored) if _HINT in stored else None
    if found is None:
        return None
    kind, tenant, sequence, leaves, box = (each.decode(errors="replace") for each in found.groups())
    place = build_event_place(tenant, int(sequence), kind, leaves)
    return SealedHeader(tenant, place, leaves, box)


def build_event_place(tenant: str, sequence: int, kind: str, leaves: str) -> bytes:
    """Return what the box of an event is bound to, which its copy in a fork has as well."""
    return f"event {tenant} {sequence} {kind} {leaves}".encode()


class SealedPayload(bytes):
    """Stored bytes of a sealed event; they compare and hash as the bytes that they are."""

    key: bytes | None
    """The key of its box; None if that is erased or lost."""
    fault: str
    """Why there is no key although nothing was erased."""
    opened: bytes | None
    """What it opens to, once it was opened."""

    def __new__(
        cls, stored: bytes, key: bytes | None, fault: str = "", opened: bytes | None = None
    ) -> Self:
        made = super().__new__(cls, stored)
        made.key, made.fault, made.opened = key, fault, opened
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SealedPayload, (bytes(self), self.key, self.fault)

    def copy_to(self, stored: bytes) -> SealedPayload:
        """Return other bytes that have the same box."""
        return SealedPayload(stored, self.key, self.fault)

    def open(self, find_kind: FindKind) -> bytes:
        """Return the event as it would be stored if it were not sealed.

        Where its words are erased there are empty values. Raises `Corrupt` if the key is lost, or
        is not the one of this box.
        """
        if self.opened is None:
            self.opened = self._open_event(find_kind)
        return self.opened

    def _open_event(self, find_kind: FindKind) -> bytes:
        header = parse_sealed_header(self)
        if self.fault or header is None:
            raise Corrupt("sealed event", self.fault or "it has no box")
        envelope: dict[str, JsonValue] = json.loads(self)
        data = cast("dict[str, JsonValue]", envelope.pop("data"))
        del envelope["sealedof"], envelope["sealed"]
        if self.key is None:
            kind = find_kind(cast("str", envelope["type"]))
            return _encode(envelope, fill_erased(kind, data) if kind else data)
        opened = _open_box(self.key, header)
        if "hash" in opened and "copyof" not in envelope:
            envelope["commandhash"] = opened["hash"]
        return _encode(envelope, merge_words(data, opened.get("words", {})))


def _open_box(key: bytes, header: SealedHeader) -> dict[str, JsonValue]:
    # Only who opens a box needs the library that can.
    from turnlog.events.seals.boxes import BoxAltered, open_box  # noqa: PLC0415

    try:
        opened: dict[str, JsonValue] = json.loads(
            open_box(key, header.place, b64decode(header.box))
        )
    except (BoxAltered, ValueError) as error:
        raise Corrupt("sealed event", "its box was altered, or is of another key") from error
    return opened


def _encode(envelope: Mapping[str, JsonValue], data: JsonValue) -> bytes:
    return encode_json({**envelope, "data": data}).encode()


def encode_json(value: JsonValue) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def get_box_key(stored: bytes) -> bytes | None:
    """Return the key of the box of a sealed event; None for all other bytes."""
    return stored.key if isinstance(stored, SealedPayload) else None
