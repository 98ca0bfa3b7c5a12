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

from pydantic import BaseModel

from turnlog.events.content import Digest, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, KeysErased
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import ReplyAnswer
from turnlog.events.recorded_reasoning import REPLY_REASONING_FIELD
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.projections.audit.record.erasure_reach import is_closed
from turnlog.projections.prompt.assembly_inputs import EarlierCall, PromptNeeds, PromptTexts
from turnlog.projections.session.text_refs import TextRef
from turnlog.services.caches.media_cache import MediaReader

_TEXT_FIELDS: Final = frozenset(
    {
        "text",
        "replacement",
        "results",
        "answer",
        "goal",
        "carried",
        "summary",
        "brief",
        "work",
        "arguments",
        "outcomes",
        "cut_reply",
        "rejected",
        "correction",
        "reasoning",
        "signature",
    }
)
"""Event fields that prompts refer to."""

Key = TypeVar("Key", bound=Hashable)

MAX_CACHED_MANIFESTS: Final = 500
"""Maximum number of cached manifests."""


@dataclass
class TextCache(Generic[Key]):
    """A least-recently-used cache of texts by key, bounded by the number of characters."""

    max_characters: int
    texts: OrderedDict[Key, str] = field(default_factory=OrderedDict[Key, str])
    character_count: int = 0

    def get(self, key: Key) -> str | None:
        """Return a cached text, or None."""
        text = self.texts.get(key)
        if text is not None:
            self.texts.move_to_end(key)
        return text

    def put(self, key: Key, text: str) -> None:
        """Cache a text and evict others while there are too many characters."""
        if key in self.texts:
            return
        self.texts[key] = text
        self.character_count += len(text)
        while self.character_count > self.max_characters and len(self.texts) > 1:
            self.character_count -= len(self.texts.popitem(last=False)[1])

    def clear(self) -> None:
        """Drop all texts."""
        self.texts.clear()
        self.character_count = 0


EventT = TypeVar("EventT", bound=BaseModel)


async def read_event(
    log: EventLog, tenant: str, stream_position: int, kind: type[EventT]
) -> EventT:
    """Return the event at a position of the stream; raise `Corrupt` if it is of another kind."""
    (recorded,) = await log.read_events_at(tenant, [stream_position])
    if not isinstance(recorded.event, kind):
        raise Corrupt(f"event {recorded.sequence}", f"it is no {kind.__name__}")
    return recorded.event


@dataclass(kw_only=True)
class TextReader:
    """Fetches the texts that assembling a prompt needs."""

    log: EventLog
    blobs: BlobStore
    media: MediaReader
    """Reads the pictures, recordings and files of prompts that are sent."""
    event_texts: TextCache[tuple[str, int, str]] = field(
        default_factory=lambda: TextCache[tuple[str, int, str]](20_000_000)
    )
    blob_texts: TextCache[tuple[str, Digest]] = field(
        default_factory=lambda: TextCache[tuple[str, Digest]](20_000_000)
    )
    earlier_calls: OrderedDict[tuple[str, int], EarlierCall] = field(
        default_factory=OrderedDict[tuple[str, int], EarlierCall]
    )
    """The latest calls that were read, by tenant and stream position."""

    def forget_texts(self) -> None:
        """Drop all texts and media, since some of them were erased; the others are read again."""
        self.event_texts.clear()
        self.blob_texts.clear()
        self.earlier_calls.clear()
        self.media.forget_media()

    async def fetch_texts(self, tenant: str, needs: PromptNeeds) -> PromptTexts:
        """Return every text that a call needs; raise `Corrupt` when one cannot be read."""
        texts_by_ref, blobs, earlier = await asyncio.gather(
            self.read_texts(tenant, needs.text_refs),
            self.read_blobs(tenant, needs.blobs),
            self._fetch_earlier_call(tenant, needs.earlier_sequence),
        )
        return PromptTexts(blobs, texts_by_ref, earlier)

    async def _fetch_earlier_call(
        self, tenant: str, stream_position: int | None
    ) -> EarlierCall | None:
        if stream_position is None:
            return None
        if cached := self.earlier_calls.get((tenant, stream_position)):
            return cached
        event = await read_event(self.log, tenant, stream_position, ContextAssembled)
        return self._cache_earlier_call(tenant, stream_position, event)

    def _cache_earlier_call(
        self, tenant: str, stream_position: int, event: ContextAssembled
    ) -> EarlierCall:
        earlier = EarlierCall(event.call, event.manifest)
        self.earlier_calls[tenant, stream_position] = earlier
        while len(self.earlier_calls) > MAX_CACHED_MANIFESTS:
            self.earlier_calls.popitem(last=False)
        return earlier

    async def read_blobs(self, tenant: str, digests: Iterable[Digest]) -> Mapping[Digest, str]:
        """Return the texts of blobs by digest."""
        unique_digests = tuple(dict.fromkeys(digests))
        texts = await asyncio.gather(
            *(self._read_blob(tenant, digest) for digest in unique_digests)
        )
        return dict(zip(unique_digests, texts, strict=True))

    async def _read_blob(self, tenant: str, digest: Digest) -> str:
        text = self.blob_texts.get((tenant, digest))
        if text is None:
            text = (await self.blobs.get_blob(tenant, digest)).decode()
            self.blob_texts.put((tenant, digest), text)
        return text

    async def read_texts(self, tenant: str, refs: Iterable[TextRef]) -> Mapping[TextRef, str]:
        """Return the texts of events by reference."""
        found: dict[TextRef, str] = {}
        missing: list[TextRef] = []
        for ref in refs:
            text = self.event_texts.get((tenant, ref.place, ref.field))
            if text is None:
                missing.append(ref)
            else:
                found[ref] = text
        if missing:
            places = sorted({ref.place for ref in missing})
            events = await self.log.read_events_at(tenant, places)
            self.cache_events(events)
            erased = {each.stream_sequence for each in events if is_closed(each)}
            found |= {
                ref: self._require_event_text(tenant, ref, is_erased=ref.place in erased)
                for ref in missing
            }
        return found

    def _require_event_text(self, tenant: str, ref: TextRef, *, is_erased: bool) -> str:
        text = self.event_texts.get((tenant, ref.place, ref.field))
        if text is None and is_erased:
            raise KeysErased(f"of event {ref.sequence}")
        if text is None:
            raise Corrupt(f"event {ref.sequence}", f"its {ref.field} is no longer readable")
        return text

    def cache_events(self, events: Iterable[RecordedEvent]) -> None:
        """Cache the texts and manifests of events that were read anyway."""
        for recorded in events:
            if isinstance(recorded.event, ContextAssembled):
                self._cache_earlier_call(recorded.tenant, recorded.stream_sequence, recorded.event)
            # Looking up a missing field takes 2.8 us on a pydantic model, and 0.06 in its
            # `__dict__` (`timeit`).
            fields: Mapping[str, object] = getattr(recorded.event, "__dict__", {})
            for name, content in fields.items():
                if name not in _TEXT_FIELDS:
                    continue
                text = content.text if isinstance(content, PlainText) else content
                if isinstance(text, str):
                    self.event_texts.put((recorded.tenant, recorded.stream_sequence, name), text)
            answer = fields.get("answer")
            if isinstance(answer, ReplyAnswer) and isinstance(answer.reasoning, PlainText):
                place = (recorded.tenant, recorded.stream_sequence, REPLY_REASONING_FIELD)
                self.event_texts.put(place, answer.reasoning.text)
