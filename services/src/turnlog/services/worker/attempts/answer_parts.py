"""The pictures, recordings and files of an answer: decoded, stored, and named for its event."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import pack
from typing import Final

import structlog

from turnlog.events.model.content_parts import MAX_MEDIA_BYTES, MediaPart
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.storable_text import replace_unstorable
from turnlog.events.store.ports import MediaStore
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.projections.quotas.media_limits import MediaLimitReached
from turnlog.services.media.incoming_media import (
    MAX_INCOMING_BYTES,
    IncomingMedia,
    measure_decoded,
    store_incoming_media,
)
from turnlog.services.media.media_types import HEAD_BYTES, UNSPECIFIED_TYPE, detect_media_type
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.model_types import RAW_SOUND_TYPE, MediaDelta, ModelFailure

_log = structlog.get_logger("turnlog.attempts")

MAX_NAME_CHARACTERS: Final = 200
"""Characters that are kept of a name and of a type, which the provider chose."""

_SAMPLES_PER_SECOND: Final = 24_000

_SAMPLE_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class AnswerMediaIntake:
    """Stores the media of answers, as many at a time as a process has room for."""

    store: MediaStore
    room: MediaRoom
    leaves: LeafSets | None = None
    """What the answer is sealed under; None in a session that is not sealed."""

    async def store_part(
        self, tenant: str, delta: MediaDelta, at: int, before: Sequence[MediaPart]
    ) -> MediaPart:
        """Store media of an answer and return its part; `before` are those stored of it.

        Raises `ModelFailure` for what is none, and for an answer that has too much. Waits for room
        in memory before anything is decoded.
        """
        characters = sum(map(len, delta.pieces))
        total = sum(each.size for each in before) + sum(map(measure_decoded, delta.pieces))
        if total > MAX_INCOMING_BYTES:
            detail = f"its pictures, recordings and files are more than {MAX_INCOMING_BYTES} bytes"
            raise ModelFailure("too_long", detail)
        with self.room.open_share() as share:
            await share.reserve(characters)
            media = await run_text_work(partial(_decode_media, delta), characters)
            return await store_incoming_media(
                store=self.store, tenant=tenant, media=media, at=at, leaves=self.leaves
            )


def format_unstored_line(delta: MediaDelta, reached: MediaLimitReached) -> str:
    """Return the line in the place of media that the limit of the tenant leaves no room for."""
    _log.warning("answer-media-left-out", why=reached.detail)
    size = sum(map(measure_decoded, delta.pieces))
    kind = replace_unstorable(cut_text(delta.media_type, MAX_NAME_CHARACTERS))
    return f"({kind or UNSPECIFIED_TYPE}, {size} bytes, not stored: the limit of media is reached)"


def _decode_media(delta: MediaDelta) -> IncomingMedia:
    try:
        data = b"".join(b64decode(each, validate=True) for each in delta.pieces)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        raise ModelFailure("malformed", "the answer has a picture or a recording without bytes")
    if len(data) > MAX_MEDIA_BYTES:
        raise ModelFailure("too_long", f"a picture of it is more than {MAX_MEDIA_BYTES} bytes")
    media_type = replace_unstorable(cut_text(delta.media_type, MAX_NAME_CHARACTERS))
    if media_type == RAW_SOUND_TYPE:
        data, media_type = _wrap_samples(data), "audio/wav"
    name = delta.name and replace_unstorable(cut_text(delta.name, MAX_NAME_CHARACTERS))
    return IncomingMedia(data, media_type or UNSPECIFIED_TYPE, name)


def _wrap_samples(data: bytes) -> bytes:
    """Return a recording that players can play: OpenAI streams samples without a header.

    They are of one channel, 16 bits and 24 kHz. Bytes that have a header stay as they are.
    """
    if (detect_media_type(data[:HEAD_BYTES]) or "").startswith("audio/"):
        return data
    per_second = _SAMPLES_PER_SECOND * _SAMPLE_BYTES
    form = pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, _SAMPLES_PER_SECOND, per_second, _SAMPLE_BYTES, 16)
    body = form + pack("<4sI", b"data", len(data)) + data
    return pack("<4sI4s", b"RIFF", 4 + len(body), b"WAVE") + body
