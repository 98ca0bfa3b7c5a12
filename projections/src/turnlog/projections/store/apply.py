from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.kinds import UnknownEvent
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
from turnlog.projections.store import calls
from turnlog.projections.store.changes import RowChange, PatchRow, PutRow, ColumnValue, ColumnValues
from turnlog.projections.store.tables import (
    ATTRIBUTES,
    COMMANDS,
    PHASES,
    PROMPTS,
    REDACTIONS,
    SESSIONS,
    TURNS,
)
from turnlog.projections.store.texts import (
    compute_attribute_digest,
    encode_json,
    get_plain_text,
    build_search_text,
    format_title,
)


def build_changes(recorded: RecordedEvent) -> Iterator[RowChange]:
    """Yield the changes of one event, except the session's new last event."""
    yield from _build_event_changes(recorded)
    yield from _build_command_change(recorded)


def build_session_end(recorded: RecordedEvent, digest: Digest) -> RowChange:
    """Return the change that sets a session's last event; `digest` is that of its stored bytes."""
    at = recorded.envelope.time
    return _patch_session(recorded, last_sequence=recorded.sequence, last_hash=digest, last_at=at)


def _build_event_changes(recorded: RecordedEvent) -> Iterator[RowChange]:
    at = recorded.envelope.time
    match recorded.event:
        # Events of every turn are matched first: each case costs a comparison for all later events.
        case TurnSubmitted() | TurnQueued() as event:
            yield from _build_submitted_turn(recorded, event)
        case AttemptStarted() as event:
            yield calls.build_attempt_row(recorded, event)
        case ContextAssembled() as event:
            yield from calls.build_call_rows(recorded, event)
        case AttemptEnded() as event:
            yield calls.build_attempt_end(recorded, event)
        case CallCompleted() as event:
            yield calls.build_call_answer(recorded, event)
        case TurnCompleted() as event:
            yield _build_completed_turn(recorded, event)
        case SessionOpened() as event:
            yield from _build_opened_session(recorded, event)
        case SessionClosed():
            yield _patch_session(recorded, closed_at=at)
        case BlueprintMoved() as event:
            yield _patch_session(recorded, **_build_blueprint_values(recorded, event))
            yield from _build_attribute_rows(recorded, event)
        case ProfileSwitched(profile=profile):
            yield _patch_session(recorded, profile=profile)
        case PromptsSnapshotted() as event:
            yield from _build_prompt_rows(recorded, event)
        case TurnReleased(turn=turn):
            yield _patch_turn(recorded, turn, status="open", released_at=at)
        case TurnFailed(turn=turn, code=cause, detail=detail):
            yield _patch_turn(recorded, turn, status="failed", cause=cause, detail=detail, settled_at=at)
        case TurnCancelled(turn=turn, reason=cause):
            yield _patch_turn(recorded, turn, status="cancelled", cause=cause, settled_at=at)
        case TurnExcluded(turn=turn):
            yield _patch_turn(recorded, turn, excluded=True)
        case TurnRestored(turn=turn):
            yield _patch_turn(recorded, turn, excluded=False)
        case ReplyRedacted() as event:
            yield from _build_redaction(recorded, event)
        case PhaseEntered() as event:
            yield _build_phase_row(recorded, event)
        case ToolsSnapshotted() | SchemasRequested() | PlanMade() | StepPlanned():
            return
        case ChoiceRecorded() | ToolCalled() | ToolStarted() | ToolReturned() | UnknownEvent():
            return
        case TurnResolved() | ReferenceUpdated() | TurnDisplayed():
            return
        case SummaryBegun() | HistorySummarised() | SummaryFailed():
            return
        case SummaryUndone() | MemoryPurged():
            return
        case _ as never:
            assert_never(never)


def _build_command_change(recorded: RecordedEvent) -> Iterator[RowChange]:
    envelope, event = recorded.envelope, recorded.event
    if envelope.commandkey is None or envelope.commandhash is None:
        return
    # As in the session state, the last event of a command represents it.
    values: ColumnValues = {
        "hash": envelope.commandhash,
        "sequence": recorded.sequence,
        "turn": event.turn if isinstance(event, TurnSubmitted | TurnQueued) else None,
    }
    yield PutRow(COMMANDS, (recorded.tenant, recorded.session, envelope.commandkey), values)


def _patch_session(recorded: RecordedEvent, **values: ColumnValue) -> PatchRow:
    return PatchRow(SESSIONS, (recorded.tenant, recorded.session), values)


