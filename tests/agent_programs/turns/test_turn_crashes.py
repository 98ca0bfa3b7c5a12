"""A worker dies before or after every append of a turn of several calls; another takes over.

A worker is dead when its append never returns, whether or not it was made. The token stream is
empty, so only the log says how far the worker had come.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar, cast

import pytest

from tests.agent_programs.agent_harness import (
    TWO_STEP_SCRIPTS,
    AgentHarness,
    build_plan_script,
    build_tool_script,
)
from tests.support.sessions.puppet_model import PuppetModel
from tests.support.sessions.session_harness import SessionHarness, build_delivery
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import EventBatch
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import AppendOutcome
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelRequest,
)
from turnlog.services.worker.turn_delivery import DeliverySettled
from turnlog.services.worker.turn_runner import TurnRunner

APPENDS = 14
"""The number of appends of the turn in these tests."""

WHEN: tuple[Literal["before", "after"], ...] = ("before", "after")


Stored = TypeVar("Stored")


@dataclass(kw_only=True)
class CrashPoint:
    """Counts what a worker stores, and lets it die before or after one of them."""

    fatal: int
    """The number of the one that never returns."""
    when: Literal["before", "after"]
    count: int = 0
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    async def store(self, store: Callable[[], Awaitable[Stored]]) -> Stored:
        """Store the next one; it never returns if the worker dies."""
        self.count += 1
        if (self.count, self.when) == (self.fatal, "before"):
            await self._die()
        stored = await store()
        if (self.count, self.when) == (self.fatal, "after"):
            await self._die()
        return stored

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.Event().wait()


@dataclass(kw_only=True)
class CrashingLog(CrashPoint):
    """A log of which one append never returns."""

    log: MemoryLog

    def __getattr__(self, name: str) -> object:
        return getattr(self.log, name)

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `Log.append`."""
        return await self.store(partial(self.log.append_batch, batch))


class PromptKeyedModel(PuppetModel):
    """A model that answers by the prompt, so that a repeated call gets the same answer."""

    turn_scripts = TWO_STEP_SCRIPTS

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        prompt = str(request.messages[0]["content"])
        offered = str(request.tools)
        first, look, second, reply = self.turn_scripts
        if offered != "()":
            script = look if "shop_look" in offered else second
        else:
            script = first if "- shop_look" in prompt else reply
        self.scripts = [script]
        async for each in super().stream(request):
            yield each


class PromptFetchingModel(PromptKeyedModel):
    """The same, with a prompt of the server in the second step."""

    turn_scripts = (
        build_plan_script(("Find a hammer.", ["shop_look"]), ("Greet.", ["shop_greet"])),
        TWO_STEP_SCRIPTS[1],
        build_tool_script(("shop_greet", '{"tone": "warm"}')),
        TWO_STEP_SCRIPTS[3],
    )


GREETING = ToolOffer(
    tool="greet", description="How to greet.", schema={"type": "object"}, kind="prompt"
)


def build_crashing_worker(house: SessionHarness, log: CrashingLog, name: str) -> TurnRunner:
    """Return a worker that appends to the crashing log."""
    intact = house.log
    house.log = cast("MemoryLog", log)
    worker = house.build_worker(name)
    house.log = intact
    return worker


async def run_crashing_turn(
    shop: AgentHarness,
    at: int,
    when: Literal["before", "after"],
    model: Callable[[], PuppetModel] = PromptKeyedModel,
) -> bool:
    """Let a worker die in a turn and another take over; return whether the first one died."""
    house = shop.house
    house.model = model()
    submitted = await house.submit_turn("Get me a hammer.")
    mortal = CrashingLog(log=house.log, fatal=at, when=when)
    worker = build_crashing_worker(house, mortal, "w1")
    working = asyncio.create_task(worker.run_turn(build_delivery(submitted)))
    dying = asyncio.create_task(mortal.dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    died = mortal.dead.is_set()
    if not died:
        assert working.result() == DeliverySettled()
    await cancel_tasks(working, dying)
    if died:
        await shop.take_over_turn(submitted)
    return died


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_crash_at_any_append_repeats_no_known_work_and_completes_the_turn(
    at: int, when: Literal["before", "after"]
) -> None:
    shop = await AgentHarness().open_session()
    assert await run_crashing_turn(shop, at, when)
    # A call that is answered on the log is the last of its name
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert set(answered.values()) == {1}
    assert len(shop.list_events(ContextAssembled)) == len(answered) == 4
    assert len(shop.list_events(TurnCompleted)) == 1
    # Of the tool that may not run twice there is one run at the most, and one word
    assert [tool for tool, _ in shop.shop.tool_calls].count("pay") <= 1
    came_back = Counter((each.call, each.id) for each in shop.list_events(ToolReturned))
    assert came_back == Counter((each.call, each.id) for each in shop.list_events(ToolCalled))
    assert set(came_back.values()) == {1}


async def test_crash_points_cover_every_append() -> None:
    shop = await AgentHarness().open_session()
    assert not await run_crashing_turn(shop, APPENDS + 1, "before")


async def test_interrupted_tool_runs_again_if_idempotent_and_is_lost_otherwise() -> None:
    outcomes: dict[str, set[str]] = {"shop_look": set(), "shop_pay": set()}
    runs: Counter[str] = Counter()
    for at in range(1, APPENDS + 1):
        shop = await AgentHarness().open_session()
        await run_crashing_turn(shop, at, "after")
        for returned in shop.list_events(ToolReturned):
            outcomes[returned.tool].add(returned.outcome)
        runs |= Counter(tool for tool, _ in shop.shop.tool_calls)
    assert outcomes == {"shop_look": {"answered"}, "shop_pay": {"answered", "lost"}}
    assert runs == {"look": 1, "pay": 1}


async def test_tool_with_unrecorded_result_runs_again_if_idempotent() -> None:
    runs: Counter[str] = Counter()
    for at in range(1, APPENDS + 1):
        shop = await AgentHarness().open_session()
        await run_crashing_turn(shop, at, "before")
        runs |= Counter(tool for tool, _ in shop.shop.tool_calls)
    assert runs == {"look": 2, "pay": 1}


async def test_server_prompt_with_unrecorded_text_is_fetched_again() -> None:
    requests: Counter[str] = Counter()
    for at in range(1, APPENDS + 1):
        shop = await AgentHarness().open_session()
        shop.shop.extra_offers = (GREETING,)
        await run_crashing_turn(shop, at, "before", PromptFetchingModel)
        outcomes = {each.tool: each.outcome for each in shop.list_events(ToolReturned)}
        assert outcomes == {"shop_look": "answered", "shop_greet": "answered"}
        assert len(shop.list_events(ToolReturned)) == 2
        requests |= Counter(prompt for prompt, _ in shop.shop.prompt_requests)
    assert requests == {"greet": 2}
