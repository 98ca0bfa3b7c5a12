from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.components import COMPONENTS, HISTORY
from turnlog.projections.store.growth import GroupBy, of_calls, of_groups
from turnlog.projections.store.listing import session as row_of
from turnlog.projections.store.rows import CallGrowth, GroupGrowth
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.freshness import FIELD, MinSequence, read_up_to
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.moments import in_utc
from turnlog.services.gateway.payloads.growth import CallMetrics, GroupMetrics, GrowthView

router = APIRouter()


@router.get("/v1/growth", summary="How context grows")
async def show_growth(
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    session: Annotated[str | None, Query(description="Of this session, call by call")] = None,
    group_by: Annotated[GroupBy, Query(description="Put calls together by this")] = "all",
    since: Annotated[AwareDatetime | None, Query(description="Calls made at or after")] = None,
    min_sequence: MinSequence = None,
) -> GrowthView:
    """Return the tokens of each component, what was cut, and what was saved.

    The figures are per group, and per call where a session is named.
    """
    moment = in_utc(since, "since") if since else None
    if session is None:
        if min_sequence is not None:
            detail = "a sequence is one of a session"
            raise Refused("invalid", detail, field=FIELD, fix="name the session as well")
        async with desk.store.reading() as connection:
            found = await of_groups(connection, tenant, group_by, moment)
        return _view(None, None, found)
    state = await desk.sessions.load_open(tenant, session)
    if min_sequence is not None:
        await read_up_to(desk, state, min_sequence)
    async with desk.store.reading() as connection:
        row = await row_of(connection, tenant, session)
        found = await of_groups(connection, tenant, group_by, moment, session)
        calls = await of_calls(connection, tenant, session, moment)
    material = await desk.blueprints.load(state)
    told = [call for call in calls if call.kind not in material.blueprint.summing]
    sequence = row.last_sequence if row else 0
    stamp(response, sequence)
    return _view(session, sequence, found, calls, _rate(told))


def _view(
    session: str | None,
    sequence: int | None,
    groups: Sequence[GroupGrowth],
    calls: Sequence[CallGrowth] = (),
    rate: float | None = None,
) -> GrowthView:
    return GrowthView(
        session=session,
        sequence=sequence,
        groups=tuple(map(_group, groups)),
        calls=tuple(map(_call, calls)),
        history_growth=rate,
    )


def _group(group: GroupGrowth) -> GroupMetrics:
    return GroupMetrics(
        group=group.group,
        calls=group.calls,
        tokens=group.tokens,
        components=_components(group.components),
        savings_estimate=group.savings,
        cut_turns=group.cut_turns,
    )


def _call(call: CallGrowth) -> CallMetrics:
    return CallMetrics(
        call=call.call,
        turn_id=call.turn,
        at=call.at,
        kind=call.kind,
        model=call.model,
        profile=call.profile,
        budget=call.budget,
        tokens=call.tokens,
        components=_components({each.component: each.tokens for each in call.components}),
        optimizations_applied=tuple(call.optimizations),
        savings_estimate=call.savings,
        saved=call.optimizations,
        cut_turns=sum(each.cut_turns for each in call.components),
    )


def _components(tokens: Mapping[str, int]) -> dict[str, int]:
    every = {**dict.fromkeys(COMPONENTS, 0), **tokens}
    return {f"{name}_tokens": count for name, count in every.items()}


def _rate(calls: Sequence[CallGrowth]) -> float | None:
    """Return the mean increase of history tokens from one turn to the next; None before two turns.
    """
    told: dict[int, int] = {}
    for call in calls:
        tokens = sum(each.tokens for each in call.components if each.component == HISTORY)
        told[call.turn] = max(tokens, told.get(call.turn, 0))
    history = list(told.values())
    return (history[-1] - history[0]) / (len(history) - 1) if len(history) > 1 else None
