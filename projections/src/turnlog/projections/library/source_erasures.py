"""What an erasure reaches in a tenant's library, as the stored bytes say it.

A source is named as `turnlog uses` names one. Each of its texts is under the key of the event that
brought it, so an erasure of it is a list of events, and what names one of their keys is reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import (
    KNOWLEDGE_FAMILY,
    KnowledgeAdded,
    KnowledgeEdited,
)
from turnlog.events.model.override_events import OVERRIDE_FAMILY, OverrideSet
from turnlog.events.model.redaction_events import SourceErasureBegun
from turnlog.events.model.segment_events import SEGMENT_FAMILY, SegmentsAdded, SegmentsEdited
from turnlog.events.registry import LibraryEvent, UnknownEvent
from turnlog.events.seals.leaf_sets import (
    LeafRuns,
    format_leaves,
    has_common_leaf,
    name_library_keys,
    parse_leaf_runs,
    parse_leaves,
)
from turnlog.events.seals.sealed_payload import parse_sealed_header
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.library.sealed_texts import find_text_digest

ERASABLE_FAMILIES: Final = (KNOWLEDGE_FAMILY, SEGMENT_FAMILY, OVERRIDE_FAMILY)
"""The families of the library that have words."""

ERASABLE_FORMS: Final = (
    "document:COLLECTION/ENTRY",
    "collection:COLLECTION",
    "segment:NUMBER",
    "segment:NUMBER@VERSION",
    "override:BLUEPRINT/CATEGORY/USER",
    "overrides:USER",
)
"""The forms of the name of what can be erased."""

MAX_NAMED_ENTRIES: Final = 1_000
"""Most entries that one erasure names; a larger collection is erased by several."""

_DOCUMENT: Final = re.compile(r"document:([^/]+)/(.+)", re.DOTALL)

_COLLECTION: Final = re.compile(r"collection:([^/]+)")

_SEGMENT: Final = re.compile(r"segment:([1-9][0-9]{0,14})(?:@([1-9][0-9]{0,14}))?")

_OVERRIDE: Final = re.compile(r"override:([^/]+)/([^/]+)/(.+)", re.DOTALL)

_OVERRIDES: Final = re.compile(r"overrides:(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedSource:
    """What is erased of a library: all texts to which everything applies that is not None."""

    name: str
    """Its name, as it was sent."""
    family: str
    collection: str | None = None
    entry: str | None = None
    segment: int | None = None
    version: int | None = None
    user: str | None = None
    blueprint: str | None = None
    category: str | None = None


def parse_erased_source(name: str) -> ErasedSource:
    """Return what a name stands for; raises `Refused` for what is none that can be erased."""
    if found := _DOCUMENT.fullmatch(name):
        return ErasedSource(name=name, family=KNOWLEDGE_FAMILY, collection=found[1], entry=found[2])
    if found := _COLLECTION.fullmatch(name):
        return ErasedSource(name=name, family=KNOWLEDGE_FAMILY, collection=found[1])
    if found := _SEGMENT.fullmatch(name):
        version = int(found[2]) if found[2] else None
        return ErasedSource(
            name=name, family=SEGMENT_FAMILY, segment=int(found[1]), version=version
        )
    if found := _OVERRIDE.fullmatch(name):
        return ErasedSource(
            name=name,
            family=OVERRIDE_FAMILY,
            blueprint=found[1],
            category=found[2],
            user=found[3],
        )
    if found := _OVERRIDES.fullmatch(name):
        return ErasedSource(name=name, family=OVERRIDE_FAMILY, user=found[1])
    fix = f"send one of: {', '.join(ERASABLE_FORMS)}"
    what = f"{quote_sent_name(name)} is nothing that can be erased"
    raise Refused("invalid", what, field="source", fix=fix)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of a source, by the event that brought it."""

    sequence: int
    entry: str | None
    """The entry of knowledge that it is of; None for all else."""
    is_sealed: bool


def list_source_texts(
    events: Iterable[RecordedEvent], source: ErasedSource
) -> Iterator[SourceText]:
    """Yield the texts of a source that events brought, those that were erased before too."""
    for recorded in events:
        for entry in _list_matches(decode_library_event(recorded), source):
            is_sealed = parse_sealed_header(recorded.stored) is not None
            yield SourceText(recorded.sequence, entry, is_sealed)


