from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from pydantic import JsonValue

from turnlog.events.content import Plain
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Blobs
from turnlog.events.tool import ToolCalled, ToolPin, ToolReturned
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.session.attempts import current
from turnlog.projections.session.commands import Attempt
from turnlog.projections.session.progress import pending
from turnlog.projections.session.state import SessionState, ToolUse
from turnlog.projections.session.tooling import refused
from turnlog.projections.session.turn_commands import ReturnTool, SnapshotTools, StartTool
from turnlog.projections.tools.distilling import distilled, summarised, told
from turnlog.projections.window.material import Material
from turnlog.projections.window.tools import takes_tools
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.worker.context import Superseded
from turnlog.services.worker.tools.exchange import Answered, ServerFailure, ToolServers
from turnlog.services.worker.tools.pinning import Pinning

_log = structlog.get_logger("turnlog.worker")

LOST = "it was begun, and nobody knows whether it was done"


@dataclass(frozen=True, slots=True)
class Tooling:
    """Pins and runs the tools of one turn under one attempt."""

    sessions: Sessions
    blobs: Blobs
    servers: ToolServers
    pinning: Pinning
    attempt: Attempt
    by: By
    runs: Callable[[str], Awaitable[None]]
    """Called with the name of each tool before it runs."""

    async def ready(self, state: SessionState, material: Material) -> SessionState:
        """Run the pending tools, and return the state for the next call.

        Raises `ToolServerFailure` if a server cannot be reached, and `AttemptSuperseded` if the
        attempt lost its lease.
        """
        spec = material.blueprint.tools
        if spec is None or not takes_tools(material, state):
            return state
        state = await self._pinned(state, spec)
        opened = current(state, self.attempt)
        for use in pending(opened) if opened else ():
            state = await self._run(state, use, spec)
        return state

    async def _pinned(self, state: SessionState, spec: ToolsSpec) -> SessionState:
        if state.profile in state.tools:
            return state
        pinned = await self.pinning.pinned(
            self.servers, self.blobs, state.tenant, state.profile, spec
        )
        command = SnapshotTools(self.attempt, pinned)
        done = await self.sessions.act(state.tenant, state.session, command, self.by)
        return done.state

    async def _run(self, state: SessionState, use: ToolUse, spec: ToolsSpec) -> SessionState:
        called, pin = await self._called(state, use), state.tools[state.profile].tools[use.tool]
        arguments = _arguments(called.arguments)
        if arguments is None:
            return await self._back(state, use, refused(called, "its arguments are no JSON object"))
        if use.started and not pin.idempotent:
            return await self._back(state, use, _lost(called))
        start = StartTool(self.attempt, use)
        begun = await self.sessions.act(state.tenant, state.session, start, self.by)
        if not begun.events:
            raise Superseded
        await self.runs(use.tool)
        clock = asyncio.get_running_loop()
        since = clock.time()
        answered = await self._asked(pin, spec, arguments)
        taken = round((clock.time() - since) * 1000)
        returned = await self._recorded(state.tenant, called, answered, pin, spec)
        return await self._back(state, use, returned.model_copy(update={"milliseconds": taken}))

    async def _called(self, state: SessionState, use: ToolUse) -> ToolCalled:
        (recorded,) = await self.sessions.log.at(state.tenant, [use.asked])
        if not isinstance(recorded.event, ToolCalled):
            raise Corrupt(f"event {recorded.sequence}", "it asks for no tool")
        return recorded.event

    async def _asked(
        self, pin: ToolPin, spec: ToolsSpec, arguments: dict[str, JsonValue]
    ) -> Answered:
        """Call a server once; the model is told of a failure, and the call is not repeated."""
        try:
            async with asyncio.timeout(spec.seconds):
                server = spec.servers[pin.server]
                answered = await self.servers.ask(pin.server, server, pin.tool, arguments)
        except TimeoutError:
            return Answered(f"no answer in {spec.seconds:g} s", failed=True, unsure=True)
        except ServerFailure as failure:
            asked = failure.code != "tools_unreachable"
            return Answered(failure.detail, failed=True, unsure=asked)
        size = len(answered.text.encode())
        return answered if size <= spec.most_bytes else _too_long(answered, size, pin, spec)

    async def _recorded(
        self, tenant: str, called: ToolCalled, answered: Answered, pin: ToolPin, spec: ToolsSpec
    ) -> ToolReturned:
        whole, outcome = answered.text, _outcome(answered, pin)
        digest = await self.blobs.put(tenant, whole.encode())
        gist = distilled(whole, spec.distil)
        if gist.treatment != "kept":
            told_of = {"call": called.call, "tool": called.tool, "characters": len(whole)}
            _log.info("result-distilled", treatment=gist.treatment, **told_of)
        gave = gist.text if outcome == "answered" else f"{outcome}: {gist.text}"
        gave += "; it may have been done" if answered.unsure else ""
        later = summarised(whole) if outcome == "answered" else None
        return ToolReturned(
            turn=called.turn,
            call=called.call,
            id=called.id,
            tool=called.tool,
            outcome=outcome,
            detail=LOST if outcome == "lost" else "",
            text=Plain(text=told(called.tool, called.arguments, gave)),
            summary=Plain(text=told(called.tool, called.arguments, later)) if later else None,
            result=digest,
            characters=len(whole),
            treatment=gist.treatment,
        )

    async def _back(
        self, state: SessionState, use: ToolUse, returned: ToolReturned
    ) -> SessionState:
        command = ReturnTool(self.attempt, use, returned)
        done = await self.sessions.act(state.tenant, state.session, command, self.by)
        if current(done.state, self.attempt) is None:
            raise Superseded
        return done.state


def _arguments(written: str) -> dict[str, JsonValue] | None:
    """Parse a tool's arguments; None if they are not an object."""
    try:
        found: JsonValue = json.loads(written or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _too_long(answered: Answered, size: int, pin: ToolPin, spec: ToolsSpec) -> Answered:
    """Replace an oversized result by a message; it counts as failed only if it may be repeated."""
    done = "" if answered.failed else "it was done, but "
    detail = f"{done}its result has {size} bytes, {spec.most_bytes} are allowed"
    return replace(answered, text=detail, failed=answered.failed or pin.idempotent)


def _outcome(answered: Answered, pin: ToolPin) -> Literal["answered", "failed", "lost"]:
    """Return the outcome of a tool; an idempotent one has failed even if it may have run."""
    if answered.unsure and not pin.idempotent:
        return "lost"
    return "failed" if answered.failed else "answered"


def _lost(called: ToolCalled) -> ToolReturned:
    return ToolReturned(
        turn=called.turn,
        call=called.call,
        id=called.id,
        tool=called.tool,
        outcome="lost",
        detail=LOST,
        text=Plain(text=told(called.tool, called.arguments, f"lost: {LOST}")),
    )
