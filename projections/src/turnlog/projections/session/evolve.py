"""`evolve`: the state of a session after one more event; and `fold` over many events.

The fold never fails on recorded history and reads no clock. It decides nothing: what a rule forbids
was refused before it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from turnlog.events.envelope import RecordedEvent
from turnlog.events.event_model import StatelessEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasureBegun,
    ReplyRedacted,
    TextRedacted,
)
from turnlog.events.model.retrieval_events import (
    KnowledgeRetrieved,
    QueriesFailed,
    QueriesRequested,
)
from turnlog.events.model.session_events import (
    BlueprintMoved,
    PhaseEntered,
    ProfileSwitched,
    SessionClosed,
    SessionDescribed,
    SessionOpened,
    ShareChanged,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    PlanMade,
    SchemasRequested,
    StepPlanned,
    ToolCalled,
    ToolListChanged,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    InheritableReference,
    ReferenceUpdated,
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnResolved,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import UnknownEvent
from turnlog.projections.session.fold.settled_turns import (
    apply_memory_event,
    find_left_outcomes,
    find_settled_turn,
    mark_turn,
)
from turnlog.projections.session.fold.token_corrections import correct_counts_by_usage
from turnlog.projections.session.fold.turn_progress import (
    apply_attempt_ended,
    apply_attempt_started,
    apply_child_requested,
    apply_context_assembled,
    apply_knowledge_retrieved,
    apply_query_call,
    apply_turn_progress,
    apply_turn_queued,
    apply_turn_released,
    apply_turn_resolved,
    apply_turn_submitted,
    find_reply_reasoning,
    settle_turn,
)
from turnlog.projections.session.fold.turn_redactions import (
    apply_erasure_event,
    apply_reply_redacted,
    apply_text_redacted,
)
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.pinned_prompts import list_pinned_files
from turnlog.projections.session.session_owner import find_owner
from turnlog.projections.session.state import (
    MAX_CARRIED_TEXTS,
    MAX_IDEMPOTENCY_RECORDS,
    MAX_REFERENCES,
    UNBOUNDED_REACH,
    CarriedText,
    IdempotencyRecord,
    PhaseChoice,
    SessionState,
    TurnReference,
)
from turnlog.projections.session.text_refs import build_optional_text_ref, build_text_ref
from turnlog.projections.session.tool_disclosure import renew_disclosure


def apply_phase_entered(
    state: SessionState, recorded: RecordedEvent, event: PhaseEntered
) -> SessionState:
    """Return the state after entering a phase.

    What was carried into the phase left stays with that phase. References are dropped if the new
    phase may not see them.
    """
    visited = tuple(dict.fromkeys((*state.visited, event.phase)))
    carried = build_optional_text_ref(recorded, "carried", event.carried)
    return replace(
        state,
        phase=event.phase,
        exchanges=0,
        visited=visited,
        carried=carried,
        carried_before=_list_carried_before(state),
        references=_list_visible_references(state, event),
    )


def _list_carried_before(state: SessionState) -> tuple[CarriedText, ...]:
    """Return the texts carried into all phases so far, the current one included."""
    if state.carried is None or state.phase is None:
        return state.carried_before
    kept = (*state.carried_before, CarriedText(state.phase, state.carried))
    return kept[-MAX_CARRIED_TEXTS:]


def _list_visible_references(state: SessionState, event: PhaseEntered) -> tuple[TurnReference, ...]:
    """Return the references of turns that belong to no hidden phase."""
    if not event.hidden:
        return state.references
    answered = ((each, find_settled_turn(state, each.turn)) for each in state.references)
    return tuple(each for each, turn in answered if not (turn and turn.phase in event.hidden))


def fold(events: Iterable[RecordedEvent], state: SessionState | None = None) -> SessionState | None:
    """Fold events onto a state; None is a session that is not opened."""
    for event in events:
        state = evolve(state, event)
    return state


def fold_unbounded(events: Sequence[RecordedEvent]) -> SessionState | None:
    """Fold a session from its first event and keep every turn one by one."""
    return fold_with_reach(events, UNBOUNDED_REACH)


def fold_with_reach(
    events: Sequence[RecordedEvent], reach: int, state: SessionState | None = None
) -> SessionState | None:
    """Fold events onto a state, and keep turns by another reach than the blueprint's."""
    if state is None:
        state, events = fold(events[:1]), events[1:]
    return fold(events, state and replace(state, reach=reach))


