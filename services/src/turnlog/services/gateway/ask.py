from __future__ import annotations

import json

from fastapi import APIRouter, Request
from pydantic import JsonValue

from turnlog.events.content import Plain
from turnlog.events.errors import Refused
from turnlog.events.reference import TurnResolved
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.history import Turn
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk, Desk
from turnlog.services.gateway.opening import found_or_opened
from turnlog.services.gateway.payloads.asked import AskForm, OpenForm, TurnForm
from turnlog.services.gateway.payloads.asking import Answered, Status
from turnlog.services.gateway.payloads.turns import plain
from turnlog.services.gateway.turns import LONGEST_WAIT, put, submitted_by
from turnlog.services.gateway.waiting import outcome

router = APIRouter()

OK = Status(reason="ok", message="ok")
UNROUTABLE = Status(reason="unroutable", message="nothing is known that the question is about")


@router.post("/v1/ask", summary="Ask a question")
async def ask(asked: AskedBy, desk: AtDesk, form: AskForm, request: Request) -> Answered:
    """Submit a question to a conversation and wait for the answer.

    The client id and the conversation id are the key of the session, which is found or opened. The
    question is on the event log before it is processed. The same idempotency key and question lead
    to the same turn.
    """
    blueprint = _behind(desk)
    key = {"client_id": form.client_id, "conversation_id": form.conversation_id}
    opening = OpenForm(blueprint=blueprint.blueprint)
    session = (await found_or_opened(desk, asked, opening, key)).state.session
    turn = TurnForm(text=form.question, meta={"nickname": form.nickname})
    submitted = submitted_by(await put(desk, asked, session, turn, asked.command(form)))
    conduct = blueprint.conduct(blueprint.default_profile)
    wait = min(LONGEST_WAIT, conduct.deadline_seconds + desk.patience)
    came = await outcome(desk, asked.tenant, submitted, wait, request.receive)
    if came is None:
        fix = "ask the same under the same Idempotency-Key"
        raise Refused("not-in-time", "the question is recorded, and not answered yet", fix=fix)
    return _answered(came.turn)


def _behind(desk: Desk) -> Blueprint:
    """Return the blueprint that answers questions."""
    blueprint = desk.library.get(desk.settings.ask)
    if blueprint.front_door != "ask":
        detail = f"no door leads to {blueprint.blueprint}"
        fix = "tell the operator: it must say `front_door: ask`"
        raise Refused("no-front-door", detail, fix=fix)
    return blueprint


def _answered(turn: Turn) -> Answered:
    if turn.status != "completed":
        detail = f"the question is recorded, and was {turn.status}: {turn.reason}"
        raise Refused("not-answered", detail, fix="ask again under a new Idempotency-Key")
    said = turn.resolved
    leads_nowhere = said is not None and said.entity is None
    return Answered(
        status=UNROUTABLE if leads_nowhere else OK,
        results=_results(said),
        meta=said.meta if said else {},
        answer=plain(turn.reply) or "",
    )


def _results(said: TurnResolved | None) -> list[JsonValue] | dict[str, JsonValue]:
    readable = said.results if said else None
    found: JsonValue = json.loads(readable.text) if isinstance(readable, Plain) else []
    return found if isinstance(found, list | dict) else []
