"""Routes for memory: what a turn would remember, reference resolution, summaries and purge.

Reading resolves nothing, and resolving records nothing: both report what the policies pinned by the
session would do. Undoing a summary and purging change later windows only; the log keeps all turns,
summaries and prompts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import JsonValue

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.memory_events import HistorySummarised, TurnRange
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy, MemoryReaderName
from turnlog.projections.blueprint.storable_json import MAX_INT, check_json
from turnlog.projections.prompt.history.memory_access import MemoryAccess
from turnlog.projections.prompt.sources.session_material import find_phase_visibility
from turnlog.projections.read_models.call_costs import (
    CostSum,
    add_costs,
    is_guessed_price,
    sum_call_cost,
)
from turnlog.projections.session.commands import PurgeMemory, UndoSummary
from turnlog.projections.session.reference_inheritance import StatedReferences, resolve_references
from turnlog.projections.session.rules.exclusion_preview import preview_exclusion
from turnlog.projections.session.state import LastReference
from turnlog.services.api.memory_payloads import (
    ExclusionPreviewView,
    MemoryMessageView,
    MemoryView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
    SummaryView,
    TurnRangeView,
    UncoveredTurns,
)
from turnlog.services.api.requests import ResolveReferencesRequest
from turnlog.services.api.turn_payloads import CommandResult
from turnlog.services.gateway.dependencies import Dependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import TurnPath
from turnlog.services.gateway.http.request_identity import CallerIdentity
from turnlog.services.gateway.routes.session_command_routes import handle_command
from turnlog.services.sessions.prompt_inputs import load_memory_messages

router = APIRouter()

DEFAULT_MEMORY_POLICY = MemoryPolicy(enabled=True, max_turns=0, ttl_seconds=0, max_chars=0)
"""The policy of sessions whose blueprint has no memory policy: everything is remembered."""

ReaderQuery = Annotated[
    MemoryReaderName | None, Query(description="The reader of the memory; by default any reader")
]

EntityQuery = Annotated[str | None, Query(max_length=128, description="The entity of the turn")]


@router.get("/v1/sessions/{session}/memory", summary="Show the memory of a session")
async def show_memory(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    reader: ReaderQuery = None,
    entity: EntityQuery = None,
) -> MemoryView:
    """Return the recent messages that the session's memory policy lets prompts include now."""
    state = await deps.command_handler.require_state(tenant, session)
    material = await deps.blueprints.load_material(state)
    policy = material.memory or DEFAULT_MEMORY_POLICY
    at = format_rfc3339(deps.command_handler.clock())
    # The narrator reads a prompt, which has no empty messages
    recall = MemoryAccess(policy, reader, at, entity, counts_empty_replies=reader != "narrator")
    messages = await load_memory_messages(
        deps.command_handler, state, recall, find_phase_visibility(material, state)
    )
    set_etag(response, state.head.sequence)
    return MemoryView(
        session=session,
        sequence=state.head.sequence,
        enabled=policy.enabled,
        at=at,
        policy=policy,
        warnings=state.warnings,
        messages=tuple(MemoryMessageView.model_validate(each) for each in messages),
    )


