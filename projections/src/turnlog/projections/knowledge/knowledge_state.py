"""The state of a tenant's knowledge, folded from its events: which entries there are.

It contains neither texts nor properties, only a fingerprint of each entry, so that a hundred
thousand of them fit into any process. What an entry says is in the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from turnlog.events.codec import decode_knowledge_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.knowledge_events import (
    KnowledgeAdded,
    KnowledgeEdited,
    KnowledgeEntry,
    KnowledgeRemoved,
)
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun
from turnlog.events.registry import UnknownEvent
from turnlog.projections.library.sealed_texts import get_text_digest


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry as commands are decided about it."""

    fingerprint: Digest
    """Digest of the entry's description; another one is an edit."""
    source: str | None


@dataclass(frozen=True, slots=True)
class KnowledgeChanges:
    """The result of a knowledge command: the ids of the entries that it changed."""

    sequence: int = 0
    """The sequence of its last event."""
    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnowledgeCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    """The digest of the command's body."""
    result: KnowledgeChanges = KnowledgeChanges()


Collections = Mapping[str, Mapping[str, KnownEntry]]


@dataclass(frozen=True, slots=True)
class KnowledgeState:
    """The entries of a tenant, by collection and id."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    collections: Collections = field(default_factory=dict[str, Mapping[str, KnownEntry]])
    """Collections with at least one entry."""
    commands_by_key: Mapping[str, KnowledgeCommandRecord] = field(
        default_factory=dict[str, KnowledgeCommandRecord]
    )
    """Command results by idempotency key, kept for the life of the history."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0


def describe_known_entry(entry: KnowledgeEntry) -> KnownEntry:
    """Return what the state contains of an entry."""
    said = entry.model_copy(update={"digest": get_text_digest(entry), "text_digest": None})
    return KnownEntry(compute_digest(said.model_dump_json()), entry.source)


def fold_knowledge(events: Iterable[RecordedEvent], state: KnowledgeState) -> KnowledgeState:
    """Apply events to a state, in order."""
    copied: dict[str, dict[str, KnownEntry]] = {}
    commands, head = dict(state.commands_by_key), state.head
    for recorded in events:
        event, head = decode_knowledge_event(recorded), recorded.head
        if not isinstance(event, UnknownEvent | SourceErased) and event.collection is not None:
            if event.collection not in copied:
                copied[event.collection] = dict(state.collections.get(event.collection, {}))
            _apply_event(copied[event.collection], event)
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            before = commands.get(key, KnowledgeCommandRecord(digest)).result
            commands[key] = KnowledgeCommandRecord(digest, _add_to_changes(before, recorded))
    collections = {**state.collections, **copied}
    remaining = {name: entries for name, entries in collections.items() if entries}
    return KnowledgeState(state.tenant, head, remaining, commands)


def _apply_event(
    entries: dict[str, KnownEntry],
    event: KnowledgeAdded | KnowledgeEdited | KnowledgeRemoved | SourceErasureBegun,
) -> None:
    match event:
        case KnowledgeAdded(entries=changed) | KnowledgeEdited(entries=changed):
            entries.update((each.id, describe_known_entry(each)) for each in changed)
        case KnowledgeRemoved(entries=ids) | SourceErasureBegun(entries=ids):
            for each in ids:
                entries.pop(each, None)
        case _ as never:
            assert_never(never)


def collect_changes(events: Iterable[RecordedEvent]) -> KnowledgeChanges:
    """Return the result of a command from the events it led to."""
    changes = KnowledgeChanges()
    for recorded in events:
        changes = _add_to_changes(changes, recorded)
    return changes


def _add_to_changes(before: KnowledgeChanges, recorded: RecordedEvent) -> KnowledgeChanges:
    added, edited, removed = before.added, before.edited, before.removed
    match decode_knowledge_event(recorded):
        case KnowledgeAdded(entries=entries):
            added += tuple(each.id for each in entries)
        case KnowledgeEdited(entries=entries):
            edited += tuple(each.id for each in entries)
        case KnowledgeRemoved(entries=ids):
            removed += ids
        case UnknownEvent() | SourceErasureBegun() | SourceErased():
            pass
        case _ as never:
            assert_never(never)
    return KnowledgeChanges(recorded.sequence, added, edited, removed)
