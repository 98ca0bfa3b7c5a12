"""The parts of a submitted turn: their bytes are read, and their texts become the turn's text.

The bytes are stored once the turn is allowed: a session that does not exist, a rule or a quota may
refuse it, and nothing removes what is stored.

A request is handled as if it had named each picture, recording and file by its digest, so the
digest of its idempotency key is the same whether it brought the bytes or named them. While rules of
the blueprint may still change the text, U+FFFC stands in it for each of them.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import Final

from turnlog.contract.session_requests import (
    ImageUrlInput,
    InputAudioInput,
    MediaPartInput,
    SubmitTurnRequest,
    TextPartInput,
    TurnPartInput,
)
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import AlteredMedia, Corrupt, Refused, TooLarge
from turnlog.events.model.content_parts import MediaKind, MediaPart
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import iterate_bytes, receive_media
from turnlog.events.store.ports import MediaStore
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.services.media.incoming_media import put_turn_media
from turnlog.services.media.media_facts import MediaFacts, inspect_media
from turnlog.services.media.media_types import (
    MEDIA_TYPES,
    find_media_kind,
    parse_media_type,
)
from turnlog.services.platform.concurrency import run_text_work

PLACEHOLDER: Final = "\ufffc"
"""Stands in a text for a part: the object replacement character."""

_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*);base64,", re.IGNORECASE)

_MAX_URL_HEAD: Final = 256
"""Characters before the bytes of a `data:` URL; looking through a longer URL would take seconds."""

MAX_TOTAL_FACTOR: Final = 2
"""All parts of a turn together may be so many times as large as the largest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedParts:
    """A turn whose parts are read."""

    form: SubmitTurnRequest
    """The request with the text of all parts, `PLACEHOLDER` in place of the others, by digest."""
    parts: tuple[MediaPart, ...] = ()
    """What the event of the turn has of them, without their places in the text."""
    unstored: Mapping[Digest, bytes] = field(default_factory=dict[Digest, bytes], repr=False)
    """The bytes that the request brought, by their digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentMedia:
    """A picture, a recording or a file as a request has it, whatever its spelling."""

    kind: MediaKind
    field: str
    """The field of the request that has the bytes or their digest."""
    digest: Digest | None = None
    encoded: str | None = None
    """The bytes in base64, in place of the digest."""
    media_type: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPartsIntake:
    """Reads what turns bring and name, and stores what they bring."""

    store: MediaStore
    most_bytes: int
    """Bytes of the largest part."""

    async def read_parts(self, tenant: str, form: SubmitTurnRequest) -> SubmittedParts:
        """Read the bytes of a turn's parts; raises `Refused` for one that cannot be taken."""
        if form.parts is None:
            return SubmittedParts(form=form)
        if form.text is not None:
            detail, fix = "a turn has either `text` or `parts`", "send the text as a part"
            raise Refused("given-twice", detail, field="parts", fix=fix)
        text, sent = _join_parts(form.parts)
        parts: list[MediaPart] = []
        unstored: dict[Digest, bytes] = {}
        for each in sent:
            data = await self._read_bytes(tenant, each)
            parts.append(await _inspect_part(each, data))
            self._check_total(parts)
            if each.digest is None:
                unstored[parts[-1].digest] = data
        named = [
            MediaPartInput(type=part.kind, digest=part.digest, name=part.name) for part in parts
        ]
        named_form = form.model_copy(update={"text": text, "parts": named or None})
        return SubmittedParts(form=named_form, parts=tuple(parts), unstored=unstored)

    async def seal_parts(
        self, tenant: str, submitted: SubmittedParts, leaves: LeafSets | None
    ) -> tuple[MediaPart, ...]:
        """Return the parts as the event of a turn names them that is sealed under these keys.

        Their digests are keyed then, and nothing is stored yet. None are the keys of a plain one.
        """
        if leaves is None:
            return submitted.parts
        sealed = list[MediaPart]()
        for part in submitted.parts:
            data = await self._load_part(tenant, submitted, part)
            received = await receive_media(
                iterate_bytes(data), most_bytes=self.most_bytes, expected=None
            )
            digest, _ = await self.store.seal_received(tenant, received, leaves)
            sealed.append(part.model_copy(update={"digest": digest}))
        return tuple(sealed)

    async def store_parts(
        self, tenant: str, submitted: SubmittedParts, leaves: LeafSets | None
    ) -> None:
        """Store the bytes that a turn brought; sealed under its keys, those that it named too."""
        put = partial(put_turn_media, self.store, tenant, most_bytes=self.most_bytes)
        if leaves is None:
            for data in submitted.unstored.values():
                await put(data, None)
            return
        for part in submitted.parts:
            await put(await self._load_part(tenant, submitted, part), leaves)

    async def _load_part(self, tenant: str, submitted: SubmittedParts, part: MediaPart) -> bytes:
        """Return the bytes of a part, which may be too many to hold those of all parts."""
        brought = submitted.unstored.get(part.digest)
        return brought or await self.store.get_media(tenant, part.digest)

    def _check_total(self, parts: Sequence[MediaPart]) -> None:
        total, most = sum(part.size for part in parts), MAX_TOTAL_FACTOR * self.most_bytes
        if total > most:
            raise TooLarge("parts", total, most)

    async def _read_bytes(self, tenant: str, sent: _SentMedia) -> bytes:
        if sent.digest is not None:
            return await self._read_stored(tenant, sent.digest, sent.field)
        encoded = sent.encoded or ""
        size = len(encoded) * 3 // 4
        if size > self.most_bytes + 2:
            raise TooLarge(sent.field, size, self.most_bytes)
        data = await run_text_work(partial(_decode_base64, encoded, sent.field), len(encoded))
        if not data:
            raise Refused("invalid", "there are no bytes", field=sent.field, fix="send some")
        return data

    async def _read_stored(self, tenant: str, digest: Digest, field: str) -> bytes:
        fix = "upload it with POST /v1/blobs, or send its bytes"
        found = await self.store.find_media(tenant, digest)
        if found is None:
            detail = "there is no picture, recording or file of this digest"
            raise Refused("unknown-blob", detail, field=field, fix=fix)
        if found.size > self.most_bytes:
            raise TooLarge(field, found.size, self.most_bytes)
        try:
            return await self.store.get_media(tenant, digest)
        except AlteredMedia:
            raise
        except Corrupt as missing:
            # An upload stores what is missing, and nothing else does.
            raise Refused("unknown-blob", missing.detail, field=field, fix=fix) from missing


