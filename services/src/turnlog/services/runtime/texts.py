"""Fetching and caching the texts of prompts: event texts from the log, others from blobs.

Texts never change, so they are cached up to a number of characters. So are the latest manifests,
which the next calls are compared with. A text that can no longer be read raises an error and never
leaves a hole in a prompt.
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
"""Event fields that prompts refer to."""

Key = TypeVar("Key", bound=Hashable)

CALLS: Final = 500
"""Maximum number of cached manifests."""


@dataclass
class TextCache(Generic[Key]):
    """A least-recently-used cache of texts by key, bounded by the number of characters."""

    most_characters: int
    held: OrderedDict[Key, str] = field(default_factory=OrderedDict[Key, str])
    characters: int = 0

    def get(self, key: Key) -> str | None:
        """Return a cached text, or None."""
        text = self.held.get(key)
        if text is not None:
            self.held.move_to_end(key)
        return text

    def put(self, key: Key, text: str) -> None:
        """Cache a text and evict others while there are too many characters."""
        if key in self.held:
            return
        self.held[key] = text
        self.characters += len(text)
        while self.characters > self.most_characters and len(self.held) > 1:
            self.characters -= len(self.held.popitem(last=False)[1])


@dataclass
class TextReader:
    """Fetches the texts that assembling a prompt needs."""

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
    """The latest calls that were read, by tenant and stream position."""

    async def fetch(self, tenant: str, needs: Needs) -> Texts:
        """Return every text that a call needs; raise `Corrupt` when one cannot be read."""
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
        """Return the texts of blobs by digest."""
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
        """Cache the texts and manifests of events that were read anyway."""
        for recorded in events:
            if isinstance(recorded.event, ContextAssembled):
                self._called(recorded, recorded.event)
            # Looking up a missing field on a pydantic model is the slowest step here; `__dict__`
            # avoids it.
            said: Mapping[str, object] = getattr(recorded.event, "__dict__", {})
            for name in _TEXTS:
                content = said.get(name)
                if isinstance(content, Plain):
                    key = (recorded.tenant, recorded.stream_sequence, name)
                    self.said.put(key, content.text)
