from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.components import STANDARD_COMPONENTS, HISTORY_COMPONENT
from turnlog.projections.store.growth import GrowthGrouping, list_call_growth, list_group_growth
from turnlog.projections.store.listing import find_session as row_of
from turnlog.projections.store.rows import CallGrowth, GroupGrowth
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.freshness import MIN_SEQUENCE_FIELD, MinSequenceQuery, wait_for_read_models
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.moments import convert_to_utc
from turnlog.services.gateway.payloads.growth import CallMetrics, GroupMetrics, GrowthView

growth_router = APIRouter()


@growth_router.get("/v1/growth", summary="How context grows")
async def show_growth(
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    session: Annotated[str | None, Query(description="Of this session, call by call")] = None,
    group_by: Annotated[GrowthGrouping, Query(description="Put calls together by this")] = "all",
    since: Annotated[AwareDatetime | None, Query(description="Calls made at or after")] = None,
    min_sequence: MinSequenceQuery = None,
) -> GrowthView:
    """Return the tokens of each component, what was cut, and what was saved.

    The figures are per group, and per call where a session is named.
    """
    moment = convert_to_utc(since, "since") if since else None
    if session is None:
        if min_sequence is not None:
            detail = "a sequence is one of a session"
            raise Refused("invalid", detail, field=MIN_SEQUENCE_FIELD, fix="name the session as well")
        async with deps.store.open_reader() as connection:
            found = await list_group_growth(connection, tenant, group_by, moment)
        return _create_growth_view(None, None, found)
    state = await deps.sessions.require_state(tenant, session)
    if min_sequence is not None:
        await wait_for_read_models(deps, state, min_sequence)
    async with deps.store.open_reader() as connection:
        row = await row_of(connection, tenant, session)
        found = await list_group_growth(connection, tenant, group_by, moment, session)
        calls = await list_call_growth(connection, tenant, session, moment)
    material = await deps.blueprints.load_material(state)
    told = [call for call in calls if call.kind not in material.blueprint.summary_calls]
    sequence = row.last_sequence if row else 0
    set_etag(response, sequence)
    return _create_growth_view(session, sequence, found, calls, _compute_history_growth(told))


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
        components=_format_components({each.component: each.tokens for each in call.components}),
        optimizations_applied=tuple(call.optimizations),
        savings_estimate=call.savings,
        saved=call.optimizations,
        cut_turns=sum(each.cut_turns for each in call.components),
    )


def _format_components(tokens: Mapping[str, int]) -> dict[str, int]:
    every = {**dict.fromkeys(STANDARD_COMPONENTS, 0), **tokens}
    return {f"{name}_tokens": count for name, count in every.items()}


def _compute_history_growth(calls: Sequence[CallGrowth]) -> float | None:
    """Return the mean increase of history tokens from one turn to the next; None before two turns.
    """
    told: dict[int, int] = {}
    for call in calls:
        tokens = sum(each.tokens for each in call.components if each.component == HISTORY_COMPONENT)
        told[call.turn] = max(tokens, told.get(call.turn, 0))
    history = list(told.values())
    return (history[-1] - history[0]) / (len(history) - 1) if len(history) > 1 else None
