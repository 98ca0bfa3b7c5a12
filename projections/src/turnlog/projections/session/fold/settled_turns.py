"""How settled turns, what their tools left, summaries and purges are kept in the state.

Recent turns are kept one by one, older ones as runs. A turn is recent while a window might reach
it: as long as the later turns have fewer characters than the widest window of the blueprint, and
up to `MAX_RECENT_TURNS` turns.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, assert_never

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.events.model.redaction_events import ErasedTurn, TextRedacted
from turnlog.events.model.turn_events import TurnCompleted, TurnEndEvent, TurnRole
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.open_turn import UnpromptedCall
from turnlog.projections.session.state import (
    MAX_RECENT_TURNS,
    UNBOUNDED_REACH,
    SessionState,
    SettledStatus,
    SettledTurnRef,
    SettledTurnRun,
    TextRedaction,
)
from turnlog.projections.session.text_refs import (
    InputsRef,
    TextRef,
    build_literal_text_ref,
    build_text_ref,
)
from turnlog.projections.session.tool_disclosure import renew_disclosure
from turnlog.projections.session.turn_summaries import (
    HistorySummary,
    PendingSummary,
    add_summary,
    contains_turn,
)

SessionMemoryEvent = SummaryBegun | HistorySummarised | SummaryFailed | SummaryUndone | MemoryPurged
"""Events of summaries and memory."""


def apply_memory_event(
    state: SessionState, recorded: RecordedEvent, event: SessionMemoryEvent
) -> SessionState:
    match event:
        case SummaryBegun():
            pending = PendingSummary(
                view=event.view, turns=event.turns, former=event.former, characters=event.characters
            )
            return _set_pending_summary(state, event.turn, pending, event.view)
        case HistorySummarised():
            made = HistorySummary(
                view=event.view,
                said=build_text_ref(recorded, "summary", event.summary),
                turns=event.turns,
                phases=event.phases,
                former=event.former,
                characters=_measure_summarised_turns(state, event),
            )
            added = replace(state, summaries=add_summary(state.summaries, made))
            return _set_pending_summary(added, event.turn, None)
        case SummaryFailed(turn=turn):
            return _close_summary_call(state, turn)
        case SummaryUndone():
            return _remove_summary(state, event)
        case MemoryPurged(upto=upto):
            return _purge_memory(state, upto)
        case _ as never:
            assert_never(never)


def _measure_summarised_turns(state: SessionState, event: HistorySummarised) -> int:
    """Return the length of the turns of a new summary and of the one it absorbs."""
    pending = state.open.summing if state.open else None
    if pending is None:
        return 0
    former = next((each for each in state.summaries if each.sequence == event.former), None)
    absorbed = former.characters - former.said.characters if former else 0
    return pending.characters + absorbed


def _set_pending_summary(
    state: SessionState, turn: int, pending: PendingSummary | None, view: str = ""
) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    summed = (*opened.summed, view) if view else opened.summed
    return replace(state, open=replace(opened, summing=pending, summed=summed))


def _close_summary_call(state: SessionState, turn: int) -> SessionState:
    """Close the summary call, whether it was made or not; the next call follows."""
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    call = UnpromptedCall(opened.call.next_number, opened.attempt)
    ended = replace(opened, summing=None, call=call, has_overflowed=False)
    return replace(state, open=ended)


def _remove_summary(state: SessionState, event: SummaryUndone) -> SessionState:
    left = tuple(each for each in state.summaries if each.sequence != event.sequence)
    whole = state.whole
    if event.cause == "asked":
        whole = {**whole, event.view: state.submitted}
    return replace(state, summaries=left, whole=whole)


def _purge_memory(state: SessionState, upto: int) -> SessionState:
    """Drop everything in the state that refers to the purged turns."""
    forgotten = replace(
        state,
        purged=upto,
        summaries=(),
        whole={},
        carried=None,
        carried_before=(),
        references=(),
        note=None,
        text_note=None,
        returns=None,
    )
    return renew_disclosure(forgotten, "purged")


def add_settled_turn(state: SessionState, settled: SettledTurnRef) -> SessionState:
    """Add a settled turn, and merge turns that no window can reach into the runs."""
    turns = _sort_turns((*state.turns, settled))
    old = _count_out_of_reach(turns, state.reach)
    if not old:
        return replace(state, turns=turns)
    added = tuple(_convert_to_run(ref) for ref in turns[:old])
    return replace(state, turns=turns[old:], earlier=_append_runs(state.earlier, added))


def _sort_turns(turns: tuple[SettledTurnRef, ...]) -> tuple[SettledTurnRef, ...]:
    """Sort the turns by number; the added one is nearly always the last already."""
    if len(turns) == 1 or turns[-2].turn < turns[-1].turn:
        return turns
    return tuple(sorted(turns, key=lambda ref: ref.turn))


def _count_out_of_reach(turns: tuple[SettledTurnRef, ...], reach: int) -> int:
    """Return how many of the oldest turns are followed by as much as a window can contain."""
    if reach == UNBOUNDED_REACH:
        return 0
    later = sum([ref.characters for ref in turns])
    for place, ref in enumerate(turns):
        later -= ref.characters
        is_full = len(turns) - place > MAX_RECENT_TURNS or 0 < reach <= later
        if not is_full:
            return place
    return len(turns)


def _convert_to_run(ref: SettledTurnRef) -> SettledTurnRun:
    return SettledTurnRun(
        first=ref.turn,
        last=ref.turn,
        status=ref.status,
        excluded=ref.excluded,
        redacted=ref.redacted,
        phase=ref.phase,
        role=ref.role,
        shows_outcomes=bool(ref.outcome_refs),
        is_kept=ref.is_kept,
        text_redaction=ref.text_redaction,
    )


def _append_runs(
    runs: tuple[SettledTurnRun, ...], added: tuple[SettledTurnRun, ...]
) -> tuple[SettledTurnRun, ...]:
    """Return merged runs with later ones merged into the last of them.

    Every turn of a long session does this, and failed turns leave it hundreds of runs.
    """
    if runs and runs[-1].last < added[0].first:
        return runs[:-1] + _merge_runs((runs[-1], *added))
    return _merge_runs((*runs, *added))


def _merge_runs(runs: tuple[SettledTurnRun, ...]) -> tuple[SettledTurnRun, ...]:
    merged: list[SettledTurnRun] = []
    for run in sorted(runs, key=lambda run: run.first):
        before = merged[-1] if merged else None
        if before and before.last + 1 == run.first and _get_run_key(before) == _get_run_key(run):
            merged[-1] = replace(before, last=run.last)
        else:
            merged.append(run)
    return tuple(merged)


def _get_run_key(
    run: SettledTurnRun,
) -> tuple[SettledStatus, bool, bool, str | None, TurnRole, bool, bool, TextRedaction | None]:
    usable = (run.shows_outcomes, run.is_kept)
    marks = (run.excluded, run.redacted)
    return (run.status, *marks, run.phase, run.role, *usable, run.text_redaction)


def find_settled_turn(state: SessionState, turn: int) -> SettledTurnRef | SettledTurnRun | None:
    """Return the settled turn or the run that contains it, or None."""
    recent = next((ref for ref in state.turns if ref.turn == turn), None)
    return recent or next((run for run in state.earlier if run.first <= turn <= run.last), None)


def build_unknown_turn(turn: int) -> Refused:
    """Return the refusal of a number that no turn of a session has."""
    detail = f"there is no turn {format_sent_name(str(turn))}"
    return Refused("unknown-turn", detail, field="turn")


def mark_turn(
    state: SessionState,
    turn: int,
    *,
    excluded: bool | None = None,
    redacted: bool | None = None,
    reply: TextRef | None = None,
    results: tuple[TextRef, ...] = (),
) -> SessionState:
    """Set the marks of a settled turn, recent or in a run.

    Of a redacted turn windows include the outcomes of its tools, and these results.
    """
    found = find_settled_turn(state, turn)
    if found is None:
        return state
    if excluded or redacted:
        state = _withdraw_pending_summary(state, turn)
    excluded = found.excluded if excluded is None else excluded
    redacted = found.redacted if redacted is None else redacted
    if isinstance(found, SettledTurnRef):
        marked = dataclasses.replace(found, excluded=excluded, reply=reply or found.reply)
        if redacted and not found.redacted:
            marked = dataclasses.replace(
                marked,
                redacted=True,
                work=None,
                reasoning=None,
                shows_outcomes=found.outcomes is not None,
                results=results,
            )
        return _replace_recent(state, marked)
    marked_run = replace(found, first=turn, last=turn, excluded=excluded, redacted=redacted)
    return _split_run(state, found, marked_run)


def redact_text(state: SessionState, recorded: RecordedEvent, event: TextRedacted) -> SessionState:
    """Replace the text of a settled turn, recent or in a run; what it was about is forgotten."""
    found = find_settled_turn(state, event.turn)
    if found is None:
        return state
    state = _withdraw_pending_summary(state, event.turn)
    left = tuple([each for each in state.references if each.turn != event.turn])
    state = replace(state, references=left)
    redaction: TextRedaction = "part" if event.spans else "whole"
    if isinstance(found, SettledTurnRun):
        marked = replace(found, first=event.turn, last=event.turn, text_redaction=redaction)
        return _split_run(state, found, marked)
    return _replace_recent(
        state,
        dataclasses.replace(
            found,
            text=found.text and _replace_text(found.text, recorded, event),
            media=found.media if event.spans else (),
            text_redaction=redaction,
            submission=found.submission or _find_submission(found.text),
        ),
    )


def erase_turns(state: SessionState, turns: tuple[ErasedTurn, ...]) -> SessionState:
    """Forget what recent turns had besides text and reply, since it cannot be read any more."""
    for each in turns:
        found = find_settled_turn(state, each.turn)
        if isinstance(found, SettledTurnRef):
            state = _replace_recent(state, _erase_turn(found, each))
        if each.of != "text" and state.returns and state.returns.turn == each.turn:
            state = replace(state, returns=None)
    return state


def _erase_turn(found: SettledTurnRef, erased: ErasedTurn) -> SettledTurnRef:
    if erased.of != "work":
        found = dataclasses.replace(found, media=())
    if erased.of != "text":
        found = dataclasses.replace(
            found,
            work=None,
            reasoning=None,
            outcomes=None,
            results=(),
            shows_outcomes=False,
            intent=None,
            entity=None,
        )
    return found


def _replace_text(text: TextRef, recorded: RecordedEvent, event: TextRedacted) -> TextRef:
    """Return the reference to what stands instead of a text, which was said when the text was."""
    return dataclasses.replace(
        build_text_ref(recorded, "replacement", event.replacement), at=text.at
    )


def _find_submission(text: TextRef | None) -> InputsRef | None:
    return InputsRef(text.sequence, text.place) if text else None


def _replace_recent(state: SessionState, marked: SettledTurnRef) -> SessionState:
    turns = tuple(marked if ref.turn == marked.turn else ref for ref in state.turns)
    return replace(state, turns=turns)


def _split_run(state: SessionState, run: SettledTurnRun, marked: SettledTurnRun) -> SessionState:
    """Return a state in which one turn of a run has other marks than the rest of it."""
    pieces = (replace(run, last=marked.first - 1), marked, replace(run, first=marked.last + 1))
    rest = tuple(each for each in state.earlier if each is not run)
    nonempty_pieces = tuple(piece for piece in pieces if piece.first <= piece.last)
    return replace(state, earlier=_merge_runs((*rest, *nonempty_pieces)))


def _withdraw_pending_summary(state: SessionState, turn: int) -> SessionState:
    """Withdraw the pending summary when it covers a turn that was excluded or redacted."""
    opened = state.open
    if opened is None or opened.summing is None or not contains_turn(opened.summing.turns, turn):
        return state
    pending = replace(opened.summing, withdrawn=True)
    return replace(state, open=replace(opened, summing=pending))


@dataclass(frozen=True, slots=True)
class LeftOutcomes:
    """The tools of a turn that ran, by reference."""

    outcomes: TextRef | None = None
    """Each of them with its outcome; None if none ran."""
    results: tuple[TextRef, ...] = ()
    """Their results, as far as windows may include them."""
    is_shown: bool = False
    """Whether windows include them now, or only if the reply is withheld later."""


NOTHING_LEFT: Final = LeftOutcomes()


def find_left_outcomes(
    state: SessionState, recorded: RecordedEvent, event: TurnEndEvent
) -> LeftOutcomes:
    """Return what an event leaves of the tools of the turn that it ends."""
    opened = state.open
    if not event.outcomes or opened is None or opened.turn != event.turn:
        return NOTHING_LEFT
    results = {
        use.result.summary.sequence: use.result.summary for use in opened.tools if use.result
    }
    return LeftOutcomes(
        build_literal_text_ref(recorded, "outcomes", event.outcomes),
        # The event's order, that of the model's requests: tools may return in another one.
        tuple([results[each] for each in event.kept_results if each in results]),
        has_no_model_reply(event),
    )


def has_no_model_reply(event: TurnEndEvent) -> bool:
    """Return whether a turn ended without a reply of a model that mentions what its tools did."""
    return not isinstance(event, TurnCompleted) or event.fallback is not None
