"""How many replies at fifty tokens a second one worker can stream before they are late."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure
from benchmarks.support.claimed_turn import build_claimed_turn
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.jetstream.token_stream import JetStreamTokenStream
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.events.tokens import Token, TokenEvent
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.worker.attempts.active_attempt import SentCall, start_attempt
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.direct_model import DirectModel
from turnlog.services.worker.model.litellm_library import load_litellm
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import LanguageModel, ModelRequest

MODEL: Final = "openai/bench"
MESSAGES: Final = ({"role": "user", "content": "What time is it?"},)
SPEECH: Final = ModelSpeech(tokens=100, pace=0.02)
STREAM_STEP: Final = 5
"""Replies more in each round, or a tenth more where that is more."""
MAX_STREAMS: Final = 600
LATE_MILLISECONDS: Final = 100.0
"""Milliseconds from the model that the median token may take."""

ReplyRunner = Callable[[], Awaitable[list[float]]]
"""Runs one reply and returns the delay of each token in milliseconds."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Run more and more replies at once in one process, with and without our own code."""
    async with AsyncExitStack() as stack:
        os.environ["OPENAI_API_BASE"] = await stack.enter_async_context(run_server_process(SPEECH))
        os.environ["OPENAI_API_KEY"] = "none"
        server = await stack.enter_async_context(
            await NatsServer.start(NatsConfig(data_dir=terms.folder))
        )
        on = await stack.enter_async_context(open_client(server.url, Layout(replicas=1)))
        direct = DirectModel(os.environ)
        await _run_bare_reply()
        worker_capacity = await _find_capacity(lambda: _run_worker_reply(on, LitellmModel()))
        bare_capacity = await _find_capacity(_run_bare_reply)
        direct_capacity = await _find_capacity(lambda: _run_worker_reply(on, direct))
        await direct.close()
    what = (
        f"most replies of {1 / SPEECH.pace:.0f} tokens/s in one process, "
        f"in steps of {STREAM_STEP} or a tenth, of "
        f"which half the tokens are published within {LATE_MILLISECONDS:.0f} ms of "
        "leaving the model"
    )
    return (
        Figure(
            name="streams of one worker",
            measured=f"{what}; a worker's attempts",
            unit="streams",
            runs=(worker_capacity,),
        ),
        Figure(
            name="streams of bare litellm",
            measured=f"{what}; heard, not published",
            unit="streams",
            runs=(bare_capacity,),
        ),
        Figure(
            name="streams of one worker, direct",
            measured=f"{what}; a worker's attempts by the direct adapter",
            unit="streams",
            runs=(direct_capacity,),
        ),
        Figure(
            name="streams, direct over bare litellm",
            measured=f"{what}: those of a worker by the direct adapter over those of bare litellm",
            unit="x",
            runs=(direct_capacity / bare_capacity if bare_capacity else math.inf,),
        ),
    )


async def _find_capacity(say: ReplyRunner) -> float:
    carried, number = 0, STREAM_STEP
    while number <= MAX_STREAMS:
        delays = await asyncio.gather(*(say() for _ in range(number)))
        if statistics.median(late for each in delays for late in each) > LATE_MILLISECONDS:
            break
        carried = number
        number += max(STREAM_STEP, number // 10)
    return carried


async def _run_bare_reply() -> list[float]:
    late: list[float] = []
    arguments = {"model": MODEL, "messages": list(MESSAGES), "num_retries": 0}
    stream = await load_litellm().acompletion(**arguments, stream=True)
    while (chunk := await anext(stream, None)) is not None:
        choices = getattr(chunk, "choices", None)
        late += _measure_delays(choices[0].delta.content or "") if choices else []
    return late


def _measure_delays(text: str) -> list[float]:
    now = time.monotonic_ns()
    return [(now - int(clock)) / 1e6 for clock in text.split()]


@dataclass(frozen=True)
class DelayRecordingTokens(JetStreamTokenStream):
    """Publishes tokens, and notes how late each was."""

    late: list[float] = field(default_factory=list[float])

    async def publish_token(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """See `TokenStream.publish`."""
        await super().publish_token(tenant, session, turn, event)
        if isinstance(event, Token):
            self.late.extend(_measure_delays(event.text))


async def _run_worker_reply(on: JetStreamClient, model: LanguageModel) -> list[float]:
    tokens = DelayRecordingTokens(on.connection)
    active = start_attempt(build_claimed_turn(), tokens)
    sent = SentCall(active.attempt, ModelRequest(model=MODEL, messages=MESSAGES))
    await active.stream_answer(sent, model, AnswerMediaIntake(MemoryMediaStore(), MediaRoom()))
    return tokens.late
