from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

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
from turnlog.projections.session.entering import arrived
from turnlog.projections.session.remembrance import remembered
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said
from turnlog.projections.session.state import (
    REMEMBERED_COMMANDS,
    UNBOUNDED,
    ChoiceMade,
    Memo,
    Reference,
    SessionState,
    WaitingTurn,
)
from turnlog.projections.session.telling import told_anew
from turnlog.projections.session.turns import with_turn
from turnlog.projections.session.under_way import (
    assembled,
    attempt_ended,
    brought_by,
    claimed,
    redacted,
    released,
    resolved,
    settled,
    submitted,
    went_on,
)


def fold(events: Iterable[Recorded], state: SessionState | None = None) -> SessionState | None:
    """Fold events onto a state; None is a session that is not opened."""
    for event in events:
        state = evolve(state, event)
    return state


def fold_whole(events: Sequence[Recorded]) -> SessionState | None:
    """Fold a session from its first event and keep every turn one by one."""
    opened = fold(events[:1])
    return fold(events[1:], opened and replace(opened, reach=UNBOUNDED))


def evolve(state: SessionState | None, recorded: Recorded) -> SessionState | None:
    """Return the state after one more event of the same session."""
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
        # The events of every turn come first, because each case costs one check for all events
        # below it.
        case TurnSubmitted() as event:
            return submitted(state, recorded, event)
        case AttemptStarted() as event:
            return claimed(state, event)
        case ContextAssembled() as event:
            return assembled(state, recorded, event)
        case AttemptEnded() as event:
            return attempt_ended(state, event)
        case CallCompleted() as event:
            return went_on(state, recorded, event)
        case TurnCompleted() as event:
            reply, work = said(recorded, "text", event.text), said(recorded, "work", event.work)
            return settled(state, event.turn, "completed", reply, work)
        case SessionOpened() | TurnDisplayed() | Unknown():
            return state
        case SessionClosed():
            return replace(state, closed=True)
        case PlanMade() | StepPlanned() | ToolCalled() | ToolStarted() | ToolReturned() as event:
            return went_on(state, recorded, event)
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
            brought = brought_by(recorded, event)
            waiting = WaitingTurn(event.turn, text, recorded.envelope.id, brought)
            return replace(state, waiting=(*state.waiting, waiting), submitted=event.turn)
        case TurnReleased(turn=turn):
            return released(state, recorded, turn)
        case ChoiceRecorded(phase=phase, choice=choice, label=label):
            return replace(state, choices=(*state.choices, ChoiceMade(phase, choice, label)))
        case PhaseEntered() as event:
            return arrived(state, recorded, event)
        case TurnResolved() as event:
            return resolved(state, recorded, event)
        case ReferenceUpdated() as event:
            return replace(state, reference=_reference(recorded, event))
        case TurnFailed(turn=turn):
            return settled(state, turn, "failed")
        case TurnCancelled(turn=turn):
            return settled(state, turn, "cancelled")
        case TurnExcluded(turn=turn):
            return with_turn(state, turn, excluded=True)
        case TurnRestored(turn=turn):
            return with_turn(state, turn, excluded=False)
        case SummaryBegun() | HistorySummarised() | SummaryFailed() as event:
            return remembered(state, recorded, event)
        case SummaryUndone() | MemoryPurged() as event:
            return remembered(state, recorded, event)
        case ReplyRedacted() as event:
            return redacted(state, recorded, event)
        case _ as never:
            assert_never(never)


def _reference(recorded: Recorded, event: ReferenceUpdated) -> Reference:
    at = recorded.envelope.time
    return Reference(event.turn, event.identifiers, event.intent, event.entity, at)


def _remembered(state: SessionState, recorded: Recorded) -> SessionState:
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is None or digest is None:
        return state
    event = recorded.event
    turn = event.turn if isinstance(event, TurnSubmitted | TurnQueued) else None
    # Record the last event of a command, so that a reader who reads up to it sees all its events.
    memo = Memo(key, digest, recorded.sequence, turn)
    commands = (*(known for known in state.commands if known.key != key), memo)
    over = max(0, len(commands) - REMEMBERED_COMMANDS)
    return replace(
        state, commands=commands[over:], forgotten_commands=state.forgotten_commands + over
    )
