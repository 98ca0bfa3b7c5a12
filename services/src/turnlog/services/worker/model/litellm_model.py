"""A language model that calls any provider through litellm.

It only streams: no retries, no cache, no callbacks. Addresses and keys come from the environment as
litellm reads it, never from a request. An answer counts only if the provider said why it ended.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx

from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.bulk import settled
from turnlog.services.worker.model.ending import ending
from turnlog.services.worker.model.exchange import Finished, ModelRequest, TextDelta
from turnlog.services.worker.model.litellm_library import (
    Library,
    introduce,
    load,
    said_finish,
    unaccounted,
    witnessed,
)
from turnlog.services.worker.model.parameters import checked
from turnlog.services.worker.model.patience import patient
from turnlog.services.worker.model.reading import Reading, reported_usage
from turnlog.services.worker.model.script_files import Scripts
from turnlog.services.worker.model.scripted_provider import PROVIDER
from turnlog.services.worker.model.thaw import thawed
from turnlog.services.worker.model.timeouts import Timeouts


class LitellmModel:
    """A `LanguageModel`; `scripts` is a folder of scripts for `scripted/<name>`."""

    def __init__(self, timeouts: Timeouts | None = None, scripts: Path | None = None) -> None:
        self._timeouts = timeouts or Timeouts()
        self._scripts = Scripts(scripts)
        self._loaded: Library | None = None

    async def preload(self) -> None:
        """Import litellm now in a thread, so that no call has to wait for it."""
        await self._library()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | Finished, None]:
        arguments = self._arguments(request)
        library = await self._library()
        introduce(library, request.model)
        reading = Reading()
        with patient(self._timeouts) as patience:
            stream = await patience.wait(library.acompletion(**arguments))
            unaccounted(stream)
            try:
                witness = await patience.wait(witnessed(stream))
                patience.answering()
                while (chunk := await patience.wait(anext(stream, None))) is not None:
                    text, token = reading.take(chunk)
                    if text:
                        yield TextDelta(text)
                    # Only now: time that the consumer took is not silence of the provider.
                    if token:
                        patience.heard()
            finally:
                await stream.aclose()
        said, usage = said_finish(stream, witness), reported_usage(stream.chunks)
        yield ending(reading, said=said, usage=usage, asked=request.model)

    async def _library(self) -> Library:
        if self._loaded is None:
            self._loaded = await aside(load)
            settled()
        return self._loaded

    def _arguments(self, request: ModelRequest) -> dict[str, object]:
        provider, _, name = request.model.partition("/")
        arguments: dict[str, object] = {
            **{key: thawed(value) for key, value in checked(request.parameters).items()},
            "model": request.model,
            "messages": thawed(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "timeout": self._transport_timeout(),
            # The worker retries. This disables the retries of the client below litellm as well.
            "num_retries": 0,
            # Otherwise any call with tools needs the packages of litellm's proxy.
            "_skip_mcp_handler": True,
        }
        if request.tools:
            arguments["tools"] = thawed(request.tools)
        if provider == PROVIDER:
            arguments["client"] = self._scripts.script(name)
        elif provider == "openai" and _keyless():
            arguments["api_key"] = "none"
        return arguments

    def _transport_timeout(self) -> httpx.Timeout:
        """Return the timeouts of the socket; `CallTimer` limits silence and length and ends sooner.
        """
        return httpx.Timeout(self._timeouts.total, connect=self._timeouts.connect)


def _keyless() -> bool:
    """Return whether an address is set without a key, as for a local server.

    The OpenAI client refuses to be created without a key.
    """
    ours = os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL")
    return bool(ours) and not os.environ.get("OPENAI_API_KEY")