def _patch_turn(recorded: RecordedEvent, turn: int, **values: ColumnValue) -> PatchRow:
    return PatchRow(TURNS, (recorded.tenant, recorded.session, turn), values)


def _build_opened_session(recorded: RecordedEvent, event: SessionOpened) -> Iterator[RowChange]:
    origin = event.origin
    opened: ColumnValues = {
        **_build_blueprint_values(recorded, event),
        "opened_position": recorded.stream_sequence,
        "opened_at": recorded.envelope.time,
        "blueprint": event.blueprint.name,
        "profile": event.profile,
        "origin_kind": origin.kind if origin else None,
        "origin_session": origin.session if origin else None,
        "origin_sequence": origin.sequence if origin else None,
        "sought": build_search_text(recorded.session, None),
        "turns": 0,
        "redacted": False,
    }
    yield PutRow(SESSIONS, (recorded.tenant, recorded.session), opened)
    yield from _build_attribute_rows(recorded, event)


def _build_blueprint_values(recorded: RecordedEvent, event: SessionOpened | BlueprintMoved) -> ColumnValues:
    return {
        "blueprint_version": event.blueprint.version,
        "blueprint_digest": event.blueprint.digest,
        "blueprint_in": recorded.sequence,
        "cartridge": event.cartridge,
        "memory": event.memory,
        "attributes": encode_json(event.attributes),
    }


def _build_attribute_rows(recorded: RecordedEvent, event: SessionOpened | BlueprintMoved) -> Iterator[RowChange]:
    for name, value in event.attributes.items():
        key = (recorded.tenant, recorded.session, name)
        values: ColumnValues = {"digest": compute_attribute_digest(value), "given_in": recorded.sequence}
        yield PutRow(ATTRIBUTES, key, values)


def _build_prompt_rows(recorded: RecordedEvent, event: PromptsSnapshotted) -> Iterator[RowChange]:
    for layer, file in event.layers.items():
        key = (recorded.tenant, recorded.session, event.provider, layer)
        values: ColumnValues = {
            "path": file.path,
            "digest": file.digest,
            "pinned_in": recorded.sequence,
        }
        yield PutRow(PROMPTS, key, values)


def _build_phase_row(recorded: RecordedEvent, event: PhaseEntered) -> PutRow:
    values: ColumnValues = {
        "phase": event.phase,
        "before": event.before,
        "signal": event.signal,
        "forced": event.forced,
        "turn": event.turn,
        "at": recorded.envelope.time,
    }
    return PutRow(PHASES, (recorded.tenant, recorded.session, recorded.sequence), values)


def _build_submitted_turn(recorded: RecordedEvent, event: TurnSubmitted | TurnQueued) -> Iterator[RowChange]:
    at = recorded.envelope.time
    opens = isinstance(event, TurnSubmitted)
    submitted: ColumnValues = {
        "status": "open" if opens else "queued",
        "text_in": None if event.text is None else recorded.sequence,
        "excluded": False,
        "redacted": False,
        "submitted_at": at,
        "released_at": at if opens else None,
    }
    yield PutRow(TURNS, (recorded.tenant, recorded.session, event.turn), submitted)
    yield _patch_session(recorded, turns=event.turn)
    if event.turn == 1:
        title = format_title(get_plain_text(event.text))
        yield _patch_session(recorded, title=title, sought=build_search_text(recorded.session, title))


def _build_completed_turn(recorded: RecordedEvent, event: TurnCompleted) -> RowChange:
    return _patch_turn(
        recorded,
        event.turn,
        status="completed",
        reply_in=recorded.sequence,
        call=event.call,
        finish=event.finish,
        settled_at=recorded.envelope.time,
    )


def _build_redaction(recorded: RecordedEvent, event: ReplyRedacted) -> Iterator[RowChange]:
    at = recorded.envelope.time
    # A reply withheld before it was shown settles its turn; one redacted later does not.
    yield _patch_turn(
        recorded,
        event.turn,
        status="completed",
        reply_in=recorded.sequence,
        redacted=True,
        settled_at=at,
    )
    yield _patch_session(recorded, redacted=True)
    yield PutRow(
        REDACTIONS,
        (recorded.tenant, recorded.session, recorded.sequence),
        {"turn": event.turn, "reason": event.reason, "rule": event.rule, "at": at},
    )
