"""A fake model whose words, pace and failures the seed decides."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, get_args

from tests.simulation.fault_profiles import FAULTS_END, FaultProfile
from tests.simulation.processes.simulated_loop import SimulatedLoop
from tests.simulation.processes.simulated_media import restore_content
from tests.simulation.session_kinds import CHILD_PROFILES, FORBIDDEN, SIGNALS
from turnlog.events.model.turn_events import FinishReason
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.chat_request import ChatMessage, ChatRequest
from turnlog.services.api.prompt_payloads import MessageView
from turnlog.services.worker.model.model_types import (
    FailureCode,
    FinishedAnswer,
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    ReasoningDelta,
    TextDelta,
)

MODEL_WORDS: Final = ("Yes. ", "no ", "it depends, ", "of course! ", "\u00fcber\U0001f600 ", "a\n")

FAILURE_CODES: Final[tuple[FailureCode, ...]] = get_args(FailureCode)


@dataclass
class SimulatedModel:
    """Answers the requests of one worker."""

    loop: SimulatedLoop
    fault_profile: FaultProfile
    requests: list[tuple[datetime, str]] = field(default_factory=list[tuple[datetime, str]])
    """The time of each request, and its digest."""
    completed_texts: list[str] = field(default_factory=list[str])
    """The texts that were streamed to their end."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        chance = self.loop.chance
        self.requests.append((self.loop.read_clock(), _compute_digest(request)))
        bad = self.loop.time() < FAULTS_END and chance.random() < self.fault_profile.failing
        await asyncio.sleep(chance.random() * 2 * self.fault_profile.pace)
        if not bad and _is_plan_request(request) and chance.random() < 0.9:
            yield TextDelta(_draw_plan(chance))
            yield _draw_finish(chance, request)
            return
        text = ""
        if chance.random() < 0.3:
            thought = chance.choice(MODEL_WORDS)
            yield ReasoningDelta({"reasoning_content": thought}, thought)
        for _ in range(chance.randint(0 if bad else 1, 6)):
            slow = 4 if chance.random() < 0.2 else 0.5
            await asyncio.sleep(chance.random() * slow * self.fault_profile.pace)
            piece = FORBIDDEN if chance.random() < 0.03 else chance.choice(MODEL_WORDS)
            text += piece
            yield TextDelta(piece)
        if bad:
            await asyncio.sleep(chance.choice((0.0, 0.0, 90.0)))
            raise ModelFailure(chance.choice(FAILURE_CODES), retry_after=chance.choice((None, 3.0)))
        self.completed_texts.append(text)
        yield _draw_finish(chance, request)


def _draw_finish(chance: random.Random, request: ModelRequest) -> FinishedAnswer:
    usage = ModelUsage(40, 20) if chance.random() < 0.7 else None
    finish: FinishReason = "length" if chance.random() < 0.1 else "stop"
    tools = _draw_tool_calls(chance, request)
    return FinishedAnswer(
        finish_reason="tool_calls" if tools else finish,
        tool_calls=tools,
        usage=usage,
        model=request.model,
        response_id=None,
    )


def _draw_tool_calls(chance: random.Random, request: ModelRequest) -> tuple[ModelToolCall, ...]:
    offered = re.findall("shop_[a-z]+", str(request.tools))
    if offered:
        return tuple(_draw_order(chance, offered) for _ in range(chance.choice((0, 1, 1, 2))))
    children = [each for each in CHILD_PROFILES if f"'{each}'" in str(request.tools)]
    if children:
        return tuple(_draw_query(chance, children, n) for n in range(chance.choice((0, 1, 2, 3))))
    signal = chance.choice((*SIGNALS, "nonsense"))
    asks = bool(request.tools) and chance.random() < 0.4
    return (ModelToolCall("t1", TRANSITION_TOOL, f'{{"signal": "{signal}"}}'),) if asks else ()


def _draw_order(chance: random.Random, offered: Sequence[str]) -> ModelToolCall:
    """Order what nobody else orders, of a tool that is offered, mostly."""
    tool = chance.choice(offered) if chance.random() < 0.95 else "nonsense"
    order = f'{{"order": {chance.getrandbits(48)}}}' if chance.random() < 0.95 else "nonsense"
    return ModelToolCall("t1", tool, order)


def _draw_query(chance: random.Random, children: Sequence[str], number: int) -> ModelToolCall:
    """Ask a child what nobody else asks."""
    query = f'{{"query": "What is {chance.getrandbits(48)}?"}}'
    arguments = query if chance.random() < 0.95 else "nonsense"
    return ModelToolCall(f"c{number}", chance.choice(children), arguments)


def _is_plan_request(request: ModelRequest) -> bool:
    return "- shop_look" in str(request.messages[0]["content"])


def _draw_plan(chance: random.Random) -> str:
    named = (["shop_look"], ["shop_pay"], "shop_look", ["shop_look", "shop_pay"])
    steps = [{"goal": "Go on.", "tools": chance.choice(named)} for _ in range(chance.randint(0, 2))]
    return json.dumps({"steps": steps})


def _compute_digest(request: ModelRequest) -> str:
    messages = tuple(_restore_message(dict(m)) for m in request.messages)
    chat_request = ChatRequest(request.model, messages, request.tools, request.parameters)  # type: ignore[arg-type]
    return chat_request.digest


def _restore_message(sent: dict[str, object]) -> ChatMessage:
    """Return a message of a request, which has bytes in place of digests.

    What the model reasoned is a field of its own there.
    """
    sent["content"] = restore_content(sent.get("content"))
    fields = {name: sent.pop(name) for name in ("reasoning_content",) if name in sent}
    view = MessageView.model_validate(sent | ({"reasoning": fields} if fields else {}))
    return view.restore_message()
