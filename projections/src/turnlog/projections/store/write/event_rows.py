"""The rows that follow from an event: a pure function from an event to row changes.

It sets values, never differences, and does not query the database, so the same events always give
the same rows. Events without rows only change the session's last sequence. Figures that were never
measured stay null, which means unknown and not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, assert_never

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import Content, Digest, get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
    find_attempt_end,
    find_call_answer,
)
from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled
from turnlog.events.model.manifest import HistorySource, PromptPart
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
    ErasureEvent,
    RedactionEvent,
    ReplyRedacted,
    TextRedacted,
    is_of_ended_turn,
)
from turnlog.events.model.retrieval_events import (
    EntryFeedbackGiven,
    FeedbackGiven,
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
    ReferenceUpdated,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnResolved,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import UnknownEvent
from turnlog.projections.blueprint.schema.layer_specs import RAG_COMPONENT
from turnlog.projections.prompt.manifest_reports import compute_token_savings
from turnlog.projections.prompt.sources.retrieved_layers import NOT_RETRIEVED
from turnlog.projections.retention.session_facts import is_activity
from turnlog.projections.session.session_owner import find_owner
from turnlog.projections.session_views.session_history import TurnStatus
from turnlog.projections.store.schema.hour_tables import CHANGED_HOURS, TEN_MINUTES_CHARACTERS
from turnlog.projections.store.schema.read_model_tables import (
    APPROVALS,
    ATTEMPTS,
    ATTRIBUTES,
    CALLS,
    CHILD_TURNS,
    COMMANDS,
    PINNED_BLUEPRINTS,
    PROMPTS,
    RETRIEVED_ENTRIES,
    SESSION_LABELS,
    SESSION_SHARES,
    SESSIONS,
    TURN_VOTES,
    TURNS,
    WINDOW_PARTS,
    build_search_text,
    compute_attribute_digest,
    encode_json,
    format_title,
)
from turnlog.projections.store.write.row_changes import (
    ColumnValue,
    ColumnValues,
    PatchRow,
    PutRow,
    RowChange,
)
from turnlog.projections.store.write.use_rows import build_use_rows


def build_attempt_row(recorded: RecordedEvent, event: AttemptStarted) -> RowChange:
    """Return the row of a new attempt."""
    key = (recorded.tenant, recorded.session, event.turn, event.attempt)
    at = recorded.envelope.time
    values: ColumnValues = {
        "call": event.call,
        "worker": event.worker,
        "started_at": at,
        "copied": recorded.envelope.copyof is not None,
    }
    return PutRow(ATTEMPTS, key, values)


def build_attempt_end(recorded: RecordedEvent, event: AttemptEnded) -> RowChange:
    """Return the end of an attempt; the worker's own event replaces what others recorded of it."""
    usage, cost, timings = event.usage, event.cost, event.timings
    values: ColumnValues = {
        "ended_at": recorded.envelope.time,
        "outcome": event.outcome,
        "known": usage.known,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "micro_dollars": cost.micro_dollars,
        "price": cost.price,
        "first_token_ms": timings.first_token if timings else None,
        "total_ms": timings.total if timings else None,
        "fault": event.fault.code if event.fault else None,
    }
    if terms := cost.cache:
        values |= {
            "cache_minimum": terms.minimum,
            "cache_step": terms.step,
            "cache_spared": terms.spared,
        }
        if terms.lifetime is not None:
            values["cached_until"] = _add_seconds(recorded.envelope.time, terms.lifetime)
    return PatchRow(
        ATTEMPTS, (recorded.tenant, recorded.session, event.turn, event.attempt), values
    )


def _add_seconds(time: str, seconds: int) -> str:
    return format_rfc3339(datetime.fromisoformat(time) + timedelta(seconds=seconds))


def build_call_rows(recorded: RecordedEvent, event: ContextAssembled) -> Iterator[RowChange]:
    """Yield the row of a call, its share of a budget, and a ledger row for each component."""
    manifest = event.manifest
    saved = compute_token_savings(manifest)
    key = (recorded.tenant, recorded.session, event.call)
    values: ColumnValues = {
        "turn": event.turn,
        "sequence": recorded.sequence,
        "at": recorded.envelope.time,
        "kind": manifest.kind,
        "model": event.model,
        "supersedes": event.supersedes,
        "digest": manifest.digest,
        "budget": manifest.budget,
        "tokens": manifest.tokens,
        "counter": manifest.counter.name,
        "parts": len(manifest.parts),
        "profile": event.profile,
        "optimizations": encode_json(dict(saved)),
        "savings": sum(saved.values()),
        "copied": recorded.envelope.copyof is not None,
    }
    if prefix := manifest.prefix:
        values |= {
            "prefix_call": prefix.call,
            "prefix_tokens": prefix.tokens,
            "prefix_ended_by": prefix.ended_by,
        }
    yield PutRow(CALLS, key, values)
    ten_minutes = recorded.envelope.time[:TEN_MINUTES_CHARACTERS]
    yield PutRow(CHANGED_HOURS, (recorded.tenant, ten_minutes), {})
    if manifest.budget:
        share = manifest.tokens * 1_000 // manifest.budget
        yield _patch_session(recorded, budget_share=share)
    components: dict[str, list[PromptPart]] = {}
    for part in manifest.parts:
        if not _is_unmade_retrieval(part):
            components.setdefault(part.component, []).append(part)
    for place, (component, parts) in enumerate(components.items()):
        yield PutRow(WINDOW_PARTS, (*key, component), _build_ledger_values(place, parts))