async def _inspect_part(sent: _SentMedia, data: bytes) -> MediaPart:
    """Return what an event has of a part; raises `Refused` for bytes that are not what it says."""

    def inspect() -> tuple[str | None, MediaFacts, Digest]:
        return *inspect_media(data), sent.digest or compute_digest(data)

    found, facts, digest = await run_text_work(inspect, len(data))
    if found is None:
        detail, fix = "the bytes are of no known type", f"send one of {', '.join(MEDIA_TYPES)}"
        raise Refused("unsupported-media", detail, field=sent.field, fix=fix)
    _check_type(sent, found)
    return MediaPart(
        kind=sent.kind,
        digest=digest,
        size=len(data),
        media_type=found,
        name=sent.name,
        **asdict(facts),
    )


def place_parts(
    form: SubmitTurnRequest, parts: Sequence[MediaPart]
) -> tuple[SubmitTurnRequest, tuple[MediaPart, ...]]:
    """Return a request with its text alone, and its parts with their places in that text.

    The names of the parts are those of the request, of which a rule may have masked some. It may
    have masked places of parts too: those parts are at the end of the text.
    """
    if not parts:
        return form, ()
    pieces = (form.text or "").split(PLACEHOLDER)
    placed: list[MediaPart] = []
    at = 0
    for piece, named, part in zip(chain(pieces, repeat("")), form.parts or (), parts, strict=False):
        at += len(piece)
        name = named.name if isinstance(named, MediaPartInput) else None
        placed.append(part.model_copy(update={"at": at, "name": name}))
    return form.model_copy(update={"text": "".join(pieces)}), tuple(placed)


