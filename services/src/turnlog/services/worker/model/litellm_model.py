"""A language model that calls any provider through litellm.

It only streams: no retries, no cache, no callbacks. Addresses and keys come from the environment as
litellm reads it, or the key is the tenant's own; neither comes from a blueprint. An answer counts
only if the provider said why it ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator

import httpx
import structlog

from turnlog.events.errors import Unavailable
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.gc_control import freeze_live_objects, pause_collection
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.answers.answer_end import build_finished
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader, build_reasoning_delta
from turnlog.services.worker.model.answers.reported_usage import read_reported_usage
from turnlog.services.worker.model.bounded_responses import MAX_HELD_FRAME_BYTES
from turnlog.services.worker.model.call_timeouts import (
    CallTimeouts,
    ReadingCall,
    expect_bytes,
    open_call_timer,
)
from turnlog.services.worker.model.first_answer import read_first_answer
from turnlog.services.worker.model.litellm_library import (
    DETAILS_FIELD,
    LitellmLibrary,
    RawStreamCheck,
    attach_stream_check,
    find_finish_reason,
    is_read_by_openai_client,
    load_litellm,
    register_ollama_model,
    stop_accounting,
)
from turnlog.services.worker.model.mistral_fields import build_mistral_fields
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelRequest,
    ReasoningDelta,
    check_parameters,
    convert_to_plain,
)

_log = structlog.get_logger("turnlog.worker")


class LitellmModel:
    """A `LanguageModel` of every provider that litellm knows; imports litellm at the first call."""

    def __init__(
        self, timeouts: CallTimeouts | None = None, frame_room: MediaRoom | None = None
    ) -> None:
        self._timeouts = timeouts or CallTimeouts()
        self._frame_room = frame_room or MediaRoom(MAX_HELD_FRAME_BYTES)
        self._loaded: LitellmLibrary | None = None

    async def load_early(self) -> None:
        """Import litellm now in a thread, so that no call has to wait for it, and log it.

        It takes six seconds on a free machine and half a minute on a busy one.
        """
        clock = asyncio.get_running_loop()
        begun_at = clock.time()
        _log.info("model-library-loading", library="litellm", effect="replies wait for it")
        await self._load_library()
        _log.info("model-library-loaded", seconds=round(clock.time() - begun_at, 1))

    async def require_loaded(self) -> None:
        """Raise `Unavailable` while a call would wait for the import of litellm."""
        if self._loaded is None:
            raise Unavailable("model", "litellm is being loaded; replies wait for it")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        timeouts = self._timeouts.apply_spec(request.timeouts)
        arguments = _build_arguments(request, timeouts)
        library = await self._load_library()
        register_ollama_model(library, request.model)
        reading = ChunkReader()
        with open_call_timer(timeouts) as patience, self._frame_room.open_share() as share:
            with expect_bytes(ReadingCall(patience, share)):
                stream = await patience.wait_for(library.acompletion(**arguments))
            usages = stop_accounting(stream)
            try:
                witness = await patience.wait_for(attach_stream_check(stream))
                has_provider_ids = is_read_by_openai_client(stream)
                patience.mark_accepted()
                while (chunk := await patience.wait_for(anext(stream, None))) is not None:
                    text, token = reading.read_chunk(chunk)
                    if reasoning := _pop_reasoning(reading, witness):
                        yield reasoning
                    for delta in reading.split_deltas(text):
                        yield delta
                    # Only now: time that the consumer took is not silence of the provider.
                    if token:
                        patience.mark_token()
            finally:
                await stream.aclose()
        if reasoning := _pop_reasoning(reading, witness):
            yield reasoning
        for delta in reading.split_deltas(reading.read_rest()):
            yield delta
        received_id = reading.received_id if has_provider_ids else None
        yield build_finished(
            reading,
            reason_name=find_finish_reason(stream, witness),
            usage=read_reported_usage(usages.chunks),
            requested_model=request.model,
            response_id=witness.response_id if witness else received_id,
            ratings=witness.ratings if witness else (),
        )

    async def _load_library(self) -> LitellmLibrary:
        if self._loaded is None:
            self._loaded = await run_in_thread(_load_and_freeze)
        return self._loaded


def _pop_reasoning(reading: ChunkReader, witness: RawStreamCheck | None) -> ReasoningDelta | None:
    """Return what was reasoned since the last time, with what litellm does not pass on."""
    found = reading.pop_reasoning()
    details = witness.pop_details() if witness else []
    if not details:
        return found
    return build_reasoning_delta({**(found.fields if found else {}), DETAILS_FIELD: details})


def _build_arguments(request: ModelRequest, timeouts: CallTimeouts) -> dict[str, object]:
    arguments: dict[str, object] = {
        **{
            key: convert_to_plain(value)
            for key, value in check_parameters(request.parameters).items()
        },
        "model": request.model,
        "messages": convert_to_plain(request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        # Of the socket; `CallTimer` limits silence and length and ends sooner.
        "timeout": httpx.Timeout(timeouts.total, connect=timeouts.connect),
        # The worker retries. This disables the retries of the client below litellm as well.
        "num_retries": 0,
        # Otherwise any call with tools needs the packages of litellm's proxy.
        "_skip_mcp_handler": True,
    }
    if request.tools:
        arguments["tools"] = convert_to_plain(request.tools)
    if replaced := build_mistral_fields(request):
        arguments["extra_body"] = replaced
    if request.key is not None:
        arguments["api_key"] = request.key.get_secret_value()
    elif request.model.startswith("openai/") and _has_no_key():
        arguments["api_key"] = "none"
    return arguments


def _load_and_freeze() -> LitellmLibrary:
    """Import litellm without full collections, which keep the interpreter from the event loop."""
    with pause_collection():
        library = load_litellm()
        read_first_answer(library)
        freeze_live_objects()
    return library


def _has_no_key() -> bool:
    """Return whether an address is set without a key, as for a local server.

    The OpenAI client refuses to be created without a key.
    """
    base_url = os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL")
    return bool(base_url) and not os.environ.get("OPENAI_API_KEY")
