"""What a turn found in the knowledge: by which query, and why some of it was not taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.content import PlainText
from turnlog.events.model.manifest import KnowledgeSource, PromptPart
from turnlog.events.model.retrieval_events import (
    CandidateOutcome,
    CandidateVote,
    KnowledgeRetrieved,
    RetrievalCandidate,
)
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.provenance_events import find_turn_retrievals
from turnlog.projections.audit.explain.redaction_notes import (
    REPLY_NOTE,
    TEXT_NOTE,
    is_redaction_of,
)


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
    votes: tuple[CandidateVote, ...] = ()
    """The newest of these votes, newest first."""
    more_votes: int = 0
    """The number of older votes, which are in the sum and not named."""


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
                        query=_find_query(retrieved, each, side),
                        votes=each.votes,
                        more_votes=each.more_votes,
                    )


def find_part_query(part: PromptPart, side: CallSnapshot) -> str | None:
    """Return the query that found the entry of a part: one of several, or a model's."""
    retrieved, candidate = _find_retrieval(part, side), find_part_candidate(part, side)
    return _find_query(retrieved, candidate, side) if retrieved and candidate else None


def find_part_query_call(part: PromptPart, side: CallSnapshot) -> str | None:
    """Return the call that wrote the query which found the entry of a part, or None."""
    retrieved = _find_retrieval(part, side)
    return retrieved.query_call if retrieved and retrieved.origin == "call" else None


def find_part_candidate(part: PromptPart, side: CallSnapshot) -> RetrievalCandidate | None:
    """Return the entry that a part is, as its retrieval found it; None for other parts."""
    source, retrieved = part.source, _find_retrieval(part, side)
    if retrieved is None or not isinstance(source, KnowledgeSource):
        return None
    name = (source.collection, source.entry)
    taken = (each for each in retrieved.taken if (each.collection, each.entry) == name)
    return next(taken, None)


def _find_retrieval(part: PromptPart, side: CallSnapshot) -> KnowledgeRetrieved | None:
    if not isinstance(part.source, KnowledgeSource):
        return None
    found = side.log_before_call.find_event(part.source.retrieved)
    return found.event if found and isinstance(found.event, KnowledgeRetrieved) else None


def _find_query(
    retrieved: KnowledgeRetrieved, candidate: RetrievalCandidate, side: CallSnapshot
) -> str | None:
    if not candidate.found_by and retrieved.origin != "call":
        return None
    # What a model wrote in a turn is withheld with its reply, and a person's words with the text.
    kind = REPLY_NOTE if retrieved.origin == "call" else TEXT_NOTE
    if any(is_redaction_of(each, retrieved.turn, kind) for each in side.log.events):
        return None
    number = candidate.found_by[0].query if candidate.found_by else 1
    query = retrieved.queries[number - 1]
    return query.text if isinstance(query, PlainText) else None
