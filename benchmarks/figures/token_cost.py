"""The processor time of a streamed token beyond that of litellm."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.claimed_turn import build_claimed_turn
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.worker.attempts.active_attempt import SentCall, start_attempt
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.litellm_library import load_litellm
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelRequest

MODEL: Final = "openai/bench"
MESSAGES: Final = ({"role": "user", "content": "What time is it?"},)
TOKEN_COUNT: Final = 10_000


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Measure the same stream bare and through a worker's attempt, alternately."""
    async with AsyncExitStack() as stack:
        speech = ModelSpeech(TOKEN_COUNT, pace=0)
        os.environ["OPENAI_API_BASE"] = await stack.enter_async_context(run_server_process(speech))
        os.environ["OPENAI_API_KEY"] = "none"
        server = await stack.enter_async_context(
            await NatsServer.start(NatsConfig(data_dir=terms.folder))
        )
        on = await stack.enter_async_context(open_client(server.url, Layout(replicas=1)))
        await _run_bare_stream()
        taken = [
            (
                await _measure_cost(_run_bare_stream),
                await _measure_cost(lambda: _run_worker_stream(on)),
            )
            for _ in range(terms.runs)
        ]
    bare = tuple(each[0] for each in taken)
    return (
        Figure(
            name="processor time a token, ours",
            measured=f"processor time of a worker's attempt over a stream of {TOKEN_COUNT:,}"
            " tokens, "
            "guarded and "
            "published to NATS, less that of bare litellm over the same, in parts of the latter",
            unit="%",
            runs=tuple(
                100 * (worker_time - bare_time) / bare_time for bare_time, worker_time in taken
            ),
            target=require_at_most(10),
        ),
        Figure(
            name="processor time a token, litellm",
            measured="the same, of bare litellm",
            unit="us",
            runs=bare,
        ),
    )


async def _measure_cost(work: Callable[[], Awaitable[None]]) -> float:
    """Return microseconds of processor time for each token."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) / TOKEN_COUNT * 1e6


async def _run_bare_stream() -> None:
    arguments = {"model": MODEL, "messages": list(MESSAGES), "num_retries": 0}
    options = {"stream": True, "stream_options": {"include_usage": True}}
    stream = await load_litellm().acompletion(**arguments, **options)
    chunk_count = 0
    while await anext(stream, None) is not None:
        chunk_count += 1
    assert chunk_count > TOKEN_COUNT


async def _run_worker_stream(on: JetStreamClient) -> None:
    active = start_attempt(build_claimed_turn(), on.tokens)
    sent = SentCall(active.attempt, ModelRequest(model=MODEL, messages=MESSAGES))
    ended = await active.stream_answer(
        sent, LitellmModel(), AnswerMediaIntake(MemoryMediaStore(), MediaRoom())
    )
    assert isinstance(ended, FinishedAnswer)
    await on.connection.nc.flush()
