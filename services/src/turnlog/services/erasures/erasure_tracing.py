"""Traces what an erasure reaches, in the session and in those that have words of it.

A fork has copies of turns. A child session was asked with the words of a turn, and what it answered
is part of what came of that turn. Both have keys of their own, which go too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ErasedPart, ErasedTurn
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.seals.key_tree import LEAF_COUNT
from turnlog.events.seals.leaf_sets import format_leaf_runs, format_leaves
from turnlog.projections.audit.record.erasure_reach import (
    ErasureReach,
    find_reach,
    list_asked_turns,
)
from turnlog.projections.session.rules.erasure_rules import list_leaves
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.erasure_queries import list_forks
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureTarget:
    """What is erased of one session."""

    tenant: str
    session: str
    turns: tuple[ErasedTurn, ...] = ()
    """The turns of which something is erased; empty for all of the session."""
    outer_leaves: str = ""
    """The keys of other sessions that go too, in the form of `sealedof`; empty for none."""
    with_replies: bool = False
    """Whether what came of turns whose prompts had the words is erased too."""

    @property
    def leaves(self) -> str:
        """All keys that go, in the form of `sealedof`."""
        own = (
            format_leaves({self.session: list_leaves(self.turns)})
            if self.turns
            else format_leaf_runs(self.session, [range(LEAF_COUNT)])
        )
        return ";".join(filter(None, (own, self.outer_leaves)))

    def build_reached(self, session: str, turns: tuple[ErasedTurn, ...]) -> ErasureTarget:
        """Return what is erased of another session that has words of this target."""
        return replace(self, session=session, turns=turns, outer_leaves=self.leaves)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedErasure:
    """A target with all that follows from it in its session, and the sessions that it reaches."""

    target: ErasureTarget
    reach: ErasureReach
    reached: tuple[ErasureTarget, ...]
    """What is erased of forks and children."""

    @property
    def repeating_turns(self) -> tuple[int, ...]:
        """Turns whose prompts had the words, and whose replies stay: they may repeat them.

        The turn itself is one, where only what was submitted with it is erased.
        """
        if not self.target.turns:
            return ()
        gone = {each.turn for each in self.target.turns if each.of != "text"}
        return tuple(turn for turn in self.reach.turns if turn not in gone)


@dataclass(frozen=True, slots=True)
class ErasureTracing:
    """Traces erasures by the log and, for forks, by the read models."""

    command_handler: CommandHandler
    store: ReadModelStore

    async def trace(self, target: ErasureTarget) -> TracedErasure:
        """Return what a target reaches; refuse a turn that is another session's."""
        events = await self.command_handler.load_events(target.tenant, target.session)
        state = await self.command_handler.require_state(target.tenant, target.session)
        require_own_turns(events, target)
        grown = add_replies(events, target) if target.with_replies else target
        async with self.store.open_reader() as connection:
            forks = await list_forks(connection, target.tenant, target.session)
        copies = [await self._find_copies(fork, grown) for fork in forks]
        children = list_children(events, state, grown)
        return TracedErasure(
            target=grown,
            reach=find_reach(events, grown.leaves),
            reached=(*filter(None, copies), *children),
        )

    async def _find_copies(self, fork: str, target: ErasureTarget) -> ErasureTarget | None:
        """Return what a fork has of a target; None if it has none of its turns."""
        copied: tuple[ErasedTurn, ...] = ()
        if target.turns:
            events = await self.command_handler.load_events(target.tenant, fork)
            turns = list_submitted_turns(events, copied=True)
            copied = tuple(each for each in target.turns if each.turn in turns)
            if not copied:
                return None
        return target.build_reached(fork, copied)


def list_children(
    events: Sequence[RecordedEvent], state: SessionState, target: ErasureTarget
) -> list[ErasureTarget]:
    """Return what is erased of the children of a session."""
    asked = (
        list_asked_turns(events, target.turns)
        if target.turns
        else dict.fromkeys(state.children, ())
    )
    return [target.build_reached(child, turns) for child, turns in asked.items()]


def add_replies(events: Sequence[RecordedEvent], target: ErasureTarget) -> ErasureTarget:
    """Return a target with what came of every turn whose prompts had something of it."""
    if not target.turns:
        return target
    turns: dict[int, ErasedPart] = {each.turn: each.of for each in target.turns}
    while True:
        erased = tuple(ErasedTurn(turn=turn, of=of) for turn, of in sorted(turns.items()))
        grown = replace(target, turns=erased)
        seen = [
            turn for turn in find_reach(events, grown.leaves).turns if _is_work_kept(turns, turn)
        ]
        if not seen:
            return grown
        for turn in seen:
            turns[turn] = "turn" if turn in turns else "work"


def _is_work_kept(turns: Mapping[int, ErasedPart], turn: int) -> bool:
    return turns.get(turn) in {None, "text"}


def require_own_turns(events: Sequence[RecordedEvent], target: ErasureTarget) -> None:
    """Refuse a turn that a fork has from its origin, unless that is where the erasure began."""
    if target.outer_leaves or not target.turns:
        return
    copied = list_submitted_turns(events, copied=True)
    for each in target.turns:
        if each.turn in copied:
            detail = f"turn {each.turn} is a copy of a turn of the session that this is a fork of"
            fix = "erase it there; this erases all copies"
            raise Refused("copied-turn", detail, field="turn", fix=fix)


def list_turns_of_user(events: Sequence[RecordedEvent], names: Collection[str]) -> set[int]:
    """Return the turns that a user of these names asked here, not those that a fork has copied."""
    return {
        each.event.turn
        for each in events
        if isinstance(each.event, TurnSubmitted | TurnQueued)
        and each.event.user in names
        and each.envelope.copyof is None
    }


def list_submitted_turns(events: Sequence[RecordedEvent], *, copied: bool) -> set[int]:
    """Return the turns that were submitted here, or those that were copied with the session."""
    return {
        each.event.turn
        for each in events
        if isinstance(each.event, TurnSubmitted | TurnQueued)
        and (each.envelope.copyof is not None) is copied
    }


def find_last_turn(events: Sequence[RecordedEvent], begun: int) -> int:
    """Return the last turn that was submitted before an erasure began; 0 if none was."""
    submitted = (
        each.event.turn
        for each in events
        if each.sequence < begun and isinstance(each.event, TurnSubmitted | TurnQueued)
    )
    return max(submitted, default=0)
