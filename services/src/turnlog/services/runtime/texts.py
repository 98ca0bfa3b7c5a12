"""Fetching what a call refers to: what was said, from the log, and prompt texts, from blobs.

Texts never change, so what was once read is kept, up to a number of characters, and so are the
latest manifests, which the next calls are compared with. A text that cannot be opened any more is
an error here, never a hole in a prompt.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest, Plain
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Blobs, Log
from turnlog.projections.session.state import Said
from turnlog.projections.window.call import Earlier, Needs, Texts

_TEXTS: Final = ("text", "replacement", "results", "answer", "goal", "carried", "summary", "work")
"""Fields of events that prompts refer to."""

Key = TypeVar("Key", bound=Hashable)

CALLS: Final = 500
"""Manifests held at once."""


@dataclass
class TextCache(Generic[Key]):
    """Texts by key; the one not asked for the longest goes first."""

    most_characters: int
    held: OrderedDict[Key, str] = field(default_factory=OrderedDict[Key, str])
    characters: int = 0

    def get(self, key: Key) -> str | None:
        """Give a text if it is held."""
        text = self.held.get(key)
        if text is not None:
            self.held.move_to_end(key)
        return text

    def put(self, key: Key, text: str) -> None:
        """Hold a text, and let go of others when there are too many characters."""
        if key in self.held:
            return
        self.held[key] = text
        self.characters += len(text)
        while self.characters > self.most_characters and len(self.held) > 1:
            self.characters -= len(self.held.popitem(last=False)[1])


@dataclass
class TextReader:
    """Reads texts for assembling."""

    log: Log
    blobs: Blobs
    said: TextCache[tuple[str, int, str]] = field(
        default_factory=lambda: TextCache[tuple[str, int, str]](20_000_000)
    )
    stored: TextCache[tuple[str, Digest]] = field(
        default_factory=lambda: TextCache[tuple[str, Digest]](20_000_000)
    )
    calls: OrderedDict[tuple[str, int], Earlier] = field(
        default_factory=OrderedDict[tuple[str, int], Earlier]
    )
    """The latest that passed by, by where they stand."""

    async def fetch(self, tenant: str, needs: Needs) -> Texts:
        """Give every text a call needs; raises `Corrupt` where one cannot be had."""
        said, blobs, earlier = await asyncio.gather(
            self._said(tenant, needs.said),
            self.read_blobs(tenant, needs.blobs),
            self._earlier(tenant, needs.earlier),
        )
        return Texts(blobs, said, earlier)

    async def _earlier(self, tenant: str, place: int | None) -> Earlier | None:
        if place is None:
            return None
        if held := self.calls.get((tenant, place)):
            return held
        (recorded,) = await self.log.at(tenant, [place])
        if not isinstance(recorded.event, ContextAssembled):
            raise Corrupt(f"event {recorded.sequence}", "it is not the context of a call")
        return self._called(recorded, recorded.event)

    def _called(self, recorded: Recorded, event: ContextAssembled) -> Earlier:
        earlier = Earlier(event.call, event.manifest)
        self.calls[recorded.tenant, recorded.stream_sequence] = earlier
        while len(self.calls) > CALLS:
            self.calls.popitem(last=False)
        return earlier

    async def read_blobs(self, tenant: str, digests: Iterable[Digest]) -> Mapping[Digest, str]:
        """Give the texts of blobs."""
        wanted = tuple(dict.fromkeys(digests))
        texts = await asyncio.gather(*(self._blob(tenant, digest) for digest in wanted))
        return dict(zip(wanted, texts, strict=True))

    async def _blob(self, tenant: str, digest: Digest) -> str:
        held = self.stored.get((tenant, digest))
        if held is None:
            held = (await self.blobs.get(tenant, digest)).decode()
            self.stored.put((tenant, digest), held)
        return held

    async def _said(self, tenant: str, wanted: Iterable[Said]) -> Mapping[Said, str]:
        found: dict[Said, str] = {}
        missing: list[Said] = []
        for said in wanted:
            text = self.said.get((tenant, said.place, said.field))
            if text is None:
                missing.append(said)
            else:
                found[said] = text
        if missing:
            places = sorted({said.place for said in missing})
            self.note(await self.log.at(tenant, places))
            found |= {said: self._held(tenant, said) for said in missing}
        return found

    def _held(self, tenant: str, said: Said) -> str:
        text = self.said.get((tenant, said.place, said.field))
        if text is None:
            raise Corrupt(f"event {said.sequence}", f"its {said.field} cannot be read any more")
        return text

    def note(self, events: Iterable[Recorded]) -> None:
        """Hold the texts and the calls of events that passed by anyway."""
        for recorded in events:
            if isinstance(recorded.event, ContextAssembled):
                self._called(recorded, recorded.event)
            # Asking a model for a field that it lacks takes longer than all else in here
            said: Mapping[str, object] = getattr(recorded.event, "__dict__", {})
            for name in _TEXTS:
                content = said.get(name)
                if isinstance(content, Plain):
                    key = (recorded.tenant, recorded.stream_sequence, name)
                    self.said.put(key, content.text)
