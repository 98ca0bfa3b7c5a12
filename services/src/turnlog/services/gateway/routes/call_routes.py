"""Routes for calls: their attempts and costs, their tool results, and token growth.

Calls and growth come from the read models, and tool results from the log and the blob store. A
prompt may contain only a summary of a long tool result; the whole result is available as long as it
is stored, and is bounded by the byte limit of its blueprint.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from turnlog.events.content import Digest, get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.record.event_queries import ToolUseOutcome, find_tool_use
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT, STANDARD_COMPONENTS
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.store.read.child_usage import list_turn_usage
from turnlog.projections.store.read.row_types import CallGrowth, GroupGrowth, SessionUsage
from turnlog.projections.store.read.session_queries import find_session, list_calls
from turnlog.projections.store.read.token_ledger import (
    GrowthGrouping,
    list_call_growth,
    list_group_growth,
)
from turnlog.services.api.call_payloads import (
    CallList,
    CallMetrics,
    GroupMetrics,
    GrowthView,
    ToolResultView,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import (
    MIN_SEQUENCE_FIELD,
    MinSequenceQuery,
    QueryTime,
    convert_to_utc,
    wait_for_session_rows,
)

router = APIRouter()


@router.get("/v1/sessions/{session}/calls", summary="List the calls of a session")
async def list_session_calls(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    min_sequence: MinSequenceQuery = None,
) -> CallList:
    """List the calls of a session with all their attempts."""
    state = await deps.command_handler.require_state(tenant, session)
    if min_sequence is not None:
        await wait_for_session_rows(deps, state, min_sequence)
    async with deps.store.open_reader() as connection:
        row = await find_session(connection, tenant, session)
        calls = await list_calls(connection, tenant, session)
        turns = await list_turn_usage(connection, tenant, session)
    sequence = row.sequence if row else 0
    set_etag(response, sequence)
    return CallList(
        session=session,
        sequence=sequence,
        models=tuple(dict.fromkeys(call.model for call in calls)),
        profiles=tuple(dict.fromkeys(call.profile for call in calls if call.profile)),
        calls=calls,
        usage=row.usage if row else SessionUsage(),
        turns=turns,
    )


EVENT_BATCH_SIZE: Final = 64
"""How many events of a turn are read at a time."""


@router.get(
    "/v1/sessions/{session}/calls/{call}/tools/{id:path}",
    summary="Show the whole result of a tool use",
)
async def show_tool_result(
    session: str,
    call: str,
    id: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
) -> ToolResultView:
    """Return the arguments of a tool use, what prompts say of its result, and the whole result."""
    moment = await deps.time_travel.find_call(tenant, session, call)
    await _refuse_withheld_turn(deps, tenant, session, moment.call_context.turn)
    used = find_tool_use(
        [each async for each in iterate_turn_rest(deps.command_handler.log, moment.recorded)],
        call,
        id,
    )
    if used is None:
        detail = f"call {call} requested no tool with that id"
        raise Refused("unknown-tool-use", detail, field="id")
    set_etag(response, used.sequence)
    result_text = await _load_result_text(
        deps, tenant, used.returned.result if used.returned else None
    )
    return _create_tool_result_view(session, used, result_text)


async def _refuse_withheld_turn(
    deps: GatewayDependencies, tenant: str, session: str, turn: int
) -> None:
    settled = find_settled_turn(await deps.command_handler.require_state(tenant, session), turn)
    if settled is not None and settled.redacted:
        detail = f"the reply of turn {turn} is withheld, and so are the results behind it"
        fix = "for an audit, read the turn's events with `stored=true`"
        raise Refused("reply-withheld", detail, fix=fix)


async def iterate_turn_rest(
    log: EventLog, recorded: RecordedEvent
) -> AsyncGenerator[RecordedEvent]:
    """Yield the events after a call's prompt, in batches, until its turn has ended."""
    head = recorded.head
    turn = recorded.event.turn if isinstance(recorded.event, ContextAssembled) else 0
    while events := await log.read_next_events(
        recorded.tenant, recorded.session, head, EVENT_BATCH_SIZE
    ):
        for each in events:
            yield each
        head = events[-1].head
        if any(is_end_of_turn(each.event, turn) for each in events):
            return


async def _load_result_text(
    deps: GatewayDependencies, tenant: str, digest: Digest | None
) -> str | None:
    if digest is None:
        return None
    try:
        return (await deps.blueprints.blobs.get_blob(tenant, digest)).decode()
    except Corrupt:
        detail = f"blob {digest} was erased, or is damaged"
        raise Refused(
            "result-gone", detail, fix="see `text` of the tool use in `/history`"
        ) from None


