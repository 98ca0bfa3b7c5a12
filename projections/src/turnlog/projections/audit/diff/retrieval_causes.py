"""Retrieval causes: why an entry of the knowledge is in one prompt and not in another.

A retrieval takes another entry because the knowledge or the query is another one, or because votes
that were given meanwhile exclude an entry, or let it through again. Where votes exclude a better
entry, a worse one takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import KnowledgeSource
from turnlog.events.model.retrieval_events import (
    CandidateVote,
    KnowledgeRetrieved,
    RetrievalCandidate,
)
from turnlog.projections.audit.diff.diff_reasons import ReasonEvent
from turnlog.projections.audit.diff.manifest_entries import ManifestEntry
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.provenance_events import find_turn_retrievals

EntryName = tuple[str, str]
"""Collection and id of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryVotes:
    """The votes on an entry when a retrieval found it."""

    session: str
    sequence: int
    """The event of the retrieval."""
    collection: str
    entry: str
    """Its id within the collection."""
    feedback: int
    """The sum of the votes."""
    votes: tuple[CandidateVote, ...]
    """The newest of these votes, newest first."""
    more_votes: int
    """The number of older votes, which are in the sum and not named."""


def find_knowledge_source(*entries: ManifestEntry | None) -> KnowledgeSource | None:
    """Return the source of the first of these entries that is one of the knowledge, or None."""
    sources = (each.part.source for each in entries if each)
    return next((each for each in sources if isinstance(each, KnowledgeSource)), None)


def iterate_retrieval_causes(
    source: KnowledgeSource, own_call: CallSnapshot, other_call: CallSnapshot
) -> Iterator[ReasonEvent]:
    """Yield the retrievals of a call's turn, and of each whether votes decided about an entry."""
    for recorded in find_turn_retrievals(own_call):
        is_voted = bool(find_deciding_votes(source, recorded, other_call))
        yield "voted" if is_voted else "retrieved", recorded


def find_deciding_votes(
    source: KnowledgeSource, recorded: RecordedEvent, other_call: CallSnapshot
) -> tuple[EntryVotes, ...]:
    """Return the votes by which a retrieval treats an entry unlike the other call; often none.

    They are the votes on the entry itself, or on the entries whose place it has taken or lost.
    """
    if not isinstance(recorded.event, KnowledgeRetrieved):
        return ()
    own = _index_candidates(recorded.event)
    other = _find_counterpart(recorded.event, other_call)
    name = (source.collection, source.entry)
    decided: list[EntryName] = []
    if name in own and _is_decided_by_votes(own[name], other.get(name)):
        decided = [name]
    elif _has_changed_place(own.get(name), other.get(name)):
        decided = [each for each in own if _is_decided_by_votes(own[each], other.get(each))]
    return tuple(_build_votes(recorded, own[each]) for each in decided)


def _find_counterpart(
    retrieved: KnowledgeRetrieved, other_call: CallSnapshot
) -> Mapping[EntryName, RetrievalCandidate]:
    """Return what the retrieval of the same name found for the other call."""
    for recorded in find_turn_retrievals(other_call):
        match recorded.event:
            case KnowledgeRetrieved(retrieval=name) as other if name == retrieved.retrieval:
                return _index_candidates(other)
            case _:
                pass
    return {}


def _index_candidates(retrieved: KnowledgeRetrieved) -> Mapping[EntryName, RetrievalCandidate]:
    return {(each.collection, each.entry): each for each in retrieved.candidates}


def _is_decided_by_votes(own: RetrievalCandidate, other: RetrievalCandidate | None) -> bool:
    """Return whether votes exclude an entry that the other call has, or let it through again."""
    outcomes = (own.outcome, other.outcome if other else None)
    if outcomes == ("taken", "feedback"):
        return other is not None and own.feedback != other.feedback
    return outcomes == ("feedback", "taken")


def _has_changed_place(own: RetrievalCandidate | None, other: RetrievalCandidate | None) -> bool:
    """Return whether one retrieval had no place left for an entry that the other took."""
    outcomes = {each.outcome if each else None for each in (own, other)}
    return "taken" in outcomes and bool(outcomes & {"rank", "tokens"})


def _build_votes(recorded: RecordedEvent, candidate: RetrievalCandidate) -> EntryVotes:
    return EntryVotes(
        session=recorded.session,
        sequence=recorded.sequence,
        collection=candidate.collection,
        entry=candidate.entry,
        feedback=candidate.feedback,
        votes=candidate.votes,
        more_votes=candidate.more_votes,
    )
