from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.content import Digest
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
from turnlog.projections.store import calls
from turnlog.projections.store.changes import Change, Patch, Put, Value, Values
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
    attribute_digest,
    json_of,
    readable,
    sought_in,
    title_of,
)


def changes(recorded: Recorded) -> Iterator[Change]:
    """Yield the changes of one event, except the session's new last event."""
    yield from _changes(recorded)
    yield from _command(recorded)


def ending(recorded: Recorded, digest: Digest) -> Change:
    """Return the change that sets a session's last event; `digest` is that of its stored bytes."""
    at = recorded.envelope.time
    return _session(recorded, last_sequence=recorded.sequence, last_hash=digest, last_at=at)


def _changes(recorded: Recorded) -> Iterator[Change]:
    at = recorded.envelope.time
    match recorded.event:
        # Events of every turn are matched first: each case costs a comparison for all later events.
        case TurnSubmitted() | TurnQueued() as event:
            yield from _submitted(recorded, event)
        case AttemptStarted() as event:
            yield calls.started(recorded, event)
        case ContextAssembled() as event:
            yield from calls.assembled(recorded, event)
        case AttemptEnded() as event:
            yield calls.ended(recorded, event)
        case CallCompleted() as event:
            yield calls.answered(recorded, event)
        case TurnCompleted() as event:
            yield _completed(recorded, event)
        case SessionOpened() as event:
            yield from _opened(recorded, event)
        case SessionClosed():
            yield _session(recorded, closed_at=at)
        case BlueprintMoved() as event:
            yield _session(recorded, **_made_from(recorded, event))
            yield from _attributes(recorded, event)
        case ProfileSwitched(profile=profile):
            yield _session(recorded, profile=profile)
        case PromptsSnapshotted() as event:
            yield from _pinned(recorded, event)
        case TurnReleased(turn=turn):
            yield _turn(recorded, turn, status="open", released_at=at)
        case TurnFailed(turn=turn, code=cause, detail=detail):
            yield _turn(recorded, turn, status="failed", cause=cause, detail=detail, settled_at=at)
        case TurnCancelled(turn=turn, reason=cause):
            yield _turn(recorded, turn, status="cancelled", cause=cause, settled_at=at)
        case TurnExcluded(turn=turn):
            yield _turn(recorded, turn, excluded=True)
        case TurnRestored(turn=turn):
            yield _turn(recorded, turn, excluded=False)
        case ReplyRedacted() as event:
            yield from _redacted(recorded, event)
        case PhaseEntered() as event:
            yield _entered(recorded, event)
        case ToolsSnapshotted() | SchemasRequested() | PlanMade() | StepPlanned():
            return
        case ChoiceRecorded() | ToolCalled() | ToolStarted() | ToolReturned() | Unknown():
            return
        case TurnResolved() | ReferenceUpdated() | TurnDisplayed():
            return
        case SummaryBegun() | HistorySummarised() | SummaryFailed():
            return
        case SummaryUndone() | MemoryPurged():
            return
        case _ as never:
            assert_never(never)


def _command(recorded: Recorded) -> Iterator[Change]:
    envelope, event = recorded.envelope, recorded.event
    if envelope.commandkey is None or envelope.commandhash is None:
        return
    # As in the session state, the last event of a command represents it.
    values: Values = {
        "hash": envelope.commandhash,
        "sequence": recorded.sequence,
        "turn": event.turn if isinstance(event, TurnSubmitted | TurnQueued) else None,
    }
    yield Put(COMMANDS, (recorded.tenant, recorded.session, envelope.commandkey), values)


def _session(recorded: Recorded, **values: Value) -> Patch:
    return Patch(SESSIONS, (recorded.tenant, recorded.session), values)


def _turn(recorded: Recorded, turn: int, **values: Value) -> Patch:
    return Patch(TURNS, (recorded.tenant, recorded.session, turn), values)


def _opened(recorded: Recorded, event: SessionOpened) -> Iterator[Change]:
    origin = event.origin
    opened: Values = {
        **_made_from(recorded, event),
        "opened_position": recorded.stream_sequence,
        "opened_at": recorded.envelope.time,
        "blueprint": event.blueprint.name,
        "profile": event.profile,
        "origin_kind": origin.kind if origin else None,
        "origin_session": origin.session if origin else None,
        "origin_sequence": origin.sequence if origin else None,
        "sought": sought_in(recorded.session, None),
        "turns": 0,
        "redacted": False,
    }
    yield Put(SESSIONS, (recorded.tenant, recorded.session), opened)
    yield from _attributes(recorded, event)


def _made_from(recorded: Recorded, event: SessionOpened | BlueprintMoved) -> Values:
    return {
        "blueprint_version": event.blueprint.version,
        "blueprint_digest": event.blueprint.digest,
        "blueprint_in": recorded.sequence,
        "cartridge": event.cartridge,
        "memory": event.memory,
        "attributes": json_of(event.attributes),
    }


def _attributes(recorded: Recorded, event: SessionOpened | BlueprintMoved) -> Iterator[Change]:
    for name, value in event.attributes.items():
        key = (recorded.tenant, recorded.session, name)
        values: Values = {"digest": attribute_digest(value), "given_in": recorded.sequence}
        yield Put(ATTRIBUTES, key, values)


def _pinned(recorded: Recorded, event: PromptsSnapshotted) -> Iterator[Change]:
    for layer, file in event.layers.items():
        key = (recorded.tenant, recorded.session, event.provider, layer)
        values: Values = {
            "path": file.path,
            "digest": file.digest,
            "pinned_in": recorded.sequence,
        }
        yield Put(PROMPTS, key, values)


def _entered(recorded: Recorded, event: PhaseEntered) -> Put:
    values: Values = {
        "phase": event.phase,
        "before": event.before,
        "signal": event.signal,
        "forced": event.forced,
        "turn": event.turn,
        "at": recorded.envelope.time,
    }
    return Put(PHASES, (recorded.tenant, recorded.session, recorded.sequence), values)


def _submitted(recorded: Recorded, event: TurnSubmitted | TurnQueued) -> Iterator[Change]:
    at = recorded.envelope.time
    opens = isinstance(event, TurnSubmitted)
    submitted: Values = {
        "status": "open" if opens else "queued",
        "text_in": None if event.text is None else recorded.sequence,
        "excluded": False,
        "redacted": False,
        "submitted_at": at,
        "released_at": at if opens else None,
    }
    yield Put(TURNS, (recorded.tenant, recorded.session, event.turn), submitted)
    yield _session(recorded, turns=event.turn)
    if event.turn == 1:
        title = title_of(readable(event.text))
        yield _session(recorded, title=title, sought=sought_in(recorded.session, title))


def _completed(recorded: Recorded, event: TurnCompleted) -> Change:
    return _turn(
        recorded,
        event.turn,
        status="completed",
        reply_in=recorded.sequence,
        call=event.call,
        finish=event.finish,
        settled_at=recorded.envelope.time,
    )


def _redacted(recorded: Recorded, event: ReplyRedacted) -> Iterator[Change]:
    at = recorded.envelope.time
    # A reply withheld before it was shown settles its turn; one redacted later does not.
    yield _turn(
        recorded,
        event.turn,
        status="completed",
        reply_in=recorded.sequence,
        redacted=True,
        settled_at=at,
    )
    yield _session(recorded, redacted=True)
    yield Put(
        REDACTIONS,
        (recorded.tenant, recorded.session, recorded.sequence),
        {"turn": event.turn, "reason": event.reason, "rule": event.rule, "at": at},
    )
