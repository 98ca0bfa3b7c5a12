"""A coordinator with two children in memory, and a queue that delivers as the durable one does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.agent_programs.agent_harness import USAGE, AgentHarness, build_agent_blueprint
from tests.support.sessions.event_parts import find_part
from tests.support.sessions.puppet_model import PuppetModel, ScriptStep
from tests.support.sessions.session_harness import SessionHarness, build_delivery
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import ClaimableEvent
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelDelta,
    ModelRequest,
    ModelToolCall,
)
from turnlog.services.worker.turn_delivery import DeliveryDeferred, DeliverySettled
from turnlog.services.worker.turn_runner import TurnRunner

COORDINATOR = {
    "default": True,
    "program": "coordinator",
    "call": "coordinate",
    "children": ["thinker", "seeker"],
}

CHILDREN = {
    "thinker": {"call": "reply", "summary": "Thinks."},
    "seeker": {"call": "reply", "summary": "Seeks."},
}


def build_team_blueprint(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return a small blueprint of a coordinator and two children."""
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    return build_agent_blueprint(
        **{
            "layers": {"rules": {"text": "Help.", "keep": "always"}},
            "calls": {
                "coordinate": {"messages": messages, "tools": ["children"]},
                "reply": {"messages": messages},
            },
            "tools": None,
            "profiles": {"head": COORDINATOR, **CHILDREN},
            **changes,
        }
    )


def ask_children(*children: tuple[str, str]) -> list[ScriptStep]:
    """Return a script in which the model asks children, each by profile and query."""
    calls = tuple(
        ModelToolCall(f"c{number}", profile, json.dumps({"query": query}))
        for number, (profile, query) in enumerate(children, 1)
    )
    return [
        FinishedAnswer(
            finish_reason="tool_calls",
            tool_calls=calls,
            usage=USAGE,
            model="puppet/one",
            response_id=None,
        )
    ]


class TeamModel(PuppetModel):
    """A model that asks both children and replies from what they say, by the prompt it is sent."""

    def choose_script(self, request: ModelRequest) -> list[ScriptStep]:
        """Return the answer to a request."""
        return choose_script(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        self.scripts = [self.choose_script(request)]
        async for each in super().stream(request):
            yield each


def choose_script(request: ModelRequest) -> list[ScriptStep]:
    """Return the answer of the coordinator, or of one of its children."""
    if not request.tools:
        return [f"To {request.messages[-1]['content']}: yes."]
    if request.messages[-1]["role"] == "tool":
        return ["It is so."]
    return ask_children(("thinker", "Think."), ("seeker", "Seek."))


@dataclass
class MemoryQueue:
    """Delivers every claimable event of all sessions until its delivery is settled."""

    house: SessionHarness
    settled: set[int] = field(default_factory=set[int])
    delivered: set[int] = field(default_factory=set[int])

    def list_pending(self) -> Iterator[RecordedEvent]:
        """Yield the events that are not settled, in the order of the log."""
        for place, raw in enumerate(tuple(self.house.log.stored), 1):
            if raw and place not in self.settled:
                recorded = decode_event(raw.stored, raw.stream_sequence)
                if isinstance(recorded.event, ClaimableEvent):
                    yield recorded

    async def deliver_all(self, worker: TurnRunner, rounds: int = 40) -> None:
        """Deliver until nothing is pending; the clock moves on by what is deferred."""
        for _ in range(rounds):
            pending = tuple(self.list_pending())
            waits = [await self.deliver(worker, each) for each in pending]
            if not pending:
                return
            if all(waits):
                self.house.clock.advance_time(min(waits))
        message = f"still pending: {[each.event for each in self.list_pending()]}"
        raise AssertionError(message)

    async def deliver(self, worker: TurnRunner, event: RecordedEvent) -> float:
        """Deliver one event; return for how long it is deferred."""
        place = event.stream_sequence
        again = place in self.delivered
        self.delivered.add(place)
        verdict = await worker.run_turn(build_delivery(event, redelivered=again))
        match verdict:
            case DeliverySettled():
                self.settled.add(place)
            case DeliveryDeferred(seconds=seconds):
                return seconds
            case _:
                pass
        return 0.0


@dataclass
class TeamHarness:
    """A session of a coordinator, and its queue."""

    agent: AgentHarness
    queue: MemoryQueue

    @property
    def house(self) -> SessionHarness:
        return self.agent.house

    def list_events(self, session: str, kind: type[Any]) -> list[Any]:
        """Return the events of a kind of one session, or the parts of events that are of it."""
        parts = (find_part(each.event, kind) for each in self.house.list_events(session))
        return [part for part in parts if part is not None]

    def list_children(self) -> list[str]:
        """Return the child sessions of all sessions."""
        return sorted(name for _, name in self.house.log.sessions if name.startswith("child-"))


async def open_team(model: PuppetModel | None = None, **changes: Any) -> TeamHarness:  # noqa: ANN401
    """Open a session of a coordinator."""
    agent = await AgentHarness(kind=build_team_blueprint(**changes)).open_session()
    agent.house.model = model or TeamModel()
    return TeamHarness(agent, MemoryQueue(agent.house))