def evolve(state: SessionState | None, recorded: RecordedEvent) -> SessionState | None:
    """Return the state after one more event of the same session."""
    if state is None:
        event = recorded.event
        return _build_opened_state(recorded, event) if isinstance(event, SessionOpened) else None
    changed = _apply_event(state, recorded)
    return replace(_record_command(changed, recorded), head=recorded.head)


def _build_opened_state(recorded: RecordedEvent, event: SessionOpened) -> SessionState:
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
        title=build_optional_text_ref(recorded, "title", event.title),
        labels=event.labels,
        metadata=event.metadata,
        owner=find_owner(recorded, event),
        sealed_under=event.sealed_under,
    )
    return _record_command(state, recorded)


def _apply_description(
    state: SessionState, recorded: RecordedEvent, event: SessionDescribed
) -> SessionState:
    if event.title is not None:
        title = build_text_ref(recorded, "title", event.title)
        state = replace(state, title=title if title.characters else None)
    if event.labels is not None:
        state = replace(state, labels=event.labels)
    return state if event.metadata is None else replace(state, metadata=event.metadata)


def _apply_share_changed(
    state: SessionState, recorded: RecordedEvent, event: ShareChanged
) -> SessionState:
    if recorded.envelope.copyof is not None:
        return state  # Its origin was shared, and a fork is not.
    shares = {user: access for user, access in state.shares.items() if user != event.user}
    if event.access != "none":
        shares[event.user] = event.access
    return replace(state, shares=shares)


def _apply_blueprint_moved(
    state: SessionState, recorded: RecordedEvent, event: BlueprintMoved
) -> SessionState:
    return replace(
        state,
        blueprint=event.blueprint,
        attributes=event.attributes,
        attributes_in=recorded.sequence,
        # A negative reach was chosen by the reader of the state, and not by a blueprint.
        reach=state.reach if state.reach < 0 else event.reach,
        cartridge=event.cartridge,
        memory=event.memory,
        warnings=event.warnings,
        prompts={},
        tools={},
        unpinned_lists={},
        telling={},
    )


def _apply_tools_snapshotted(state: SessionState, event: ToolsSnapshotted) -> SessionState:
    others = {name: each for name, each in state.unpinned_lists.items() if name != event.profile}
    tools = {**state.tools, event.profile: event}
    pinned = replace(state, tools=tools, unpinned_lists=others)
    return renew_disclosure(pinned, "first_turn", [event.profile])


def _apply_tool_list_changed(state: SessionState, event: ToolListChanged) -> SessionState:
    if event.outcome == "pinned":
        return state  # The next event pins it.
    unpinned = {**state.unpinned_lists, event.profile: event.digest}
    return replace(state, unpinned_lists=unpinned)


