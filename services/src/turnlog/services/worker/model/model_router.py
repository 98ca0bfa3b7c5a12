"""The adapters that call models, and the choice between them.

The provider in a model's name and the setting `model_adapter` decide: a script answers without any
library, a server of OpenAI's protocol is called directly where the setting says so, and litellm
calls everything else. litellm is imported when a model first needs it, so a worker whose models do
not need it never pays for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.services.platform.process_settings import MODEL_OFF, ModelAdapter
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.bounded_responses import MAX_HELD_FRAME_BYTES
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.direct_model import DirectModel, is_protocol_model
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import (
    LanguageModel,
    ModelDelta,
    ModelRequest,
)
from turnlog.services.worker.model.scripted_model import SCRIPTED_PROVIDER, ScriptedModel


class ModelRouter:
    """A `LanguageModel` that passes each request to the adapter of its model."""

    def __init__(
        self,
        adapter: ModelAdapter,
        environ: Mapping[str, str],
        *,
        timeouts: CallTimeouts | None = None,
        timeouts_by_model: Mapping[str, TimeoutSpec] = MappingProxyType({}),
        scripts: Path | None = None,
        frame_room: MediaRoom | None = None,
    ) -> None:
        self._adapter: ModelAdapter = adapter
        self._timeouts_by_model = timeouts_by_model
        self._scripted = ScriptedModel(timeouts, scripts)
        frame_room = frame_room or MediaRoom(MAX_HELD_FRAME_BYTES)
        self._direct = DirectModel(environ, timeouts, frame_room)
        self._litellm = LitellmModel(timeouts, frame_room)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        own = find_model_timeouts(self._timeouts_by_model, request.model)
        timed = replace(request, timeouts=request.timeouts.merge_over(own))
        return self._choose_adapter(request.model).stream(timed)

    def is_sent_as_recorded(self, model: str) -> bool:
        """Return whether a model's server gets the recorded request byte for byte."""
        return self._choose_adapter(model) is self._direct

    def needs_litellm(self, model: str) -> bool:
        return model != MODEL_OFF and self._choose_adapter(model) is self._litellm

    async def load_early(self, model: str) -> None:
        """Import litellm now if a model needs it, so that no call has to wait for the import."""
        if self.needs_litellm(model):
            await self._litellm.load_early()

    async def require_loaded(self, model: str) -> None:
        """Raise `Unavailable` while a call of a model would wait for the import of litellm."""
        if self.needs_litellm(model):
            await self._litellm.require_loaded()

    async def close(self) -> None:
        await self._direct.close()

    def _choose_adapter(self, model: str) -> LanguageModel:
        if model.partition("/")[0] == SCRIPTED_PROVIDER:
            return self._scripted
        if self._adapter == "direct" and is_protocol_model(model):
            return self._direct
        return self._litellm


def find_model_timeouts(by_model: Mapping[str, TimeoutSpec], model: str) -> TimeoutSpec:
    """Return the timeouts of a model; of the patterns that match it, the longest decides."""
    found = TimeoutSpec()
    for pattern in sorted(by_model, key=len):
        if fnmatchcase(model, pattern):
            found = by_model[pattern].merge_over(found)
    return found