@router.get("/v1/sessions/{session}/references", summary="Show the last reference")
async def show_references(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> ReferencesView:
    """Return what the latest answered turn was about, without resolving anything."""
    state = await deps.command_handler.require_state(tenant, session)
    set_etag(response, state.head.sequence)
    last = _format_reference(state.reference) if state.reference else None
    return ReferencesView(session=session, sequence=state.head.sequence, last_reference=last)


def _format_reference(reference: LastReference) -> dict[str, JsonValue]:
    return {
        **reference.identifiers,
        "intent": reference.intent,
        "entity": reference.entity,
        "updated_at": reference.at,
        "turn_index": reference.turn,
    }


@router.post(
    "/v1/sessions/{session}/references/resolve", summary="Resolve the references of a turn"
)
async def resolve_turn_references(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    form: ResolveReferencesRequest,
    response: Response,
) -> ResolvedReferencesView:
    """Return what the next turn would inherit, and why; nothing is recorded."""
    check_json(form.identifiers, "identifiers")
    state = await deps.command_handler.require_state(tenant, session)
    policy = (await deps.blueprints.load_material(state)).references
    stated = StatedReferences(state.submitted + 1, form.intent, form.entity, form.identifiers)
    resolved = resolve_references(policy, state.reference, stated)
    set_etag(response, state.head.sequence)
    return ResolvedReferencesView(
        session=session,
        sequence=state.head.sequence,
        identifiers=resolved.identifiers,
        used=resolved.is_inherited,
        reason=resolved.reason,
    )


SummarySequencePath = Annotated[int, Path(ge=1, le=MAX_INT)]


@router.get("/v1/sessions/{session}/summaries", summary="List the active summaries")
async def show_summaries(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> SummariesView:
    """Return the active summaries of older turns, and the last purged turn."""
    state = await deps.command_handler.require_state(tenant, session)
    places = [each.said.place for each in state.summaries]
    events = await deps.log.read_events_at(tenant, places) if places else ()
    set_etag(response, state.head.sequence)
    return SummariesView(
        session=session,
        sequence=state.head.sequence,
        summaries=tuple(map(_create_summary_view, events)),
        purged=state.purged,
    )


def _sum_summary_costs(recorded: Iterable[RecordedEvent]) -> CostSum:
    events = (each.event for each in recorded)
    summaries = (event for event in events if isinstance(event, HistorySummarised))
    return add_costs(sum_call_cost([each.cost]) for each in summaries)


def _create_summary_view(recorded: RecordedEvent) -> SummaryView:
    summary = recorded.event
    if not isinstance(summary, HistorySummarised):
        raise Corrupt(f"event {recorded.sequence}", "it holds no summary")
    return SummaryView(
        sequence=recorded.sequence,
        view=summary.view,
        turns=_create_range_views(summary.turns),
        former=summary.former,
        phases=summary.phases,
        text=get_plain_text(summary.summary),
        call=summary.call,
        inputs=summary.inputs,
        model=summary.model,
        micro_dollars=summary.cost.micro_dollars,
        guessed=is_guessed_price(summary.cost.price),
        at=recorded.envelope.time,
    )


def _create_range_views(turns: Iterable[TurnRange]) -> tuple[TurnRangeView, ...]:
    return tuple(TurnRangeView(first=each.first, last=each.last) for each in turns)


@router.get(
    "/v1/sessions/{session}/turns/{turn}/exclusion", summary="Preview the exclusion of a turn"
)
async def show_exclusion_preview(
    session: str, turn: TurnPath, tenant: RequestTenant, deps: Dependencies, response: Response
) -> ExclusionPreviewView:
    """Return which summaries excluding a turn would undo, and what they cost; record nothing."""
    state = await deps.command_handler.require_state(tenant, session)
    preview = preview_exclusion(state, turn)
    places = [each.said.place for each in preview.undone]
    events = await deps.log.read_events_at(tenant, places) if places else ()
    set_etag(response, state.head.sequence)
    return ExclusionPreviewView(
        session=session,
        turn=turn,
        sequence=state.head.sequence,
        undone=tuple(map(_create_summary_view, events)),
        uncovered=tuple(
            UncoveredTurns(view=view, turns=_create_range_views(turns))
            for view, turns in preview.uncovered.items()
        ),
        cost=_sum_summary_costs(events),
    )


@router.post("/v1/sessions/{session}/summaries/{sequence}/undo", summary="Undo a summary")
async def undo_summary(
    session: str,
    sequence: SummarySequencePath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
) -> CommandResult:
    """Undo a summary: later windows show the turns it replaced; the log keeps the summary."""
    return await handle_command(deps, caller, session, UndoSummary(sequence), None, response)


@router.post("/v1/sessions/{session}/purge", summary="Purge the memory")
async def purge_memory(
    session: str, caller: CallerIdentity, deps: Dependencies, response: Response
) -> CommandResult:
    """Exclude all turns so far from later windows; the log keeps them."""
    return await handle_command(deps, caller, session, PurgeMemory(), None, response)