def _apply_event(state: SessionState, recorded: RecordedEvent) -> SessionState:
    match recorded.event:
        # The events of every turn come first, because each case costs one check for all events
        # below it.
        case TurnSubmitted() as event:
            return apply_turn_submitted(state, recorded, event)
        case AttemptStarted() as event:
            return apply_attempt_started(state, event)
        case ContextAssembled() as event:
            return apply_context_assembled(state, recorded, event)
        case AttemptEnded() as event:
            return apply_attempt_ended(state, recorded, event)
        case CallCompleted() as event:
            ended = state if event.spent is None else apply_attempt_ended(state, recorded, event)
            return apply_turn_progress(ended, recorded, event)
        case TurnCompleted() as event:
            if event.answer and event.call:
                state = correct_counts_by_usage(state, event.call, event.answer.spent.usage)
            reply, work = (
                build_optional_text_ref(recorded, "text", event.text),
                build_optional_text_ref(recorded, "work", event.work),
            )
            settled = settle_turn(
                state=state,
                turn=event.turn,
                status="completed",
                reply=reply,
                work=work,
                left=find_left_outcomes(state, recorded, event),
                reasoning=find_reply_reasoning(state, recorded, event),
            )
            about = event.reference
            return _update_reference(settled, recorded, event.turn, about) if about else settled
        case SessionOpened() | StatelessEvent() | UnknownEvent():
            return state
        case SessionClosed():
            return replace(state, closed=True)
        case SessionDescribed() as event:
            return _apply_description(state, recorded, event)
        case ShareChanged() as event:
            return _apply_share_changed(state, recorded, event)
        case PlanMade() | StepPlanned() | ToolCalled() | ToolStarted() | ToolReturned() as event:
            return apply_turn_progress(state, recorded, event)
        case ApprovalRequested() | ApprovalDecided() | ChildSettled() as event:
            return apply_turn_progress(state, recorded, event)
        case ChildRequested() as event:
            return apply_child_requested(state, recorded, event)
        case ToolsSnapshotted() as event:
            return _apply_tools_snapshotted(state, event)
        case ToolListChanged() as event:
            return _apply_tool_list_changed(state, event)
        case SchemasRequested(profile=profile):
            return renew_disclosure(state, "asked", [profile])
        case BlueprintMoved() as event:
            return _apply_blueprint_moved(state, recorded, event)
        case ProfileSwitched(profile=profile, model=model):
            return replace(state, profile=profile, model=model)
        case PromptsSnapshotted() as event:
            return replace(state, prompts={**state.prompts, **list_pinned_files(event)})
        case TurnQueued() as event:
            return apply_turn_queued(state, recorded, event)
        case TurnReleased(turn=turn):
            return apply_turn_released(state, recorded, turn)
        case ChoiceRecorded(phase=phase, choice=choice, label=label):
            return replace(state, choices=(*state.choices, PhaseChoice(phase, choice, label)))
        case PhaseEntered() as event:
            return apply_phase_entered(state, recorded, event)
        case TurnResolved() as event:
            return apply_turn_resolved(state, recorded, event)
        case KnowledgeRetrieved() as event:
            return apply_knowledge_retrieved(state, recorded, event)
        case QueriesRequested() | QueriesFailed() as event:
            return apply_query_call(state, event)
        case ReferenceUpdated() as event:
            return _update_reference(state, recorded, event.turn, event)
        case TurnFailed() | TurnCancelled() as event:
            return _settle_cut_turn(state, recorded, event)
        case TurnExcluded(turn=turn):
            return mark_turn(state, turn, excluded=True)
        case TurnRestored(turn=turn):
            return mark_turn(state, turn, excluded=False)
        case SummaryBegun() | HistorySummarised() | SummaryFailed() as event:
            return apply_memory_event(state, recorded, event)
        case SummaryUndone() | MemoryPurged() as event:
            return apply_memory_event(state, recorded, event)
        case ReplyRedacted() as event:
            return apply_reply_redacted(state, recorded, event)
        case TextRedacted() as event:
            return apply_text_redacted(state, recorded, event)
        case ErasureBegun() | ContentErased() as event:
            return apply_erasure_event(state, recorded, event)
        case _ as never:
            assert_never(never)


def _settle_cut_turn(
    state: SessionState, recorded: RecordedEvent, event: TurnFailed | TurnCancelled
) -> SessionState:
    return settle_turn(
        state=state,
        turn=event.turn,
        status="failed" if isinstance(event, TurnFailed) else "cancelled",
        reply=build_optional_text_ref(recorded, "cut_reply", event.cut_reply),
        left=find_left_outcomes(state, recorded, event),
    )


def _update_reference(
    state: SessionState,
    recorded: RecordedEvent,
    turn: int,
    about: InheritableReference | ReferenceUpdated,
) -> SessionState:
    at = recorded.envelope.time
    reference = TurnReference(
        turn=turn, identifiers=about.identifiers, intent=about.intent, entity=about.entity, at=at
    )
    return replace(state, references=(*state.references, reference)[-MAX_REFERENCES:])


def _record_command(state: SessionState, recorded: RecordedEvent) -> SessionState:
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is None or digest is None:
        return state
    event = recorded.event
    turn = event.turn if isinstance(event, TurnSubmitted | TurnQueued | TurnCompleted) else None
    # Record the last event of a command, so that a reader who reads up to it sees all its events.
    memo = IdempotencyRecord(key, digest, recorded.sequence, turn)
    commands = (*(known for known in state.commands if known.key != key), memo)
    over = max(0, len(commands) - MAX_IDEMPOTENCY_RECORDS)
    return replace(
        state, commands=commands[over:], forgotten_commands=state.forgotten_commands + over
    )