def _is_unmade_retrieval(part: PromptPart) -> bool:
    """Return whether nothing was sought for a part, so that it is neither a hit nor a miss."""
    if part.component != RAG_COMPONENT or part.is_included:
        return False
    rule = part.rule or ""
    return rule == NOT_RETRIEVED or rule.startswith("when ")


def _build_ledger_values(place: int, parts: Sequence[PromptPart]) -> ColumnValues:
    included = [part for part in parts if part.is_included]
    return {
        "place": place,
        "parts": len(included),
        "tokens": sum(part.tokens for part in included),
        "cut_turns": sum(_count_turns(part) for part in parts if part.treatment == "dropped"),
    }


def _count_turns(part: PromptPart) -> int:
    run = part.source
    return run.last - run.first + 1 if isinstance(run, HistorySource) else 0


def build_answer(recorded: RecordedEvent) -> Iterator[RowChange]:
    """Yield the end of an attempt and the answer of its call, as far as an event records them."""
    if ended := find_attempt_end(recorded.event):
        yield build_attempt_end(recorded, ended)
    if answered := find_call_answer(recorded.event):
        yield build_call_answer(recorded, answered)


def build_call_answer(recorded: RecordedEvent, event: CallCompleted) -> RowChange:
    """Return the change that records which attempt answered a call, and its length."""
    values: ColumnValues = {
        "attempt": event.attempt,
        "finish": event.finish,
        "characters": event.characters,
    }
    return PatchRow(CALLS, (recorded.tenant, recorded.session, event.call), values)


def build_changes(recorded: RecordedEvent) -> Iterator[RowChange]:
    """Yield the changes of one event, except the session's new last event."""
    yield from _build_event_changes(recorded)
    if is_activity(recorded):
        yield _patch_session(recorded, used_at=recorded.envelope.time)
    yield from build_use_rows(recorded)
    yield from _build_command_change(recorded)


def build_session_end(recorded: RecordedEvent, digest: Digest) -> RowChange:
    """Return the change that sets a session's last event; `digest` is that of its stored bytes."""
    at = recorded.envelope.time
    return _patch_session(recorded, last_sequence=recorded.sequence, last_hash=digest, last_at=at)


def _build_event_changes(recorded: RecordedEvent) -> Iterator[RowChange]:
    match recorded.event:
        # Events of every turn are matched first: each case costs a comparison for all later events.
        case TurnSubmitted() | TurnQueued() as event:
            yield from _build_submitted_turn(recorded, event)
        case AttemptStarted() as event:
            yield build_attempt_row(recorded, event)
        case ContextAssembled() as event:
            yield from build_call_rows(recorded, event)
        case AttemptEnded() | CallCompleted():
            yield from build_answer(recorded)
        case TurnCompleted() as event:
            yield from build_answer(recorded)
            yield _patch_turn(recorded, event.turn, "completed")
        case SessionOpened() as event:
            yield from _build_opened_session(recorded, event)
        case SessionDescribed() as event:
            yield from _build_description(recorded, event)
        case ShareChanged() as event:
            yield from _build_share(recorded, event)
        case SessionClosed():
            yield _patch_session(recorded, closed_at=recorded.envelope.time)
        case BlueprintMoved() as event:
            yield from _build_move(recorded, event)
        case ProfileSwitched(profile=profile):
            yield _patch_session(recorded, profile=profile)
        case PromptsSnapshotted() as event:
            yield from _build_prompt_rows(recorded, event)
        case TurnReleased(turn=turn):
            yield _patch_turn(recorded, turn, "open")
        case TurnFailed() as event:
            yield _build_failed_turn(recorded, event)
        case TurnCancelled(turn=turn):
            yield _patch_turn(recorded, turn, "cancelled")
        case ReplyRedacted() | TextRedacted() as event:
            yield from _build_redaction(recorded, event)
        case ErasureBegun() | ContentErased() as event:
            yield from _build_erasure(recorded, event)
        case PhaseEntered(phase=phase):
            yield _patch_session(recorded, phase=phase)
        case TurnExcluded() | TurnRestored() | ToolsSnapshotted() | ToolListChanged() | PlanMade():
            return
        case ToolCalled() | ToolStarted() | ToolReturned() | SchemasRequested() | UnknownEvent():
            return
        case ChildRequested() as event:
            yield from _build_child_turn(recorded, event)
        case ApprovalRequested() | ApprovalDecided() as event:
            yield _build_approval(recorded, event)
        case ChildSettled() | ChildEnded() | TurnResolved() | ReferenceUpdated() | TurnDisplayed():
            return
        case KnowledgeRetrieved() | FeedbackGiven() | EntryFeedbackGiven() as event:
            yield from _build_retrieval_rows(recorded, event)
        case (
            (SummaryBegun() | HistorySummarised() | SummaryFailed() | SummaryUndone())
            | (MemoryPurged() | StepPlanned() | ChoiceRecorded() | QueriesRequested())
            | QueriesFailed()
        ):
            return
        case _ as never:
            assert_never(never)