def _list_matches(event: LibraryEvent | UnknownEvent, source: ErasedSource) -> list[str | None]:
    """Return the entries of an event that a source is or has; None once for what is no entry."""
    match event:
        case KnowledgeAdded() | KnowledgeEdited() if event.collection == source.collection:
            return [each.id for each in event.entries if source.entry in {None, each.id}]
        case SegmentsAdded():
            found = ((each.id, each.version) for each in event.segments)
        case SegmentsEdited():
            found = ((each.id, each.version) for each in event.versions)
        case OverrideSet(user=user, blueprint=blueprint, override=override):
            wanted = (
                source.user == user,
                source.blueprint in {None, blueprint},
                source.category in {None, override.category},
            )
            return [None] if all(wanted) else []
        case _:
            return []
    return [
        None
        for segment, version in found
        if segment == source.segment and source.version in {None, version}
    ]


def plan_source_erasure(
    events: Sequence[RecordedEvent], source: ErasedSource, reason: str
) -> list[SourceErasureBegun]:
    """Return the events that begin the erasure of a source, from all events of its family.

    Raises `Refused` if there is no such source, if all of it is erased, or if something of it is
    not sealed.
    """
    texts = list(list_source_texts(events, source))
    if not texts:
        detail = f"the library never had {quote_sent_name(source.name)}"
        raise Refused("not-in-library", detail, field="source")
    if plain := next((each for each in texts if not each.is_sealed), None):
        detail = f"event {plain.sequence} of the library brought a text of it that is not sealed"
        fix = "remove it; what is added with TURNLOG_SEALING=on can be erased"
        raise Refused("not-sealed", detail, field="source", fix=fix)
    gone = list_erased_sequences(events, source.family)
    left = [each for each in texts if each.sequence not in gone]
    if not left:
        raise Refused("already-erased", "all words of it are erased", field="source")
    return [_build_begun(source, some, reason) for some in _split_texts(left)]


def _split_texts(texts: Sequence[SourceText]) -> Iterator[list[SourceText]]:
    """Yield the texts in parts that have a limited number of entries, each entry in one of them."""
    by_entry: dict[str | None, list[SourceText]] = {}
    for each in texts:
        by_entry.setdefault(each.entry, []).append(each)
    groups = list(by_entry.values())
    for start in range(0, len(groups), MAX_NAMED_ENTRIES):
        yield [each for group in groups[start : start + MAX_NAMED_ENTRIES] for each in group]


def _build_begun(
    source: ErasedSource, texts: Sequence[SourceText], reason: str
) -> SourceErasureBegun:
    leaves = {name_library_keys(source.family): frozenset(each.sequence for each in texts)}
    entries = tuple(dict.fromkeys(each.entry for each in texts if each.entry is not None))
    return SourceErasureBegun(
        leaves=format_leaves(leaves),
        source=source.name,
        reason=reason,
        collection=source.collection,
        entries=entries,
        segment=source.segment,
    )


def list_erased_sequences(events: Iterable[RecordedEvent], family: str) -> frozenset[int]:
    """Return the events of a family whose words are erased, or will be."""
    return frozenset(
        sequence
        for recorded in events
        if isinstance(event := decode_library_event(recorded), SourceErasureBegun)
        for sequence in list_begun_sequences(event, family)
    )


def list_begun_sequences(event: SourceErasureBegun, family: str) -> frozenset[int]:
    """Return the events of a family whose words an erasure removes."""
    return get_family_leaves(parse_leaves(event.leaves), family)


def list_erased_digests(
    events: Iterable[RecordedEvent], begun: SourceErasureBegun
) -> tuple[Digest, ...]:
    """Return the digests by which prompts name the texts that an erasure names."""
    runs = parse_leaf_runs(begun.leaves) or {}
    brought = (decode_library_event(each) for each in events if is_sealed_under(each, runs))
    found = (find_text_digest(each) for each in brought)
    return tuple(stored for stored, _ in filter(None, found))


def is_sealed_under(recorded: RecordedEvent, leaves: LeafRuns) -> bool:
    """Return whether an event of a library is under one of these keys."""
    header = parse_sealed_header(recorded.stored)
    return header is not None and has_common_leaf(parse_leaf_runs(header.leaves) or {}, leaves)


def get_family_leaves(leaves: Mapping[str, frozenset[int]], family: str) -> frozenset[int]:
    """Return those of these leaves that are of a family."""
    return leaves.get(name_library_keys(family), frozenset())
