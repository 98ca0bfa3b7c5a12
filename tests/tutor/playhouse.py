"""The shipped trickster played in memory, by workers that may die at any step.

Every reading and writing of the house yields to the event loop, so that killing a worker after so
many steps of the loop reaches every moment between two of them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tests.parts.house import BY, TENANT, House, delivery
from tests.parts.puppet import Line, finished
from tests.tutor.lessons import LIBRARY, graph
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog, MemoryTokenStream
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import Command, OpenSession, SubmitTurn
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.worker.model.model_types import ModelToolCall
from turnlog.services.worker.turn_queue import DeliveryVerdict
from turnlog.services.worker.turn_runner import TurnRunner

SESSION = "s"


@dataclass(frozen=True, slots=True)
class Yielding:
    """Does what its inner part does, with a step of the loop before and after."""

    inner: object

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the inner part has
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def slowly(*given: object, **named: object) -> object:
            await asyncio.sleep(0)
            done: object = await found(*given, **named)
            await asyncio.sleep(0)
            return done

        return slowly


def yielding_house() -> House:
    """Give a house whose every part yields."""
    return House(
        log=cast("MemoryLog", Yielding(MemoryLog())),
        blobs=cast("MemoryBlobStore", Yielding(MemoryBlobStore())),
        tokens=cast("MemoryTokenStream", Yielding(MemoryTokenStream())),
    )


def impatient(blueprint: Blueprint) -> Blueprint:
    """Give the same blueprint with retries that wait for nothing."""
    written = blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["retries"] = {"max": 2, "base_seconds": 0}
    return Blueprint.model_validate(written)


@dataclass
class Playhouse:
    """One session of a task."""

    material: SessionMaterial
    house: House = field(default_factory=yielding_house)
    workers: int = 0

    async def open(self) -> None:
        """Open the session."""
        blueprint = self.material.blueprint
        command = OpenSession(
            await self.house.blueprints.store_blueprint(TENANT, blueprint),
            blueprint.default_profile,
            compute_history_reach(blueprint),
            {"task": "lucky-draw", "locale": "lt"},
            await self.house.blueprints.store_cartridge(TENANT, self.material.cartridge),
            graph(self.material),
        )
        await self.act(command)

    async def act(self, command: Command) -> CommandOutcome:
        """Ask something of the session."""
        return await self.house.sessions.handle(TENANT, SESSION, command, BY)

    async def submit(self, text: str) -> None:
        """Say something."""
        policies = self.material.blueprint.policies
        await self.act(SubmitTurn(text, policies, graph(self.material)))

    def worker(self) -> TurnRunner:
        """Start a worker that takes over whatever another one has left."""
        self.workers += 1
        worker = self.house.worker(f"w{self.workers}")
        worker.contexts = replace(worker.contexts, library=LIBRARY)
        worker.ack_wait = 0
        return worker

    @property
    def opening_event(self) -> RecordedEvent | None:
        """The event by which workers learn of the turn that is open; none when none is."""
        asked: RecordedEvent | None = None
        for event in self.house.events():
            match event.event:
                case TurnSubmitted() | TurnReleased():
                    asked = event
                case _:
                    pass
        return asked

    def answering(self) -> asyncio.Task[DeliveryVerdict]:
        """Let a new worker take the turn that was opened last."""
        event = self.opening_event
        assert event is not None
        return asyncio.create_task(self.worker().run_turn(delivery(event, redelivered=True)))

    async def answer(self, *script: Line) -> DeliveryVerdict:
        """Let the model say these lines to a new worker."""
        if script:
            self.house.model.scripts = [script]
        return await self.answering()

    async def killed(self, after: int) -> bool:
        """Let a new worker begin, and kill it after so many steps; tells whether it had ended."""
        steps = iter(range(after))
        return await self.killed_when(lambda: next(steps, None) is None)

    async def killed_when(self, reached: Callable[[], bool]) -> bool:
        """Let a new worker begin, and kill it once this is so; tells whether it had ended."""
        task = self.answering()
        while not (reached() or task.done()):  # noqa: ASYNC110 - a step of the loop is the measure
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ended

    def wishing(self, *signals: str) -> Line:
        """Let the answer that follows ask for these transitions; a line of a script."""
        calls = tuple(
            ModelToolCall(f"call-{number}", TRANSITION_TOOL, f'{{"signal": "{name}"}}')
            for number, name in enumerate(signals)
        )
        end = replace(finished(finish="tool_calls" if calls else "stop"), tool_calls=calls)
        return lambda: setattr(self.house.model, "end", end)

    @property
    def calls(self) -> Sequence[ContextAssembled]:
        """The calls whose prompt is fixed."""
        events = (event.event for event in self.house.events())
        return [event for event in events if isinstance(event, ContextAssembled)]


def noted(call: ContextAssembled) -> bool:
    """Tell whether a call carries the note of a reply that was withheld."""
    return any(part.layer == "redaction_note" and part.is_included for part in call.manifest.parts)