def _build_redaction(recorded: RecordedEvent, event: RedactionEvent) -> Iterator[RowChange]:
    yield _patch_session(recorded, redacted=True)
    if isinstance(event, TextRedacted):
        if event.turn == 1:
            yield _build_first_words(recorded, event.replacement)
    elif not is_of_ended_turn(event):
        # A reply that is withheld before it is shown completes its turn.
        yield _patch_turn(recorded, event.turn, "completed")


def _build_erasure(recorded: RecordedEvent, event: ErasureEvent) -> Iterator[RowChange]:
    if recorded.envelope.copyof is None:
        erasing = event.still_open if isinstance(event, ContentErased) else recorded.sequence
        yield _patch_session(recorded, redacted=True, erasing=erasing)
        if isinstance(event, ErasureBegun) and not event.turns:
            yield _patch_session(recorded, erased_in=recorded.sequence)


def _build_child_turn(recorded: RecordedEvent, event: ChildRequested) -> Iterator[RowChange]:
    if recorded.envelope.copyof is None:
        key = (recorded.tenant, recorded.session, event.session, event.child_turn)
        values: ColumnValues = {"turn": event.turn, "call": event.call, "request": event.id}
        yield PutRow(CHILD_TURNS, key, values)


def _build_approval(
    recorded: RecordedEvent, event: ApprovalRequested | ApprovalDecided
) -> RowChange:
    key = (recorded.tenant, recorded.session, event.turn, event.approval)
    if isinstance(event, ApprovalDecided):
        decided: ColumnValues = {
            "decision": event.decision,
            "decided_at": recorded.envelope.time,
            "decided_by": None if event.cause == "deadline" else recorded.envelope.actor,
        }
        return PatchRow(APPROVALS, key, decided)
    values: ColumnValues = {
        "position": recorded.stream_sequence,
        "requested_at": recorded.envelope.time,
        "call": event.call,
        "id": event.id,
        "tool": event.tool,
        "deadline": event.deadline,
    }
    return PutRow(APPROVALS, key, values)


_VOTE_VALUES: Final = {"up": 1, "none": 0, "down": -1}


def _build_retrieval_rows(
    recorded: RecordedEvent, event: KnowledgeRetrieved | FeedbackGiven | EntryFeedbackGiven
) -> Iterator[RowChange]:
    """Yield what a turn took, or a vote; one that a fork copied was given once already."""
    turn = (recorded.tenant, recorded.session, event.turn)
    if isinstance(event, KnowledgeRetrieved):
        for each in event.taken:
            yield PutRow(RETRIEVED_ENTRIES, (*turn, each.collection, each.entry), {})
    elif recorded.envelope.copyof is None:
        vote = _VOTE_VALUES[event.vote]
        sequence, position = recorded.sequence, recorded.stream_sequence
        if isinstance(event, FeedbackGiven):
            values: ColumnValues = {"vote": vote, "sequence": sequence, "position": position}
            yield PutRow(TURN_VOTES, turn, values)
        else:
            key = (*turn, event.collection, event.entry)
            values = {"vote": vote, "vote_sequence": sequence, "vote_position": position}
            yield PatchRow(RETRIEVED_ENTRIES, key, values)


def _build_command_change(recorded: RecordedEvent) -> Iterator[RowChange]:
    envelope, event = recorded.envelope, recorded.event
    if envelope.commandkey is None or envelope.commandhash is None:
        return
    # As in the session state, the last event of a command represents it.
    values: ColumnValues = {
        "hash": envelope.commandhash,
        "sequence": recorded.sequence,
        "turn": event.turn
        if isinstance(event, TurnSubmitted | TurnQueued | TurnCompleted)
        else None,
    }
    yield PutRow(COMMANDS, (recorded.tenant, recorded.session, envelope.commandkey), values)