def _join_parts(parts: Sequence[TurnPartInput]) -> tuple[str, list[_SentMedia]]:
    """Return the text of all parts, a line for each text, and what stands in it."""
    written, sent = "", list[_SentMedia]()
    for place, part in enumerate(parts):
        field = f"parts.{place}"
        if isinstance(part, TextPartInput):
            if PLACEHOLDER in part.text:
                detail, fix = "the text has U+FFFC, which stands for a part", "leave it out"
                raise Refused("bad-text", detail, field=f"{field}.text", fix=fix)
            is_first = not written.strip(PLACEHOLDER)
            written += part.text if is_first else f"\n{part.text}"
        else:
            sent.append(_read_part(part, field))
            written += PLACEHOLDER
    return written, sent


def _read_part(part: MediaPartInput | ImageUrlInput | InputAudioInput, field: str) -> _SentMedia:
    match part:
        case ImageUrlInput(image_url=image):
            return _read_data_url("image", image.url, f"{field}.image_url.url")
        case InputAudioInput(input_audio=sound):
            return _SentMedia(
                kind="audio",
                field=f"{field}.input_audio.data",
                encoded=sound.data,
                media_type=f"audio/{sound.format}",
            )
        case MediaPartInput(type="file", digest=None, data=None, media_type=None, file=file) if (
            file is not None and part.name is None
        ):
            return _read_data_url("file", file.file_data, f"{field}.file.file_data", file.filename)
        case MediaPartInput(digest=digest, data=data, file=None) if (digest is None) != (
            data is None
        ):
            return _SentMedia(
                kind=part.type,
                field=f"{field}.{'data' if digest is None else 'digest'}",
                digest=digest,
                encoded=data,
                media_type=part.media_type,
                name=part.name,
            )
        case _:
            detail, fix = "a part has its bytes in one place", "send either `digest` or `data`"
            raise Refused("invalid", detail, field=field, fix=fix)


def _read_data_url(kind: MediaKind, url: str, field: str, name: str | None = None) -> _SentMedia:
    begun = _DATA_URL.match(url, 0, _MAX_URL_HEAD)
    if begun is None:
        detail = "only a `data:` URL in base64 is taken: no address is fetched"
        fix = "send the bytes as `data:TYPE;base64,...`, or upload them with POST /v1/blobs"
        raise Refused("invalid", detail, field=field, fix=fix)
    return _SentMedia(
        kind=kind,
        field=field,
        encoded=url[begun.end() :],
        media_type=begun[1] or None,
        name=name,
    )


def _check_type(sent: _SentMedia, found: str) -> None:
    """Refuse bytes that are not what the part says they are."""
    try:
        announced = parse_media_type(sent.media_type)
    except Refused as refused:
        detail, fix = refused.detail, refused.fix
        raise Refused("unsupported-media", detail, field=sent.field, fix=fix) from None
    if announced not in {None, found}:
        detail = f"the bytes are {found}, not {quote_sent_name(announced or '')}"
        raise Refused(
            "media-type-differs", detail, field=sent.field, fix="send the type that they are"
        )
    kind = find_media_kind(found)
    if sent.kind != kind:
        detail, fix = f"the bytes are {found}", f"send the part as `{kind}`"
        raise Refused("media-type-differs", detail, field=sent.field, fix=fix)


def _decode_base64(encoded: str, field: str) -> bytes:
    try:
        return b64decode(encoded, validate=True)
    except ValueError:
        fix = "send base64 with its padding and without line breaks"
        raise Refused("invalid", "it is not base64", field=field, fix=fix) from None