def _create_tool_result_view(
    session: str, tool_use: ToolUseOutcome, result_text: str | None
) -> ToolResultView:
    called, returned = tool_use.called, tool_use.returned
    return ToolResultView(
        session=session,
        sequence=tool_use.sequence,
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        outcome=returned.outcome if returned else None,
        detail=returned.detail if returned else "",
        text=get_plain_text(returned.text) if returned else None,
        treatment=returned.treatment if returned else "kept",
        digest=returned.result if returned else None,
        characters=returned.characters if returned else 0,
        result=result_text,
    )


@router.get("/v1/growth", summary="Show the growth of context")
async def show_growth(
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    session: Annotated[
        str | None, Query(description="Only this session, with the figures of each call")
    ] = None,
    group_by: Annotated[
        GrowthGrouping, Query(description="What the calls of a group have in common")
    ] = "all",
    since: Annotated[
        QueryTime | None, Query(description="Only calls at or after this time")
    ] = None,
    min_sequence: MinSequenceQuery = None,
) -> GrowthView:
    """Return the tokens of each component, what was cut, and what was saved.

    The figures are per group, and per call where a session is named.
    """
    moment = convert_to_utc(since, "since") if since else None
    if session is None:
        if min_sequence is not None:
            detail = "a sequence belongs to a session"
            raise Refused(
                "invalid", detail, field=MIN_SEQUENCE_FIELD, fix="name the session as well"
            )
        async with deps.store.open_reader() as connection:
            found = await list_group_growth(connection, tenant, group_by, moment)
        return _create_growth_view(None, None, found)
    state = await deps.command_handler.require_state(tenant, session)
    if min_sequence is not None:
        await wait_for_session_rows(deps, state, min_sequence)
    async with deps.store.open_reader() as connection:
        row = await find_session(connection, tenant, session)
        found = await list_group_growth(connection, tenant, group_by, moment, session)
        calls = await list_call_growth(connection, tenant, session, moment)
    material = await deps.blueprints.load_material(state)
    counted_calls = [call for call in calls if call.kind not in material.blueprint.summary_calls]
    sequence = row.sequence if row else 0
    set_etag(response, sequence)
    return _create_growth_view(
        session, sequence, found, calls, _compute_history_growth(counted_calls)
    )


def _create_growth_view(
    session: str | None,
    sequence: int | None,
    groups: Sequence[GroupGrowth],
    calls: Sequence[CallGrowth] = (),
    rate: float | None = None,
) -> GrowthView:
    return GrowthView(
        session=session,
        sequence=sequence,
        groups=tuple(map(_create_group_metrics, groups)),
        calls=tuple(map(_create_call_metrics, calls)),
        history_growth=rate,
    )


def _create_group_metrics(group: GroupGrowth) -> GroupMetrics:
    return GroupMetrics(
        group=group.group,
        calls=group.calls,
        tokens=group.tokens,
        components=_format_components(group.components),
        savings_estimate=group.savings,
        cut_turns=group.cut_turns,
        cost=group.cost,
        retrieval_hit_rate=group.retrieval_hit_rate,
    )


def _create_call_metrics(call: CallGrowth) -> CallMetrics:
    return CallMetrics(
        call=call.call,
        turn_id=call.turn,
        at=call.at,
        kind=call.kind,
        model=call.model,
        profile=call.profile,
        budget=call.budget,
        tokens=call.tokens,
        components=_format_components(call.components),
        optimizations_applied=tuple(call.optimizations),
        savings_estimate=call.savings,
        saved=call.optimizations,
        cut_turns=call.cut_turns,
    )


def _format_components(tokens: Mapping[str, int]) -> dict[str, int]:
    every = {**dict.fromkeys(STANDARD_COMPONENTS, 0), **tokens}
    return {f"{name}_tokens": count for name, count in every.items()}


def _compute_history_growth(calls: Sequence[CallGrowth]) -> float | None:
    """Return the mean increase of history tokens from one turn to the next.

    None before two turns.
    """
    tokens_by_turn: dict[int, int] = {}
    for call in calls:
        tokens = call.components.get(HISTORY_COMPONENT, 0)
        tokens_by_turn[call.turn] = max(tokens, tokens_by_turn.get(call.turn, 0))
    history = list(tokens_by_turn.values())
    return (history[-1] - history[0]) / (len(history) - 1) if len(history) > 1 else None
