"""What a turn found in the knowledge: by which query, and why some of it was not taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import KnowledgeSource, PromptPart
from turnlog.events.model.retrieval_events import (
    CandidateOutcome,
    KnowledgeRetrieved,
    RetrievalCandidate,
)
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.provenance_events import find_turn_retrievals


@dataclass(frozen=True, slots=True, kw_only=True)
class UntakenEntry:
    """An entry of the knowledge that a retrieval of the turn found and did not take."""

    retrieval: str
    """The blueprint's name of the retrieval."""
    sequence: int
    """The event of the retrieval."""
    collection: str
    entry: str
    """Its id within the collection."""
    outcome: CandidateOutcome
    """Why it was not taken."""
    score: float
    """The score it was ranked by."""
    confidence: float
    """Similarity of query and entry, from 0 to 1."""
    feedback: int
    """The sum of the votes on it at that time."""
    query: str | None
    """The query nearest to it, where there were several."""


def iterate_untaken_entries(side: CallSnapshot) -> Iterator[UntakenEntry]:
    """Yield what the retrievals of the call's turn found and did not take, best first."""
    for recorded in find_turn_retrievals(side):
        retrieved = recorded.event
        if isinstance(retrieved, KnowledgeRetrieved):
            for each in retrieved.candidates:
                if each.outcome != "taken":
                    yield UntakenEntry(
                        retrieval=retrieved.retrieval,
                        sequence=recorded.sequence,
                        collection=each.collection,
                        entry=each.entry,
                        outcome=each.outcome,
                        score=each.score,
                        confidence=each.confidence,
                        feedback=each.feedback,
                        query=_find_query(retrieved, each),
                    )


def find_part_query(part: PromptPart, side: CallSnapshot) -> str | None:
    """Return the query that found the entry of a part, where its retrieval had several."""
    found = _find_part_candidate(part, side)
    return _find_query(*found) if found else None


def find_part_feedback(part: PromptPart, side: CallSnapshot) -> int | None:
    """Return the sum of the votes on the entry of a part at that time; None of other parts."""
    found = _find_part_candidate(part, side)
    return found[1].feedback if found else None


def is_excluded_by_votes(recorded: RecordedEvent, source: KnowledgeSource) -> bool:
    """Return whether a retrieval found an entry and left it out because of the votes on it."""
    retrieved = recorded.event
    return isinstance(retrieved, KnowledgeRetrieved) and any(
        each.outcome == "feedback"
        for each in retrieved.candidates
        if (each.collection, each.entry) == (source.collection, source.entry)
    )


def _find_part_candidate(
    part: PromptPart, side: CallSnapshot
) -> tuple[KnowledgeRetrieved, RetrievalCandidate] | None:
    """Return what a part was taken from: the retrieval, and the entry as it was found."""
    source = part.source
    if not isinstance(source, KnowledgeSource):
        return None
    found = side.log_before_call.find_event(source.retrieved)
    retrieved = found.event if found else None
    if not isinstance(retrieved, KnowledgeRetrieved):
        return None
    name = (source.collection, source.entry)
    taken = (each for each in retrieved.taken if (each.collection, each.entry) == name)
    return next(((retrieved, each) for each in taken), None)


def _find_query(retrieved: KnowledgeRetrieved, candidate: RetrievalCandidate) -> str | None:
    if not candidate.found_by:
        return None
    query = retrieved.queries[candidate.found_by[0].query - 1]
    return query.text if isinstance(query, PlainText) else None
