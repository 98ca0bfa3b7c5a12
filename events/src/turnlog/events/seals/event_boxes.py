"""Seals the words of an event into its box.

The box has the digest of the command as well, since a short text can be guessed from it, and the
names of people, by the pseudonyms that stand in their places.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from turnlog.events.seals.boxes import seal_box
from turnlog.events.seals.person_names import PseudonymKey
from turnlog.events.seals.sealed_payload import (
    DATA_START,
    SealedPayload,
    join_event,
    parse_event_place,
)
from turnlog.events.seals.word_fields import JsonObject, split_words
from turnlog.events.seals.written_events import WrittenEvents

_COMMAND_HASH: Final = re.compile(rb',"commandhash":"([^"\\]*)"')
"""Matches in the header of an event alone: in a text of it a quotation mark is escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeal:
    """The key that one event is sealed under."""

    key: bytes
    leaves: str
    """The name of the leaves that it follows from."""
    pseudonyms: PseudonymKey
    """What stands in the places of names follows from it."""
    written: WrittenEvents | None = None
    """Where readers of this process find the event."""

    def seal_event(self, kind: type[BaseModel], opened: bytes) -> bytes:
        """Return the bytes to store of an event; the same ones if it has no words."""
        header, _, encoded = opened[:-1].partition(DATA_START)
        data = from_json(encoded)
        header, names = self.pseudonyms.replace_names(kind, header, data)
        rest, words = split_words(kind, data)
        command_hash = _COMMAND_HASH.search(header)
        if not words and not command_hash and not names:
            return opened
        content: JsonObject = {"words": words} if words else {}
        if names:
            content["names"] = {**names}
        if command_hash:
            content["hash"] = command_hash[1].decode()
            header = header[: command_hash.start()] + header[command_hash.end() :]
        place = parse_event_place(header)
        box = b64encode(seal_box(self.key, place.bind(self.leaves), to_json(content)))
        start = b'%b,"sealedof":"%b","sealed":"%b"' % (header, self.leaves.encode(), box)
        left = to_json(rest)
        stored = start + DATA_START + left + b"}"
        # As every other reader gets it, to the order of its fields.
        payload = SealedPayload(stored, self.key, opened=join_event(header, left, content))
        if self.written is not None:
            self.written.add_event(place.tenant, self.leaves, payload)
        return payload
