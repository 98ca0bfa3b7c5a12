"""The answers to a submitted turn, with the paths under which HTTP goes on with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.turn_payloads import (
    SettledTurnView,
    SubmittedTurn,
    UndecidedTurnView,
)
from turnlog.events.content import get_plain_text, parse_structured_text
from turnlog.services.approvals.approval_views import create_requested_approval
from turnlog.services.http.headers import format_etag
from turnlog.services.http.sse import encode_frame
from turnlog.services.media.media_views import create_part_views
from turnlog.services.use_cases.turns.turn_stream_events import TurnStreamEvent
from turnlog.services.use_cases.turns.turn_submission import TurnOnLog
from turnlog.services.use_cases.turns.turn_watching import TurnSettlement, UndecidedTurn


def create_turn_answer(
    submitted: TurnOnLog, outcome: TurnSettlement | UndecidedTurn | None
) -> Response:
    """Return the answer with the outcome of a turn; without one it is accepted and goes on."""
    view = _create_submitted_turn(submitted)
    match outcome:
        case TurnSettlement():
            return _create_settled_answer(view, outcome)
        case UndecidedTurn():
            return _create_undecided_answer(view, outcome)
        case None:
            return _create_json_answer(view, 202, view.sequence, view.stream)


def create_recorded_answer(submitted: TurnOnLog) -> Response:
    """Return the answer with a turn of the system, which is settled as soon as it is recorded."""
    view = _create_submitted_turn(submitted)
    settled = SettledTurnView(
        **view.model_dump(),
        settled=view.sequence,
        status="completed",
        reply=None,
        finish=None,
        redacted=False,
        reason=None,
    )
    return _create_json_answer(settled, 200, settled.settled)


def _create_submitted_turn(submitted: TurnOnLog) -> SubmittedTurn:
    session, turn = submitted.session, submitted.turn
    events = format_path(api_paths.SESSION_EVENTS, session=session)
    return SubmittedTurn(
        session=session,
        turn=turn,
        sequence=submitted.sequence,
        stream=format_path(api_paths.TURN_STREAM, session=session, turn=turn),
        events=f"{events}?after={submitted.sequence - 1}",
    )


def _create_undecided_answer(submitted: SubmittedTurn, undecided: UndecidedTurn) -> Response:
    view = UndecidedTurnView(
        **submitted.model_dump(),
        status="waiting-for-approval",
        approvals=tuple(
            approval for each in undecided.tools if (approval := create_requested_approval(each))
        ),
    )
    return _create_json_answer(view, 202, undecided.sequence, submitted.stream)


def _create_settled_answer(submitted: SubmittedTurn, settlement: TurnSettlement) -> Response:
    turn = settlement.turn
    settled = SettledTurnView(
        **submitted.model_dump(),
        settled=settlement.sequence,
        status=turn.status,
        reply=get_plain_text(turn.reply),
        finish=turn.finish,
        redacted=turn.redacted,
        reason=turn.reason,
        detail=turn.detail,
        fallback=turn.fallback.code if turn.fallback else None,
        output=parse_structured_text(turn.reply) if turn.structured else None,
        reply_parts=create_part_views(turn.reply_parts),
    )
    return _create_json_answer(settled, 200, settled.settled)


def _create_json_answer(
    view: BaseModel, status: int, sequence: int, location: str | None = None
) -> Response:
    headers = {"ETag": format_etag(sequence)} | ({"Location": location} if location else {})
    return JSONResponse(view.model_dump(mode="json"), status, headers)


async def encode_turn_events(events: AsyncGenerator[TurnStreamEvent]) -> AsyncGenerator[bytes]:
    """Yield the frames of a turn's stream."""
    async with aclosing(events):
        async for each in events:
            data = each.payload.model_dump_json().encode()
            yield encode_frame(each.name, data, str(each.cursor))


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client of a request is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
