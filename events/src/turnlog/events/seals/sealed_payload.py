"""The stored bytes of a sealed event, together with what opens them.

Whatever reads the log attaches the key, and nobody else needs to know of it: the chain is computed
over the bytes, and the codec decodes what they open to. They can be handed to another process, and
open the one box alone.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json

from turnlog.events.errors import Corrupt
from turnlog.events.seals.person_names import restore_names
from turnlog.events.seals.word_fields import fill_erased, merge_words

DATA_START: Final = b',"data":'
"""Where the data of an event begin. In a text of its header a quotation mark is escaped, so that
nothing before them looks like this; the same goes for what else is looked for in a header.
"""

_SEALED_START: Final = b',"sealedof":"'

_BOX_START: Final = b'","sealed":"'

_PLACE: Final = re.compile(
    rb',"type":"([^"\\]*)",.*?,"tenant":"([^"\\]*)","sequence":([0-9]{1,20}),'
)

FindKind = Callable[[str], type[BaseModel] | None]
"""Return the model of a type of events; None for a type that this release does not know."""


class EventPlace(NamedTuple):
    """What the header of an event says of its place, which a copy in a fork has as well."""

    kind: str
    """The type of the event."""
    tenant: str
    sequence: int

    def bind(self, leaves: str) -> bytes:
        """Return what a box under these leaves is bound to at this place."""
        return f"event {self.tenant} {self.sequence} {self.kind} {leaves}".encode()


def parse_event_place(header: bytes) -> EventPlace:
    """Return the place in the header of an event; raises `ValueError` for all other bytes."""
    found = _PLACE.search(header)
    if found is None:
        raise ValueError(header)
    kind, tenant, sequence = (each.decode(errors="replace") for each in found.groups())
    return EventPlace(kind, tenant, int(sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedHeader:
    """What the bytes of a sealed event say in the clear of their box."""

    place: EventPlace
    leaves: str
    """The name of the leaves that it is sealed under."""
    box: bytes
    """Base64."""
    plain_header: bytes
    """The header of the event without its box."""
    data_at: int
    """Where its data begin."""


def parse_sealed_header(stored: bytes) -> SealedHeader | None:
    """Return the header of a sealed event; None for all other bytes."""
    begin = stored.find(_SEALED_START)
    end = stored.find(DATA_START) if begin > 0 else -1
    if end < begin:
        return None
    leaves, found, box = stored[begin + len(_SEALED_START) : end - 1].partition(_BOX_START)
    if not found:
        return None
    try:
        place = parse_event_place(stored[:begin])
    except ValueError:
        return None
    return SealedHeader(
        place=place,
        leaves=leaves.decode(errors="replace"),
        box=box,
        plain_header=stored[:begin],
        data_at=end + len(DATA_START),
    )


class SealedPayload(bytes):
    """Stored bytes of a sealed event; they compare and hash as the bytes that they are."""

    key: bytes | None
    """The key of its box; None if that is erased or lost."""
    fault: str
    """Why there is no key although nothing was erased."""
    opened: bytes | None
    """What it opens to, once it was opened."""
    header: SealedHeader | None
    """Its header, if it was parsed."""

    def __new__(
        cls,
        stored: bytes,
        key: bytes | None,
        fault: str = "",
        *,
        opened: bytes | None = None,
        header: SealedHeader | None = None,
    ) -> Self:
        made = super().__new__(cls, stored)
        made.key, made.fault, made.opened, made.header = key, fault, opened, header
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
        header = self.header or parse_sealed_header(self)
        if self.fault or header is None:
            raise Corrupt("sealed event", self.fault or "it has no box")
        start, data = header.plain_header, self[header.data_at : -1]
        if self.key is None:
            kind, left = find_kind(header.place.kind), _load_data(data)
            filled = fill_erased(kind, left) if kind else left
            return start + DATA_START + to_json(filled) + b"}"
        return join_event(start, data, _open_box(self.key, header))


def join_event(header: bytes, data: bytes, content: Mapping[str, Any]) -> bytes:
    """Return an event with what is in its box; the order of its fields follows from both alone.

    Raises `Corrupt` where the header and the data are not those of the box.
    """
    if names := content.get("names"):
        header, data = _restore_names(names, header, data)
    if "hash" in content and b',"copyof":"' not in header:
        header += b',"commandhash":' + to_json(content["hash"])
    merged = merge_words(_load_data(data), content.get("words", {}))
    return header + DATA_START + to_json(merged) + b"}"


def _open_box(key: bytes, header: SealedHeader) -> dict[str, JsonValue]:
    # Only who opens a box needs the library that can.
    from turnlog.events.seals.boxes import BoxAltered, open_box  # noqa: PLC0415

    try:
        return _load_json(
            open_box(key, header.place.bind(header.leaves), b64decode(header.box, validate=True))
        )
    except (BoxAltered, ValueError) as error:
        raise Corrupt("sealed event", "its box was altered, or is of another key") from error


def _load_data(encoded: bytes) -> dict[str, JsonValue]:
    try:
        return _load_json(encoded)
    except ValueError:
        raise Corrupt("sealed event", "its data are no JSON") from None


def _restore_names(names: Any, header: bytes, data: bytes) -> tuple[bytes, bytes]:  # noqa: ANN401
    try:
        return restore_names(names, header, data)
    except ValueError:
        detail = "its box has a name of somebody else than stands beside it"
        raise Corrupt("sealed event", detail) from None


def _load_json(encoded: bytes) -> dict[str, JsonValue]:
    loaded: dict[str, JsonValue] = from_json(encoded)
    return loaded


def get_box_key(stored: bytes) -> bytes | None:
    """Return the key of the box of a sealed event; None for all other bytes."""
    return stored.key if isinstance(stored, SealedPayload) else None
