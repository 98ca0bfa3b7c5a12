"""Decides knowledge commands: returns the events of a command, or raises `Refused`.

`Refused` names the field at fault; a command that changes nothing gives no events. A command takes
all its entries or none. An import that replaces its sources removes what the same files gave before
and give no longer, so that importing a folder again edits instead of doubling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, assert_never

from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import (
    KnowledgeAdded,
    KnowledgeEdited,
    KnowledgeEntry,
    KnowledgeEvent,
    KnowledgeRemoved,
)
from turnlog.projections.blueprint.sent_names import format_sent_name, quote_sent_name
from turnlog.projections.knowledge.knowledge_inputs import (
    EntryInput,
    KnowledgeCommand,
    PutEntries,
    RemoveEntries,
    check_collection_name,
    find_entry_faults,
)
from turnlog.projections.knowledge.knowledge_state import (
    KnowledgeState,
    describe_known_entry,
)

MAX_ENTRIES_PER_EVENT: Final = 50
"""Maximum number of described entries in one event; a reader that looks for news loads the last
event whole.
"""

MAX_IDS_PER_EVENT: Final = 1_000

Item = TypeVar("Item")


def decide_knowledge(
    state: KnowledgeState, command: KnowledgeCommand
) -> tuple[KnowledgeEvent, ...]:
    """Return the events of a command; raise `Refused` naming the field at fault."""
    check_collection_name(command.collection)
    match command:
        case PutEntries():
            return tuple(_decide_put(state, command))
        case RemoveEntries():
            return tuple(_decide_removal(state, command))
        case _ as never:
            assert_never(never)


def _decide_put(state: KnowledgeState, command: PutEntries) -> Iterator[KnowledgeEvent]:
    _check_entries(command.entries)
    known = state.collections.get(command.collection, {})
    described = [each.describe() for each in command.entries]
    name = command.collection
    if command.replace_sources:
        ids, sources = {each.id for each in described}, {each.source for each in described}
        gone = [
            id
            for id, entry in known.items()
            if entry.source is not None and entry.source in sources and id not in ids
        ]
        for some in _split(sorted(gone), MAX_IDS_PER_EVENT):
            yield KnowledgeRemoved(collection=name, entries=some)
    yield from _build_events(
        [each for each in described if each.id not in known],
        lambda some: KnowledgeAdded(collection=name, entries=some),
    )
    yield from _build_events(
        [
            each
            for each in described
            if each.id in known and known[each.id] != describe_known_entry(each)
        ],
        lambda some: KnowledgeEdited(collection=name, entries=some),
    )


def _check_entries(entries: Sequence[EntryInput]) -> None:
    ids = dict[str, int]()
    for number, entry in enumerate(entries):
        for fault in find_entry_faults(entry):
            place = f"entries.{number}.{fault.field}"
            raise Refused("invalid", fault.what, field=place, fix=fault.fix)
        if entry.id in ids:
            what = f"number {ids[entry.id]} of this request has the same id"
            fix = "give each entry an id of its own"
            raise Refused("invalid", what, field=f"entries.{number}.id", fix=fix)
        ids[entry.id] = number


def _decide_removal(state: KnowledgeState, command: RemoveEntries) -> Iterator[KnowledgeEvent]:
    known = state.collections.get(command.collection)
    if known is None:
        raise build_unknown_collection(command.collection, state)
    for each in command.entries or ():
        if each not in known:
            raise build_unknown_entry(command.collection, each)
    ids = sorted(known if command.entries is None else set(command.entries))
    for some in _split(ids, MAX_IDS_PER_EVENT):
        yield KnowledgeRemoved(collection=command.collection, entries=some)


def build_unknown_entry(collection: str, entry: str) -> Refused:
    """Return the refusal of an entry that a collection does not have."""
    detail = f"{format_sent_name(collection)} has no entry {quote_sent_name(entry)}"
    return Refused("unknown-entry", detail, field="entry")


def build_unknown_collection(collection: str, state: KnowledgeState) -> Refused:
    """Return the refusal of a collection that a tenant does not have."""
    names = ", ".join(sorted(state.collections)[:20])
    fix = f"use one of these: {names}" if names else "add an entry, which creates the collection"
    detail = f"there is no collection {quote_sent_name(collection)}"
    return Refused("unknown-collection", detail, field="collection", fix=fix)


def _build_events(
    entries: Sequence[KnowledgeEntry],
    build: Callable[[tuple[KnowledgeEntry, ...]], KnowledgeEvent],
) -> Iterator[KnowledgeEvent]:
    for some in _split(entries, MAX_ENTRIES_PER_EVENT):
        yield build(some)


def _split(items: Sequence[Item], size: int) -> Iterator[tuple[Item, ...]]:
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])
