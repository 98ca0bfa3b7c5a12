from __future__ import annotations

import json

from fastapi import APIRouter, Request
from pydantic import JsonValue

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.reference import TurnResolved
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.history import HistoryTurn
from turnlog.services.gateway.caller import CallerIdentity
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies
from turnlog.services.gateway.opening import find_or_open_session
from turnlog.services.gateway.payloads.asked import QuestionRequest, OpenSessionRequest, SubmitTurnRequest
from turnlog.services.gateway.payloads.asking import QuestionAnswer, QuestionStatus
from turnlog.services.gateway.payloads.turns import get_plain_text
from turnlog.services.gateway.turns import MAX_WAIT_SECONDS, submit_to_session, create_submitted_turn
from turnlog.services.gateway.waiting import wait_for_settlement

question_router = APIRouter()

QUESTION_OK = QuestionStatus(reason="ok", message="ok")
QUESTION_UNROUTABLE = QuestionStatus(reason="unroutable", message="nothing is known that the question is about")


@question_router.post("/v1/ask", summary="Ask a question")
async def answer_question(caller: CallerIdentity, deps: Dependencies, form: QuestionRequest, request: Request) -> QuestionAnswer:
    """Submit a question to a conversation and wait for the answer.

    The client id and the conversation id are the key of the session, which is found or opened. The
    question is on the event log before it is processed. The same idempotency key and question lead
    to the same turn.
    """
    blueprint = _get_question_blueprint(deps)
    key = {"client_id": form.client_id, "conversation_id": form.conversation_id}
    opening = OpenSessionRequest(blueprint=blueprint.blueprint)
    session = (await find_or_open_session(deps, caller, opening, key)).state.session
    turn = SubmitTurnRequest(text=form.question, meta={"nickname": form.nickname})
    submitted = create_submitted_turn(await submit_to_session(deps, caller, session, turn, caller.create_command_key(form)))
    conduct = blueprint.resolve_policies(blueprint.default_profile)
    wait = min(MAX_WAIT_SECONDS, conduct.deadline_seconds + deps.read_model_timeout)
    came = await wait_for_settlement(deps, caller.tenant, submitted, wait, request.receive)
    if came is None:
        fix = "ask the same under the same Idempotency-Key"
        raise Refused("not-in-time", "the question is recorded, and not answered yet", fix=fix)
    return _create_answer(came.turn)


def _get_question_blueprint(deps: GatewayDependencies) -> Blueprint:
    """Return the blueprint that answers questions."""
    blueprint = deps.blueprint_folders.load_blueprint(deps.settings.ask)
    if blueprint.front_door != "ask":
        detail = f"no door leads to {blueprint.blueprint}"
        fix = "tell the operator: it must say `front_door: ask`"
        raise Refused("no-front-door", detail, fix=fix)
    return blueprint


def _create_answer(turn: HistoryTurn) -> QuestionAnswer:
    if turn.status != "completed":
        detail = f"the question is recorded, and was {turn.status}: {turn.reason}"
        raise Refused("not-answered", detail, fix="ask again under a new Idempotency-Key")
    said = turn.resolved
    leads_nowhere = said is not None and said.entity is None
    return QuestionAnswer(
        status=QUESTION_UNROUTABLE if leads_nowhere else QUESTION_OK,
        results=_decode_results(said),
        meta=said.meta if said else {},
        answer=get_plain_text(turn.reply) or "",
    )


def _decode_results(resolution: TurnResolved | None) -> list[JsonValue] | dict[str, JsonValue]:
    readable = resolution.results if resolution else None
    found: JsonValue = json.loads(readable.text) if isinstance(readable, PlainText) else []
    return found if isinstance(found, list | dict) else []
