"""The fold: one event further. It never fails on recorded history and reads no clock.

Everything Turnlog knows about a session follows from this function applied to its events in
order, so it decides nothing: what may not happen was refused before it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import Unknown
from turnlog.events.memory import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.events.phase import PhaseEntered
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.reference import ReferenceUpdated, TurnResolved
from turnlog.events.session import (
    BlueprintMoved,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.tool import (
    SchemasRequested,
    ToolCalled,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.events.turn import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.session.progress import Progress, advanced, returns
from turnlog.projections.session.remembrance import remembered
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said, stands
from turnlog.projections.session.state import (
    REMEMBERED_COMMANDS,
    UNBOUNDED,
    Brought,
    ChoiceMade,
    Memo,
    Note,
    OpenTurn,
    Reference,
    Resolved,
    Said,
    SessionState,
    Settled,
    TurnRef,
    WaitingTurn,
)
from turnlog.projections.session.telling import told_anew
from turnlog.projections.session.turns import kept, with_turn

NOTE_RULE: Final = "when reply_redacted"
"""How a manifest says that a part stands in a call because a reply was withheld."""


def fold(events: Iterable[Recorded], state: SessionState | None = None) -> SessionState | None:
    """Fold events onto a state; none is a session that was never opened."""
    for event in events:
        state = evolve(state, event)
    return state


def fold_whole(events: Sequence[Recorded]) -> SessionState | None:
    """Fold a session from its first event, keeping every turn one by one."""
    opened = fold(events[:1])
    return fold(events[1:], opened and replace(opened, reach=UNBOUNDED))


def evolve(state: SessionState | None, recorded: Recorded) -> SessionState | None:
    """Give the state after one more event of the same session."""
    if state is None:
        event = recorded.event
        return _opened(recorded, event) if isinstance(event, SessionOpened) else None
    changed = _changed(state, recorded)
    return replace(_remembered(changed, recorded), head=recorded.head)


def _opened(recorded: Recorded, event: SessionOpened) -> SessionState:
    state = SessionState(
        tenant=recorded.tenant,
        session=recorded.session,
        head=recorded.head,
        opened=recorded.head,
        blueprint=event.blueprint,
        profile=event.profile,
        attributes=event.attributes,
        reach=event.reach,
        cartridge=event.cartridge,
        memory=event.memory,
        warnings=event.warnings,
        origin=event.origin,
        drawn=event.drawn,
    )
    return _remembered(state, recorded)


def _moved(state: SessionState, recorded: Recorded, event: BlueprintMoved) -> SessionState:
    return replace(
        state,
        blueprint=event.blueprint,
        attributes=event.attributes,
        attributes_in=recorded.sequence,
        reach=UNBOUNDED if state.reach == UNBOUNDED else event.reach,
        cartridge=event.cartridge,
        memory=event.memory,
        warnings=event.warnings,
        prompts={},
        tools={},
        telling={},
    )


def _changed(state: SessionState, recorded: Recorded) -> SessionState:
    match recorded.event:
        # Those of every turn come first: each case is a question asked of the events behind it.
        case TurnSubmitted() as event:
            return _submitted(state, recorded, event)
        case AttemptStarted() as event:
            return _claimed(state, event)
        case ContextAssembled() as event:
            return _assembled(state, recorded, event)
        case AttemptEnded() as event:
            return _attempt_ended(state, event)
        case CallCompleted() as event:
            return _advanced(state, recorded, event)
        case TurnCompleted() as event:
            reply, work = said(recorded, "text", event.text), said(recorded, "work", event.work)
            return _settled(state, event.turn, "completed", reply, work)
        case SessionOpened() | TurnDisplayed() | Unknown():
            return state
        case SessionClosed():
            return replace(state, closed=True)
        case PlanMade() | StepPlanned() | ToolCalled() | ToolStarted() | ToolReturned() as event:
            return _advanced(state, recorded, event)
        case ToolsSnapshotted() as event:
            pinned = replace(state, tools={**state.tools, event.profile: event})
            return told_anew(pinned, "first_turn", [event.profile])
        case SchemasRequested(profile=profile):
            return told_anew(state, "asked", [profile])
        case BlueprintMoved() as event:
            return _moved(state, recorded, event)
        case ProfileSwitched(profile=profile, model=model):
            return replace(state, profile=profile, model=model)
        case PromptsSnapshotted(provider=provider, layers=layers):
            return replace(state, prompts={**state.prompts, provider: layers})
        case TurnQueued() as event:
            text = said(recorded, "text", event.text)
            brought = _brought(recorded, event)
            waiting = WaitingTurn(event.turn, text, recorded.envelope.id, brought)
            return replace(state, waiting=(*state.waiting, waiting), submitted=event.turn)
        case TurnReleased(turn=turn):
            return _released(state, recorded, turn)
        case ChoiceRecorded(phase=phase, choice=choice, label=label):
            return replace(state, choices=(*state.choices, ChoiceMade(phase, choice, label)))
        case PhaseEntered(phase=phase, carried=carried):
            been = tuple(dict.fromkeys((*state.visited, phase)))
            told = said(recorded, "carried", carried)
            return replace(state, phase=phase, exchanges=0, visited=been, carried=told)
        case TurnResolved() as event:
            return _resolved(state, recorded, event)
        case ReferenceUpdated() as event:
            return replace(state, reference=_reference(recorded, event))
        case TurnFailed(turn=turn):
            return _settled(state, turn, "failed")
        case TurnCancelled(turn=turn):
            return _settled(state, turn, "cancelled")
        case TurnExcluded(turn=turn):
            return with_turn(state, turn, excluded=True)
        case TurnRestored(turn=turn):
            return with_turn(state, turn, excluded=False)
        case SummaryBegun() | HistorySummarised() | SummaryFailed() as event:
            return remembered(state, recorded, event)
        case SummaryUndone() | MemoryPurged() as event:
            return remembered(state, recorded, event)
        case ReplyRedacted() as event:
            return _redacted(state, recorded, event)
        case _ as never:
            assert_never(never)


def _advanced(state: SessionState, recorded: Recorded, event: Progress) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    return replace(state, open=advanced(state.open, recorded, event))


def _resolved(state: SessionState, recorded: Recorded, event: TurnResolved) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    found = Resolved(
        event.intent,
        event.entity,
        event.identifiers,
        stands(recorded, "results", event.results),
        stands(recorded, "answer", event.answer),
    )
    return replace(state, open=replace(state.open, resolved=found))


def _reference(recorded: Recorded, event: ReferenceUpdated) -> Reference:
    at = recorded.envelope.time
    return Reference(event.turn, event.identifiers, event.intent, event.entity, at)


def _submitted(state: SessionState, recorded: Recorded, event: TurnSubmitted) -> SessionState:
    text = said(recorded, "text", event.text)
    at, brought = recorded.envelope.time, _brought(recorded, event)
    opened = OpenTurn(event.turn, text, recorded.envelope.id, at, inputs=brought)
    return replace(state, open=opened, submitted=event.turn)


def _brought(recorded: Recorded, event: TurnSubmitted | TurnQueued) -> Brought | None:
    return Brought(recorded.sequence, recorded.stream_sequence) if event.inputs else None


def _released(state: SessionState, recorded: Recorded, turn: int) -> SessionState:
    released = next((waiting for waiting in state.waiting if waiting.turn == turn), None)
    if released is None:
        return state
    at, brought = recorded.envelope.time, released.inputs
    opened = OpenTurn(turn, released.text, released.event, at, inputs=brought)
    rest = tuple(waiting for waiting in state.waiting if waiting.turn != turn)
    return replace(state, open=opened, waiting=rest)


def _settled(
    state: SessionState,
    turn: int,
    status: Settled,
    reply: Said | None = None,
    work: Said | None = None,
) -> SessionState:
    open_or_waiting = (state.open, *state.waiting)
    text = next((each.text for each in open_or_waiting if each and each.turn == turn), None)
    done = status == "completed"
    counted = replace(
        state,
        open=None if state.open and state.open.turn == turn else state.open,
        waiting=tuple(waiting for waiting in state.waiting if waiting.turn != turn),
        completed=state.completed + done,
        exchanges=state.exchanges + done,
        returns=returns(turn, state.open, state.phase) if done else state.returns,
    )
    return kept(counted, TurnRef(turn, status, text, reply, phase=state.phase, work=work))


def _claimed(state: SessionState, event: AttemptStarted) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    claimed = replace(state.open, attempt=event.attempt, running=True, worker=event.worker)
    return replace(state, open=claimed)


def _assembled(state: SessionState, recorded: Recorded, event: ContextAssembled) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    place, at = recorded.stream_sequence, recorded.envelope.time
    context = Said(recorded.sequence, place, "manifest", event.manifest.digest, 0, at)
    calls = state.open.calls + 1
    opened = replace(state.open, calls=calls, context=context)
    called = {**state.called, event.manifest.kind: recorded.stream_sequence}
    return replace(state, open=opened, called=called, note=_note_after(state.note, event))


def _note_after(note: Note | None, event: ContextAssembled) -> Note | None:
    """The first turn that carries a note has it to itself; with the next one it is gone."""
    if note is None or note.told == event.turn:
        return note
    if note.told is not None:
        return None
    carried = any(part.rule == NOTE_RULE and part.kept for part in event.manifest.parts)
    return replace(note, told=event.turn) if carried else note


def _attempt_ended(state: SessionState, event: AttemptEnded) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != event.turn or opened.attempt != event.attempt:
        return state
    return replace(state, open=replace(opened, running=False))


def _redacted(state: SessionState, recorded: Recorded, event: ReplyRedacted) -> SessionState:
    replacement = said(recorded, "replacement", event.replacement)
    if state.open and state.open.turn == event.turn:
        state = _settled(state, event.turn, "completed", replacement)
    replied = (ref.turn for ref in state.turns if ref.status == "completed")
    latest = event.turn == max(replied, default=0)
    marked = with_turn(state, event.turn, redacted=True, reply=replacement)
    return replace(marked, note=Note(event.turn)) if latest else marked


def _remembered(state: SessionState, recorded: Recorded) -> SessionState:
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is None or digest is None:
        return state
    event = recorded.event
    turn = event.turn if isinstance(event, TurnSubmitted | TurnQueued) else None
    # The last event of a command stands for it: whoever reads up to there reads all it did.
    memo = Memo(key, digest, recorded.sequence, turn)
    commands = (*(known for known in state.commands if known.key != key), memo)
    over = max(0, len(commands) - REMEMBERED_COMMANDS)
    return replace(
        state, commands=commands[over:], forgotten_commands=state.forgotten_commands + over
    )
