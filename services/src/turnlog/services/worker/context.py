"""The prompt of a call: pin prompt files, assemble the prompt, record the manifest.

A later attempt resends the recorded request as long as assembling it again gives the same digest.
If something that it was made from has changed, it becomes a new call that names the one it
supersedes. The module also loads what the call has of the previous turn and of its own work.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.call import ContextAssembled
from turnlog.events.codec import rfc3339
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Blobs
from turnlog.events.manifest import Manifest
from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.layer import Pinned, SourceLayer
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.attempts import call_of, current
from turnlog.projections.session.commands import Attempt, FixContext, SnapshotPrompts
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call, provider_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.request import Request
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.plugins import source_named
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.worker.model.failures import ModelFailure

OFF: Final = "off"
"""The model name of a service without a model."""


class Superseded(Exception):
    """The attempt has lost the lease of its turn; only its cost may still be recorded."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is on the log and may be made."""

    attempt: Attempt
    request: Request
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Contexts:
    """Prepares the prompts of calls."""

    sessions: Sessions
    blueprints: BlueprintStore
    blobs: Blobs
    library: Library
    gathering: Gathering
    default_model: str

    async def prepare(
        self, state: SessionState, attempt: Attempt, material: Material, by: By
    ) -> Prepared:
        """Pin prompt files if needed, assemble the prompt and record it.

        Raises `AttemptSuperseded` if the attempt lost its lease, and `ModelFailure` before anything
        is recorded if there is no model.
        """
        model = material.model(state, self.default_model)
        if model == OFF:
            raise ModelFailure("model_off", "there is no model to ask")
        at = rfc3339(self.sessions.clock())
        call = Call(material.call_kind(state), model, provider_of(model), at)
        await self._pin(state, attempt, material.blueprint, call.provider, by)
        return await self._fix(state.tenant, state.session, attempt, material, call, by)

    async def _pin(
        self,
        state: SessionState,
        attempt: Attempt,
        blueprint: Blueprint,
        provider: str,
        by: By,
    ) -> None:
        layers = blueprint.layers.values()
        if provider in state.prompts or not any(isinstance(each, Pinned) for each in layers):
            return
        found = await self._found(state, blueprint, provider)
        stored = await asyncio.gather(
            *(self.blobs.put(state.tenant, text.encode()) for _, text in found.values())
        )
        pinned = {
            name: PromptFile(digest=digest, path=path)
            for (name, (path, _)), digest in zip(found.items(), stored, strict=True)
        }
        command = SnapshotPrompts(attempt, provider, pinned)
        await self.sessions.act(state.tenant, state.session, command, by)

    async def _found(
        self, state: SessionState, blueprint: Blueprint, provider: str
    ) -> dict[str, tuple[str, str]]:
        """Return the prompt texts by layer, each with the path or source that it comes from."""
        files, attributes, library = prompt_layers(blueprint), state.attributes, self.library
        found = library.prompt_files(blueprint, files, provider, attributes) if files else {}
        for name, layer in blueprint.layers.items():
            if isinstance(layer, SourceLayer):
                source = source_named(layer.source)
                text = await source(state.session, state.attributes)
                found |= {name: (f"source:{layer.source}", text)} if text else {}
        return found

    async def _fix(
        self,
        tenant: str,
        session: str,
        attempt: Attempt,
        material: Material,
        call: Call,
        by: By,
    ) -> Prepared:
        prepared: Prepared | None = None

        async def choose(state: SessionState | None) -> FixContext | None:
            nonlocal prepared
            opened = current(state, attempt) if state else None
            if state is None or opened is None:
                raise Superseded
            filled = await self._filled(state, opened, material, call)
            assembled = await self._assembled(state, material, filled)
            recorded = opened.context.digest if opened.context else None
            named = replace(attempt, call=_call_id(opened, recorded, assembled))
            prepared = Prepared(named, assembled.request, assembled.manifest)
            if recorded == assembled.manifest.digest:
                return None
            return FixContext(
                named,
                call.model,
                dict(assembled.request.parameters),
                assembled.manifest,
                supersedes=attempt.call if recorded else None,
            )

        await self.sessions.act(tenant, session, choose, by)
        if prepared is None:
            raise Superseded
        return prepared

    async def _filled(
        self, state: SessionState, opened: OpenTurn, material: Material, call: Call
    ) -> Call:
        """Return the call with its recorded inputs, or with the current ones if it is new."""
        if opened.context is None:
            return await self.gathering.fresh(material, state, call)
        (recorded,) = await self.sessions.log.at(state.tenant, [opened.context.place])
        if not isinstance(recorded.event, ContextAssembled):
            raise Corrupt(f"event {recorded.sequence}", "it is not the context of a call")
        return await self.gathering.again(material, state, call, recorded.event.manifest)

    async def _assembled(self, state: SessionState, material: Material, call: Call) -> Assembled:
        asked = needs(material, state, call)
        if asked.older:
            sequence = state.head.sequence
            state = await self.sessions.load_whole(state.tenant, state.session, sequence)
            asked = needs(material, state, call)
        texts = await self.sessions.texts.fetch(state.tenant, asked)
        return assemble(material, state, call, texts)


def _call_id(opened: OpenTurn, recorded: str | None, assembled: Assembled) -> str:
    same = recorded is None or recorded == assembled.manifest.digest
    return call_of(opened) if same else f"{opened.turn}.{opened.calls + 1}"
