"""The votes on entries of the knowledge: which of them count, and what they sum to.

A vote on an entry counts in place of the vote on the turn that retrieved it. One that was taken
back counts nothing, and leaves the vote on the turn in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Row, Select, Subquery, and_, func, select, union_all

from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import ACTIVE_BUILD
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    RETRIEVED_ENTRIES,
    TURN_VOTES,
)

NAMED_VOTES: Final = 10
"""How many votes on an entry are named; the older ones are counted."""


@dataclass(frozen=True, slots=True)
class VoteTally:
    """The votes that count for an entry."""

    total: int = 0
    """Their sum."""
    named: tuple[CandidateVote, ...] = ()
    """The newest of them, newest first."""
    others: int = 0
    """The number of the others."""


NO_VOTES: Final = VoteTally()


async def load_vote_tallies(
    connection: AsyncConnection, build: int, numbers: Sequence[int]
) -> dict[int, VoteTally]:
    """Return the tallies of those entries of an index that have votes, by the entry's number."""
    rows = (await connection.execute(_select_newest(_select_counted(build, numbers)))).all()
    return {
        number: _build_tally(list(own)) for number, own in groupby(rows, key=lambda row: row.number)
    }


def _select_counted(build: int, numbers: Sequence[int]) -> Subquery:
    """Return the votes that count, each with the number of its entry."""
    entries, used, votes = KNOWLEDGE_ENTRIES.c, RETRIEVED_ENTRIES.c, TURN_VOTES.c
    of_entry = and_(
        used.build == ACTIVE_BUILD,
        used.tenant == entries.tenant,
        used.collection == entries.collection,
        used.entry == entries.entry,
    )
    of_same_turn = and_(
        votes.build == used.build,
        votes.tenant == used.tenant,
        votes.session == used.session,
        votes.turn == used.turn,
    )
    is_wanted = and_(entries.build == build, entries.number.in_(numbers))
    retrieved = KNOWLEDGE_ENTRIES.join(RETRIEVED_ENTRIES, of_entry)
    on_entries = (
        select(
            entries.number,
            used.session,
            used.vote,
            used.vote_sequence.label("sequence"),
            used.vote_position.label("position"),
        )
        .select_from(retrieved)
        .where(is_wanted, used.vote.is_not(None))
    )
    on_turns = (
        select(entries.number, used.session, votes.vote, votes.sequence, votes.position)
        .select_from(retrieved.join(TURN_VOTES, of_same_turn))
        .where(is_wanted, func.coalesce(used.vote, 0) == 0)
    )
    return union_all(on_entries, on_turns).subquery()


def _select_newest(counted: Subquery) -> Select[Any]:
    """Select the newest votes of each entry, newest first, with number and sum of all of them."""
    of_entry, position = counted.c.number, func.coalesce(counted.c.position, 0)
    ranked = select(
        counted,
        func.row_number().over(partition_by=of_entry, order_by=position.desc()).label("place"),
        func.count().over(partition_by=of_entry).label("votes"),
        func.sum(counted.c.vote).over(partition_by=of_entry).label("total"),
    ).subquery()
    newest = select(ranked).where(ranked.c.place <= NAMED_VOTES)
    return newest.order_by(ranked.c.number, ranked.c.place)


def _build_tally(rows: Sequence[Row[Any]]) -> VoteTally:
    # Rows of an earlier release have no sequence until they are built again.
    named = tuple(
        CandidateVote(session=row.session, sequence=row.sequence, vote=row.vote)
        for row in rows
        if row.sequence is not None
    )
    return VoteTally(int(rows[0].total), named, rows[0].votes - len(named))