def _patch_session(recorded: RecordedEvent, **values: ColumnValue) -> PatchRow:
    return PatchRow(SESSIONS, (recorded.tenant, recorded.session), values)


def _patch_turn(recorded: RecordedEvent, turn: int, status: TurnStatus) -> PatchRow:
    return PatchRow(TURNS, (recorded.tenant, recorded.session, turn), {"status": status})


def _build_failed_turn(recorded: RecordedEvent, event: TurnFailed) -> RowChange:
    key = (recorded.tenant, recorded.session, event.turn)
    return PatchRow(TURNS, key, {"status": "failed", "failure": event.code})


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
        "owner": find_owner(recorded, event),
        "sealed_under": event.sealed_under,
    }
    yield PutRow(SESSIONS, (recorded.tenant, recorded.session), opened)
    yield _build_pinned_blueprint(recorded, event)
    yield from _build_attribute_rows(recorded, event)
    yield from _build_description(recorded, event)


def _build_description(
    recorded: RecordedEvent, event: SessionOpened | SessionDescribed
) -> Iterator[RowChange]:
    """Yield the title and the labels that an event sets; metadata are read from the log only."""
    if event.title is not None:
        title = get_plain_text(event.title) or None
        sought = title and title.casefold()
        yield _patch_session(recorded, given_title=title, sought_title=sought)
    labels, sequence = event.labels, recorded.sequence
    if labels or (labels is not None and isinstance(event, SessionDescribed)):
        yield _patch_session(recorded, labels=encode_json([*labels]), labels_in=sequence)
        for label in labels:
            key = (recorded.tenant, recorded.session, label)
            yield PutRow(SESSION_LABELS, key, {"set_in": sequence})


def _build_move(recorded: RecordedEvent, event: BlueprintMoved) -> Iterator[RowChange]:
    yield _patch_session(recorded, **_build_blueprint_values(recorded, event))
    yield _build_pinned_blueprint(recorded, event)
    yield from _build_attribute_rows(recorded, event)


def _build_share(recorded: RecordedEvent, event: ShareChanged) -> Iterator[RowChange]:
    if recorded.envelope.copyof is None:
        key = (recorded.tenant, recorded.session, event.user)
        yield PutRow(SESSION_SHARES, key, {"access": event.access})


def _build_pinned_blueprint(
    recorded: RecordedEvent, event: SessionOpened | BlueprintMoved
) -> RowChange:
    key = (recorded.tenant, recorded.session, recorded.sequence)
    return PutRow(PINNED_BLUEPRINTS, key, {"version": event.blueprint.version})


def _build_blueprint_values(
    recorded: RecordedEvent, event: SessionOpened | BlueprintMoved
) -> ColumnValues:
    return {
        "blueprint_version": event.blueprint.version,
        "blueprint_digest": event.blueprint.digest,
        "blueprint_in": recorded.sequence,
        "cartridge": event.cartridge,
        "memory": event.memory,
        "attributes": encode_json(event.attributes),
    }


def _build_attribute_rows(
    recorded: RecordedEvent, event: SessionOpened | BlueprintMoved
) -> Iterator[RowChange]:
    for name, value in event.attributes.items():
        key = (recorded.tenant, recorded.session, name)
        values: ColumnValues = {
            "digest": compute_attribute_digest(value),
            "given_in": recorded.sequence,
        }
        yield PutRow(ATTRIBUTES, key, values)


def _build_prompt_rows(recorded: RecordedEvent, event: PromptsSnapshotted) -> Iterator[RowChange]:
    other_files = {provider: other.layers for provider, other in event.others.items()}
    for provider, files in {**other_files, event.provider: event.layers}.items():
        for layer, file in files.items():
            key = (recorded.tenant, recorded.session, provider, layer)
            values: ColumnValues = {
                "path": file.path,
                "digest": file.digest,
                "pinned_in": recorded.sequence,
            }
            yield PutRow(PROMPTS, key, values)


def _build_submitted_turn(
    recorded: RecordedEvent, event: TurnSubmitted | TurnQueued
) -> Iterator[RowChange]:
    submitted: ColumnValues = {
        "status": "open" if isinstance(event, TurnSubmitted) else "queued",
        "submitted_at": recorded.envelope.time,
        "asked_by": event.user,
        "counted": recorded.envelope.copyof is None
        and not (isinstance(event, TurnSubmitted) and event.role == "system"),
    }
    yield PutRow(TURNS, (recorded.tenant, recorded.session, event.turn), submitted)
    yield _patch_session(recorded, turns=event.turn)
    if event.turn == 1:
        yield _build_first_words(recorded, event.text)


def _build_first_words(recorded: RecordedEvent, text: Content | None) -> RowChange:
    """Return the change by which a session without a given title is listed and found."""
    title = format_title(get_plain_text(text))
    return _patch_session(recorded, title=title, sought=build_search_text(recorded.session, title))
