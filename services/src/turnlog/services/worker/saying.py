"""Run one attempt: prepare the state, prepare the call, and ask the model.

Whatever goes wrong is the end of the attempt and is returned. Only a lost lease is raised, since
then there is nothing left to end.
"""

from __future__ import annotations

import asyncio
from asyncio import timeout
from dataclasses import dataclass

from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.resolver import ResolverFailure
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.runtime.telemetry import Tracing, note_answer, note_failure
from turnlog.services.worker import remarks
from turnlog.services.worker.attempt import Speaking, model_request
from turnlog.services.worker.context import Contexts, Prepared
from turnlog.services.worker.ending import End
from turnlog.services.worker.guard import Violation, guard_of
from turnlog.services.worker.model.exchange import Finished, Model
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.resolving import Resolving, Unroutable
from turnlog.services.worker.summing import Summing, patience
from turnlog.services.worker.tools.exchange import ServerFailure, ToolServers
from turnlog.services.worker.tools.pinning import Pinning
from turnlog.services.worker.tools.tooling import Tooling
from turnlog.services.worker.workings import given_to, work_of


@dataclass(frozen=True, slots=True)
class Saying:
    """Makes the calls of turns."""

    sessions: Sessions
    contexts: Contexts
    servers: ToolServers
    pinning: Pinning
    model: Model
    tracing: Tracing

    async def say(self, speaking: Speaking, state: SessionState, seconds: float, by: By) -> End:
        """Wait, prepare the call and make it; raises `AttemptSuperseded` if the lease is lost."""
        await speaking.announce()
        await asyncio.sleep(seconds)
        try:
            if await self._leads_nowhere(speaking, state, by):
                return Unroutable()
            state = await self._ready(speaking, state, by)
            prepared = await self.contexts.prepare(state, speaking.attempt, speaking.material, by)
            return await self._in_time(speaking, prepared, patience(speaking, state.profile))
        except (ModelFailure, ResolverFailure, ServerFailure, Refused, Corrupt) as end:
            return end

    async def _leads_nowhere(self, speaking: Speaking, state: SessionState, by: By) -> bool:
        """Ask the resolver, if there is one; its answer becomes the fallback of the model's."""
        material, resolving = speaking.material, Resolving(self.sessions)
        resolved = await resolving.resolved(state, speaking.attempt, material, by)
        if resolved is None:
            return False
        if material.blueprint.calls[material.call_kind(state)].fallback:
            speaking.fallback = await resolving.answer(speaking.tenant, resolved)
        return resolved.entity is None

    async def _ready(self, speaking: Speaking, state: SessionState, by: By) -> SessionState:
        """Run the requested tools; what the call is for depends on their results."""
        blobs, material = self.contexts.blobs, speaking.material
        tooling = Tooling(
            self.sessions, blobs, self.servers, self.pinning, speaking.attempt, by, speaking.runs
        )
        state = await tooling.ready(state, material)
        summing = Summing(self.sessions, self.contexts)
        state = await summing.begun(state, speaking.attempt, material, by)
        taken = state.tools.get(state.profile)
        speaking.tools = frozenset(taken.tools if taken else ())
        await speaking.begins(material.stage(state))
        if speaking.stage == "plan":
            speaking.given = given_to(material, state)
        if speaking.stage == "reply":
            speaking.guard = guard_of(material)
            speaking.work = await self._worked(speaking, state)
        return state

    async def _worked(self, speaking: Speaking, state: SessionState) -> str | None:
        if state.open is None:
            return None
        texts, blueprint = self.sessions.texts, speaking.material.blueprint
        return await work_of(texts, speaking.tenant, state.open, blueprint)

    async def _in_time(
        self, speaking: Speaking, prepared: Prepared, seconds: float | None
    ) -> Finished | Violation:
        try:
            async with timeout(seconds):
                return await self._listened(speaking, prepared)
        except TimeoutError:
            if seconds is None:
                raise
            late = f"no whole answer in {seconds:g} s, and the turn goes on without"
            raise ModelFailure("timeout_total", late) from None

    async def _listened(self, speaking: Speaking, prepared: Prepared) -> Finished | Violation:
        request = model_request(prepared.request)
        speaking.manifest = prepared.manifest
        remarks.left_out(speaking, prepared.manifest)
        call = prepared.attempt.call
        with self.tracing.chat(speaking.session, call, request.model) as span:
            try:
                finished = await speaking.listen(prepared.attempt, request, self.model)
            except ModelFailure as failure:
                note_failure(span, failure.code)
                raise
            if isinstance(finished, Violation):
                note_answer(span, "safety", None)
            else:
                note_answer(span, finished.finish_reason, finished.usage)
            return finished
