"""Seals the words of an event into its box.

The box has the digest of the command as well, since a short text can be guessed from it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, JsonValue

from turnlog.events.seals.boxes import seal_box
from turnlog.events.seals.sealed_payload import (
    SealedPayload,
    build_event_place,
    encode_json,
)
from turnlog.events.seals.word_fields import JsonObject, split_words


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeal:
    """The key that one event is sealed under."""

    key: bytes
    leaves: str
    """The name of the leaves that it follows from."""

    def seal_event(self, kind: type[BaseModel], opened: bytes) -> bytes:
        """Return the bytes to store of an event; the same ones if it has no words."""
        envelope: JsonObject = json.loads(opened)
        rest, words = split_words(kind, cast("JsonObject", envelope.pop("data")))
        command_hash = envelope.pop("commandhash", None)
        if not words and not command_hash:
            return opened
        content: JsonObject = {"words": words} if words else {}
        if command_hash:
            content["hash"] = command_hash
        place = build_event_place(
            cast("str", envelope["tenant"]),
            cast("int", envelope["sequence"]),
            cast("str", envelope["type"]),
            self.leaves,
        )
        box = seal_box(self.key, place, encode_json(content).encode())
        sealed: JsonObject = {
            **envelope,
            "sealedof": self.leaves,
            "sealed": b64encode(box).decode(),
            "data": cast("JsonValue", rest),
        }
        return SealedPayload(encode_json(sealed).encode(), self.key, opened=opened)
