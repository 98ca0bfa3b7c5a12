"""A tutor session in memory whose workers may be cancelled at any step of the event loop.

Every read and write of the harness yields to the event loop. Cancelling a worker after n steps
therefore reaches every point between two of them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tests.layered_prompts.tutor_sessions import LIBRARY, require_phase_graph
from tests.support.sessions.puppet_model import ScriptStep, build_finish
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness, build_delivery
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog, MemoryTokenStream
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import Command, OpenSession, SubmitTurn
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.worker.model.model_types import ModelToolCall
from turnlog.services.worker.turn_delivery import DeliveryVerdict
from turnlog.services.worker.turn_runner import TurnRunner

SESSION = "s"


@dataclass(frozen=True, slots=True)
class YieldingProxy:
    """A proxy whose coroutines yield to the event loop before and after each call."""

    inner: object

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the inner part has
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def slowly(*arguments: object, **named: object) -> object:
            await asyncio.sleep(0)
            done: object = await found(*arguments, **named)
            await asyncio.sleep(0)
            return done

        return slowly


def build_yielding_house() -> SessionHarness:
    """Return a session harness whose log, blobs and tokens yield."""
    return SessionHarness(
        log=cast("MemoryLog", YieldingProxy(MemoryLog())),
        blobs=cast("MemoryBlobStore", YieldingProxy(MemoryBlobStore())),
        tokens=cast("MemoryTokenStream", YieldingProxy(MemoryTokenStream())),
    )


def remove_retry_delays(blueprint: Blueprint) -> Blueprint:
    """Return the same blueprint with retries that do not wait."""
    written = blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["retries"] = {"max": 2, "base_seconds": 0}
    return Blueprint.model_validate(written)


@dataclass
class CrashingSession:
    """One session of a task."""

    material: SessionMaterial
    house: SessionHarness = field(default_factory=build_yielding_house)
    workers: int = 0

    async def open_session(self) -> None:
        blueprint = self.material.blueprint
        command = OpenSession(
            blueprint=await self.house.blueprints.store_blueprint(TENANT, blueprint),
            profile=blueprint.default_profile,
            reach=compute_history_reach(blueprint),
            attributes={"task": "lucky-draw", "locale": "lt"},
            cartridge=await self.house.blueprints.store_cartridge(TENANT, self.material.cartridge),
            phases=require_phase_graph(self.material),
        )
        await self.send_command(command)

    async def send_command(self, command: Command) -> CommandOutcome:
        """Ask something of the session."""
        return await self.house.sessions.handle(TENANT, SESSION, command, TESTER)

    async def submit_text(self, text: str) -> None:
        policies = self.material.blueprint.policies
        await self.send_command(
            SubmitTurn(text=text, policies=policies, phases=require_phase_graph(self.material))
        )

    def start_worker(self) -> TurnRunner:
        """Start a worker that takes over whatever another one has left."""
        self.workers += 1
        worker = self.house.build_worker(f"w{self.workers}")
        worker.contexts = replace(worker.contexts, library=LIBRARY)
        worker.ack_wait = 0
        return worker

    @property
    def opening_event(self) -> RecordedEvent | None:
        """The event by which workers learn of the turn that is open; none when none is."""
        latest: RecordedEvent | None = None
        for event in self.house.list_events():
            match event.event:
                case TurnSubmitted() | TurnReleased():
                    latest = event
                case _:
                    pass
        return latest

    def start_answer(self) -> asyncio.Task[DeliveryVerdict]:
        """Let a new worker take the turn that was opened last."""
        event = self.opening_event
        assert event is not None
        return asyncio.create_task(
            self.start_worker().run_turn(build_delivery(event, redelivered=True))
        )

    async def answer_turn(self, *script: ScriptStep) -> DeliveryVerdict:
        """Let the model say these lines to a new worker."""
        if script:
            self.house.model.scripts = [script]
        return await self.start_answer()

    async def kill_after_steps(self, after: int) -> bool:
        """Start a worker and cancel it after `after` steps; return whether it had finished."""
        steps = iter(range(after))
        return await self.kill_when(lambda: next(steps, None) is None)

    async def kill_when(self, reached: Callable[[], bool]) -> bool:
        """Start a worker and cancel it once `reached` is true; return whether it had finished."""
        task = self.start_answer()
        while not (reached() or task.done()):  # noqa: ASYNC110 - a step of the loop is the measure
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ended

    def build_transition_script(self, *signals: str) -> ScriptStep:
        """Return a script step that makes the answer request these transitions."""
        calls = tuple(
            ModelToolCall(f"call-{number}", TRANSITION_TOOL, f'{{"signal": "{name}"}}')
            for number, name in enumerate(signals)
        )
        end = replace(build_finish(finish="tool_calls" if calls else "stop"), tool_calls=calls)
        return lambda: setattr(self.house.model, "end", end)

    @property
    def calls(self) -> Sequence[ContextAssembled]:
        """The calls whose prompt is recorded."""
        events = (event.event for event in self.house.list_events())
        return [event for event in events if isinstance(event, ContextAssembled)]


def has_redaction_note(call: ContextAssembled) -> bool:
    """Tell whether a call carries the note of a reply that was withheld."""
    notes = {"redaction_note", "debrief_note"}
    return any(part.layer in notes and part.is_included for part in call.manifest.parts)
