"""How settled turns are kept in the state: recent ones one by one, older ones as runs.

A turn is recent while a window might reach it: as long as the later turns have fewer characters
than the widest window of the blueprint, and up to `MAX_RECENT_TURNS` turns.
"""

from __future__ import annotations

from turnlog.projections.session.replacing import replace
from turnlog.projections.session.state import (
    MOST_RECENT,
    UNBOUNDED,
    Run,
    Said,
    SessionState,
    Settled,
    TurnRef,
)
from turnlog.projections.session.summaries import holds


def kept(state: SessionState, settled: TurnRef) -> SessionState:
    """Add a settled turn, and merge turns that no window can reach into the runs."""
    turns = _in_order((*state.turns, settled))
    old = _out_of_reach(turns, state.reach)
    if not old:
        return replace(state, turns=turns)
    earlier = (*state.earlier, *(_run(ref) for ref in turns[:old]))
    return replace(state, turns=turns[old:], earlier=_merged(earlier))


def _in_order(turns: tuple[TurnRef, ...]) -> tuple[TurnRef, ...]:
    """Sort the turns by number; the added one is nearly always the last already."""
    if len(turns) == 1 or turns[-2].turn < turns[-1].turn:
        return turns
    return tuple(sorted(turns, key=lambda ref: ref.turn))


def _out_of_reach(turns: tuple[TurnRef, ...], reach: int) -> int:
    if reach == UNBOUNDED:
        return 0
    held = 0
    for behind, ref in enumerate(reversed(turns)):
        if behind == MOST_RECENT or (reach and held >= reach):
            return len(turns) - behind
        held += ref.characters
    return 0


def _run(ref: TurnRef) -> Run:
    return Run(ref.turn, ref.turn, ref.status, ref.excluded, ref.redacted, ref.phase)


def _merged(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    merged: list[Run] = []
    for run in sorted(runs, key=lambda run: run.first):
        before = merged[-1] if merged else None
        if before and before.last + 1 == run.first and _fate(before) == _fate(run):
            merged[-1] = replace(before, last=run.last)
        else:
            merged.append(run)
    return tuple(merged)


def _fate(run: Run) -> tuple[Settled, bool, bool, str | None]:
    return run.status, run.excluded, run.redacted, run.phase


def status_of(state: SessionState, turn: int) -> TurnRef | Run | None:
    """Return the settled turn or the run that contains it, or None."""
    recent = next((ref for ref in state.turns if ref.turn == turn), None)
    return recent or next((run for run in state.earlier if run.first <= turn <= run.last), None)


def with_turn(
    state: SessionState,
    turn: int,
    *,
    excluded: bool | None = None,
    redacted: bool | None = None,
    reply: Said | None = None,
) -> SessionState:
    """Set the marks of a settled turn, recent or in a run."""
    found = status_of(state, turn)
    if found is None:
        return state
    if excluded or redacted:
        state = _taken_back(state, turn)
    excluded = found.excluded if excluded is None else excluded
    redacted = found.redacted if redacted is None else redacted
    if isinstance(found, TurnRef):
        reply, work = reply or found.reply, None if redacted else found.work
        marked = replace(found, excluded=excluded, redacted=redacted, reply=reply, work=work)
        turns = tuple(marked if ref.turn == turn else ref for ref in state.turns)
        return replace(state, turns=turns)
    pieces = (
        replace(found, last=turn - 1),
        replace(found, first=turn, last=turn, excluded=excluded, redacted=redacted),
        replace(found, first=turn + 1),
    )
    rest = tuple(run for run in state.earlier if run is not found)
    whole = tuple(piece for piece in pieces if piece.first <= piece.last)
    return replace(state, earlier=_merged((*rest, *whole)))


def _taken_back(state: SessionState, turn: int) -> SessionState:
    """Withdraw the pending summary when it covers a turn that was excluded or redacted."""
    opened = state.open
    if opened is None or opened.summing is None or not holds(opened.summing.turns, turn):
        return state
    summing = replace(opened.summing, withdrawn=True)
    return replace(state, open=replace(opened, summing=summing))
