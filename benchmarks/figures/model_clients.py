"""What a streamed answer costs by each way to a server of OpenAI's protocol, and what a way loads.

The bare clients publish nothing and record nothing: they are what the adapters could cost at least.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import aiohttp
import httpx
from openai import AsyncOpenAI

from benchmarks.figure_types import BenchmarkTerms, Figure
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from turnlog.services.worker.model.direct_model import DirectModel
from turnlog.services.worker.model.litellm_library import load_litellm
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import LanguageModel, ModelRequest, TextDelta

MODEL: Final = "openai/bench"
QUESTION: Final = "What time is it?"
MESSAGES: Final = ({"role": "user", "content": QUESTION},)
SPEECH: Final = ModelSpeech(tokens=400, pace=0.005)
BODY: Final = json.dumps({"model": "bench", "messages": MESSAGES, "stream": True}).encode()

StreamRunner = Callable[[], Awaitable[None]]


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Stream the same answer by every way in turn."""
    async with AsyncExitStack() as stack:
        os.environ["OPENAI_API_BASE"] = await stack.enter_async_context(run_server_process(SPEECH))
        os.environ["OPENAI_API_KEY"] = "none"
        ways = await stack.enter_async_context(_open_ways(os.environ["OPENAI_API_BASE"]))
        for run in ways.values():
            await run()
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(terms.runs):
            for name, run in ways.items():
                costs[name].append(await _measure_cost(run))
    per_stream = "processor time of a process for a stream of 400 tokens, 5 ms apart"
    figures = [
        Figure(
            name=f"stream by {name}", measured=f"{per_stream}; {name}", unit="ms", runs=tuple(taken)
        )
        for name, taken in costs.items()
    ]
    pairs = zip(costs["bare litellm"], costs["the direct adapter"], strict=True)
    ratio = Figure(
        name="bare litellm over the direct adapter",
        measured=f"{per_stream}: that of bare litellm over that of the direct adapter",
        unit="x",
        runs=tuple(bare / direct for bare, direct in pairs),
    )
    return (*figures, ratio, *_measure_imports())


async def _measure_cost(run: StreamRunner) -> float:
    began = time.process_time()
    await run()
    return (time.process_time() - began) * 1e3


@asynccontextmanager
async def _open_ways(url: str) -> AsyncGenerator[dict[str, StreamRunner]]:
    direct = DirectModel(os.environ)
    async with (
        aiohttp.ClientSession() as session,
        httpx.AsyncClient() as client,
        AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as openai,
    ):
        yield {
            "bare litellm": _run_bare_litellm,
            "the litellm adapter": lambda: _run_adapter(LitellmModel()),
            "the direct adapter": lambda: _run_adapter(direct),
            "bare openai": lambda: _run_openai(openai),
            "bare httpx": lambda: _run_httpx(client, url),
            "bare aiohttp": lambda: _run_aiohttp(session, url),
        }
    await direct.close()


async def _run_adapter(model: LanguageModel) -> None:
    stream = model.stream(ModelRequest(model=MODEL, messages=MESSAGES))
    deltas = [each async for each in stream if isinstance(each, TextDelta)]
    assert len(deltas) == SPEECH.tokens


async def _run_bare_litellm() -> None:
    arguments = {"model": MODEL, "messages": list(MESSAGES), "num_retries": 0}
    options = {"stream": True, "stream_options": {"include_usage": True}}
    stream = await load_litellm().acompletion(**arguments, **options)
    while await anext(stream, None) is not None:
        pass
    # What it does with a finished answer, it does in tasks and threads of its own.
    await asyncio.sleep(0.2)


async def _run_openai(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="bench", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    async for chunk in stream:
        assert chunk.choices


async def _run_httpx(client: httpx.AsyncClient, url: str) -> None:
    async with client.stream("POST", f"{url}/chat/completions", content=BODY) as response:
        async for line in response.aiter_lines():
            _read_line(line)


async def _run_aiohttp(session: aiohttp.ClientSession, url: str) -> None:
    async with session.post(f"{url}/chat/completions", data=BODY) as response:
        async for line in response.content:
            _read_line(line.decode())


def _read_line(line: str) -> None:
    if line.startswith("data: {"):
        assert json.loads(line.removeprefix("data: "))["choices"]


_PROGRAM: Final = """
import os, time
from pathlib import Path
import turnlog.services.worker.worker_process

def read_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

before, began = read_pages(), time.process_time()
{load}
print((read_pages() - before) * os.sysconf("SC_PAGE_SIZE") / 2**20, time.process_time() - began)
"""

_LOADS: Final = {
    "litellm": "from turnlog.services.worker.model.litellm_library import load_litellm as load\n"
    "load()",
    "openai": "import openai.resources.chat",
}


def _measure_imports() -> list[Figure]:
    """Measure what a library adds to a worker that has imported everything else."""
    figures: list[Figure] = []
    for name, load in _LOADS.items():
        memory, seconds = _run_import(_PROGRAM.format(load=load))
        what = f"that importing {name} adds to a worker, which has all but it"
        figures += [
            Figure(name=f"memory of {name}", measured=f"memory {what}", unit="MB", runs=(memory,)),
            Figure(
                name=f"import of {name}",
                measured=f"processor time {what}",
                unit="s",
                runs=(seconds,),
            ),
        ]
    return figures


def _run_import(program: str) -> tuple[float, float]:
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    memory, seconds = map(float, ran.stdout.split())
    return memory, seconds
