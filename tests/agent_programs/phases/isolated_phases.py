"""Sessions in which text of one phase could reach a prompt of another.

The blueprint has every feature that carries text between turns. The model marks what it says with
the phase it says it in. `PhaseWalker` moves through the phases and sends every command that a
session accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.agent_programs.agent_harness import AgentHarness, build_agent_blueprint
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.session_events import PhaseEntered
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    Command,
    EnterPhase,
    ExcludeTurn,
    PurgeMemory,
    RestoreTurn,
    SwitchProfile,
    UndoSummary,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelDelta,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    TextDelta,
)

ORDER = ("ideate", "focus", "operate", "complete")

CAN_SEE = {
    "ideate": ["ideate"],
    "focus": ["ideate", "focus"],
    "operate": ["focus", "operate"],
    "complete": ["operate", "complete"],
}

MARK = re.compile(r"said-in-(\w+)")

CARRIED = re.compile(r"carried-to-(\w+)")

USAGE = ModelUsage(10, 5)


def build_isolated_phases_blueprint(tokens: int = 100_000) -> Blueprint:
    """Return a blueprint of isolated phases that has every feature that carries text."""
    speaking = {name: {"text": f"You {name}."} for name in ("plan", "act", "answer", "sum-up")}
    layers: dict[str, Any] = {
        **speaking,
        "tools": {"tools": "all", "component": "tools_context"},
        "goal": {"step": "goal"},
        "results": {"step": "results"},
        "before": {"results": "previous_turn"},
        "carried": {"carry": "phase"},
    }

    def call(*system: str, view: str | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        history = [{"history": view}] if view else []
        return {"messages": [{"system": [*system]}, *history, {"user": ["input"]}], **more}

    budget = {"budget": "window"}
    return build_agent_blueprint(
        layers=layers,
        calls={
            "plan": call("plan", "tools", "before", "carried", view="worked", **budget),
            "tactic": call("act", "goal", "results", "carried", tools=["for_step"]),
            "synthesise": call("answer", "results", "carried", view="worked", **budget),
            "converse": call("answer", "carried", view="talk", **budget),
            "sum": {"messages": [{"system": ["sum-up", "carried"]}, {"history": "older"}]},
        },
        history={
            "talk": {
                "condense": "duplicates",
                "summary": {"above_tokens": 400, "keep_messages": 2, "call": "sum"},
            },
            "worked": {"of": "work"},
            "older": {"of": "selected"},
        },
        budget={
            "window": {
                "tokens": tokens,
                "counter": {"chars_per_token": 1},
                "ladder": [{"condense_repeats": {}}, {"drop_oldest_pairs": {}}],
            }
        },
        phases={
            "order": ORDER,
            "can_see": CAN_SEE,
            "carry": {"forward": "summary"},
            "profiles": {"operate": "agent"},
        },
        profiles={
            "talk": {"default": True, "call": "converse"},
            "agent": {"program": "tools", "plan": "plan", "act": "tactic", "call": "synthesise"},
        },
    )


@dataclass
class MarkingModel:
    """A model that plans, calls tools, answers and summarises, and marks every text."""

    mark: str = ""
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        self.requests.append(request)
        system_prompt = str(request.messages[0]["content"])
        if system_prompt.startswith("You plan."):
            yield TextDelta(self._write_plan(system_prompt))
        elif system_prompt.startswith("You act."):
            tool_call = ModelToolCall("t", "shop_look", json.dumps({"what": self.mark}))
            yield FinishedAnswer(
                finish_reason="tool_calls",
                tool_calls=(tool_call,),
                usage=USAGE,
                model="puppet/one",
                response_id=None,
            )
            return
        else:
            yield TextDelta(f"{system_prompt[4:10]} {self.mark}")
        yield FinishedAnswer(
            finish_reason="stop", tool_calls=(), usage=USAGE, model="puppet/one", response_id=None
        )

    def _write_plan(self, system_prompt: str) -> str:
        reuse_steps = (
            [{"goal": f"have {self.mark}", "from": "r1"}] if "r1:" in system_prompt else []
        )
        return json.dumps({"steps": [*reuse_steps, {"goal": f"find {self.mark}", "tools": []}]})


@dataclass
class PhaseWalker:
    """A client that moves through the phases of a session and sends commands."""

    shop: AgentHarness
    model: MarkingModel
    turns: int = 0

    async def enter_phase(self, phase: str, *, carries: bool = True) -> None:
        """Enter a phase; forward moves carry a text unless `carries` is false."""
        before = (await self.shop.house.load_state()).phase or ""
        forward = ORDER.index(before) < ORDER.index(phase)
        carried = f"carried-to-{phase} {self.turns}" if carries and forward else None
        await self.send_command(self.build_enter_command(phase, carried))

    def build_enter_command(self, phase: str, carry: str | None = None) -> EnterPhase:
        """Ask for a phase."""
        graph = SessionMaterial(blueprint=self.shop.kind).phases
        assert graph is not None
        return EnterPhase(phase, graph, carry)

    async def run_marked_turn(self, words: str = "") -> None:
        """Run a turn in which every text is marked with the phase."""
        self.turns += 1
        phase = (await self.shop.house.load_state()).phase
        mark = f"said-in-{phase} {self.turns} {words}"
        self.model.mark = mark
        self.shop.shop.result_text = f"result {mark}"
        await self.shop.house.run_turn(await self.shop.house.submit_turn(f"question {mark}"))

    async def send_command(self, command: Command) -> None:
        """Do something to the session."""
        await self.shop.house.sessions.handle(TENANT, "s", command, TESTER)

    async def run_action(self, action: tuple[Any, ...]) -> None:
        """Run one drawn action; an action that the session refuses is skipped."""
        what, *how = action
        try:
            match what:
                case "go":
                    await self.enter_phase(how[0], carries=how[1])
                case "say":
                    await self.run_marked_turn("word " * how[0])
                case _:
                    await self.send_command(await self._build_command(what, *how))
        except Refused:
            return

    async def _build_command(self, what: str, number: int) -> Command:
        if what == "undo":
            summaries = (await self.shop.house.load_state()).summaries
            return UndoSummary(summaries[number % len(summaries)].sequence if summaries else 1)
        profiles = sorted(self.shop.kind.profiles)
        commands: dict[str, Command] = {
            "purge": PurgeMemory(),
            "exclude": ExcludeTurn(number),
            "restore": RestoreTurn(number),
            "redact": RedactReply(number, "so", "operator", f"(withheld {number})"),
            "switch": SwitchProfile(profiles[number % 2], profiles),
        }
        return commands[what]

    def list_prompts(self) -> list[tuple[str, str]]:
        """Return each prompt that was sent, with the phase it was assembled in."""
        made: list[tuple[str, str]] = []
        phase, requests = "", iter(self.model.requests)
        for recorded in self.shop.house.list_events():
            match recorded.event:
                case PhaseEntered(phase=phase):
                    pass
                case ContextAssembled():
                    request = next(requests)
                    made.append((phase, f"{request.messages} {request.tools}"))
                case _:
                    pass
        return made


PHASE_CHANGES = st.tuples(st.just("go"), st.sampled_from(ORDER), st.booleans())

MARKED_TURNS = st.tuples(st.just("say"), st.sampled_from([1, 35]))

OTHER_ACTIONS = st.tuples(
    st.sampled_from(["purge", "undo", "exclude", "restore", "redact", "switch"]), st.integers(1, 6)
)

PHASE_VISITS = st.tuples(
    PHASE_CHANGES,
    st.lists(MARKED_TURNS, min_size=1, max_size=3),
    OTHER_ACTIONS | st.none(),
    MARKED_TURNS,
).map(lambda visit: [visit[0], *visit[1], *([visit[2]] if visit[2] else []), visit[3]])

ACTION_LISTS = st.lists(PHASE_VISITS, min_size=2, max_size=4).map(
    lambda visits: [d for s in visits for d in s]
)
"""Phase visits; each has marked turns and perhaps another command."""


async def open_phase_walker(tokens: int = 100_000) -> PhaseWalker:
    shop, model = AgentHarness(kind=build_isolated_phases_blueprint(tokens)), MarkingModel()
    shop.house.model = model  # type: ignore[assignment] # it is asked in the same way
    return PhaseWalker(await shop.open_session(), model)
