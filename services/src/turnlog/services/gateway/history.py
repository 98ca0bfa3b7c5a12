"""The history of a session over HTTP: every turn as people read it, now or at any sequence."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.history import Turn, history
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.turns import HistoryView, TurnView, plain

router = APIRouter()

At = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="As it was at this sequence; without it as it is now"),
]


@router.get("/v1/sessions/{session}/history", summary="Turns of a session")
async def show_history(
    session: str, tenant: Tenant, desk: AtDesk, response: Response, at: At = None
) -> HistoryView:
    """Give all turns with their texts, replies and fates."""
    events = await desk.past.events(tenant, session, at)
    stamp(response, events[-1].sequence)
    turns = tuple(_view(turn) for turn in history(events))
    return HistoryView(session=session, sequence=events[-1].sequence, turns=turns)


def _view(turn: Turn) -> TurnView:
    return TurnView(
        turn=turn.turn,
        status=turn.status,
        text=plain(turn.text),
        reply=plain(turn.reply),
        finish=turn.finish,
        call=turn.call,
        excluded=turn.excluded,
        redacted=turn.redacted,
        reason=turn.reason,
        sequence=turn.sequence,
        submitted_at=turn.submitted_at,
        settled_at=turn.settled_at,
        remembered=turn.remembered,
        fallback=turn.fallback.code if turn.fallback else None,
    )
