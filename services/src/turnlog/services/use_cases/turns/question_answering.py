"""Questions: submit one to the conversation that its key names, and wait for the answer.

The client id and the conversation id are the key of the session, which is found or opened. A
question is on the event log before it is processed. The same idempotency key and question lead to
the same turn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue

from turnlog.contract.question_payloads import QuestionAnswer, QuestionRequest, QuestionStatus
from turnlog.contract.session_requests import (
    OpenSessionRequest,
    SubmitTurnRequest,
    TextPartInput,
)
from turnlog.events.content import PlainText, get_plain_text
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import TurnResolved
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session_views.session_history import HistoryTurn
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.command_handling.callers import Caller
from turnlog.services.media.media_views import create_part_views
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.use_cases.sessions.session_opening import SessionOpening
from turnlog.services.use_cases.turns.turn_submission import TurnSubmitter
from turnlog.services.use_cases.turns.turn_watching import (
    TurnSettlement,
    TurnWatching,
    WaitForEnd,
)

MAX_WAIT_SECONDS = 300.0
"""The maximum number of seconds that a caller may wait for a reply."""

QUESTION_OK = QuestionStatus(reason="ok", message="ok")

QUESTION_UNROUTABLE = QuestionStatus(
    reason="unroutable", message="nothing is known that the question is about"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswering:
    """Answers questions with the blueprint that is configured for them."""

    opening: SessionOpening
    submission: TurnSubmitter
    watching: TurnWatching
    blueprint_folders: BlueprintFolders
    blueprint: str
    """The name of the blueprint."""
    grace: float
    """Seconds beyond the deadline of a turn for which its answer is awaited."""

    @property
    def is_offered(self) -> bool:
        """Whether the blueprint is not hidden."""
        return not self.blueprint_folders.is_hidden(self.blueprint)

    async def answer_question(
        self,
        caller: Caller,
        request: QuestionRequest,
        size: int,
        until: WaitForEnd | None = None,
    ) -> QuestionAnswer:
        """Submit a question and wait for the answer; nobody waits any more when `until` ends.

        `size` is that of the body of the request.
        Raises `Refused` when the question was recorded and not answered.
        """
        blueprint = await self._load_blueprint(caller.tenant)
        key = {"client_id": request.client_id, "conversation_id": request.conversation_id}
        opened = await self.opening.find_or_open_session(
            caller, OpenSessionRequest(blueprint=blueprint.blueprint), key
        )
        parts = await self.submission.read_parts(caller.tenant, _create_turn(request), size)
        submitted = await self.submission.submit_turn(caller, opened.state.session, parts)
        policies = blueprint.resolve_policies(blueprint.default_profile)
        timeout = min(MAX_WAIT_SECONDS, policies.deadline_seconds + self.grace)
        settlement = await self.watching.wait_for_outcome(
            caller.tenant, submitted, timeout=timeout, until=until
        )
        if not isinstance(settlement, TurnSettlement):
            fix = "repeat the question with the same Idempotency-Key"
            raise Refused("not-in-time", "the question is recorded, and not answered yet", fix=fix)
        return _create_answer(settlement.turn)

    async def _load_blueprint(self, tenant: str) -> Blueprint:
        load = partial(self.blueprint_folders.open_tenant(tenant).load_blueprint, self.blueprint)
        blueprint = await run_in_thread(load)
        if blueprint.front_door != "ask":
            detail = f"blueprint {blueprint.blueprint} does not answer questions"
            fix = "tell the operator: the blueprint needs `front_door: ask`"
            raise Refused("no-front-door", detail, fix=fix)
        return blueprint


def _create_turn(request: QuestionRequest) -> SubmitTurnRequest:
    meta: dict[str, JsonValue] = {"nickname": request.nickname}
    if request.parts is None:
        return SubmitTurnRequest(text=request.question, meta=meta)
    # The text comes last, so that a refusal names a part by its place in the request
    text = TextPartInput(type="text", text=request.question)
    return SubmitTurnRequest(parts=[*request.parts, text], meta=meta)


def _create_answer(turn: HistoryTurn) -> QuestionAnswer:
    if turn.status != "completed":
        detail = f"the question is recorded, and was {turn.status}: {turn.reason}"
        raise Refused("not-answered", detail, fix="ask again with a new Idempotency-Key")
    resolution = turn.resolved
    is_unroutable = resolution is not None and resolution.entity is None
    return QuestionAnswer(
        status=QUESTION_UNROUTABLE if is_unroutable else QUESTION_OK,
        results=_decode_results(resolution),
        meta=resolution.meta if resolution else {},
        answer=get_plain_text(turn.reply) or "",
        reply_parts=create_part_views(turn.reply_parts),
    )


def _decode_results(resolution: TurnResolved | None) -> list[JsonValue] | dict[str, JsonValue]:
    readable = resolution.results if resolution else None
    found: JsonValue = json.loads(readable.text) if isinstance(readable, PlainText) else []
    return found if isinstance(found, list | dict) else []
