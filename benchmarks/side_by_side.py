"""Turns of two clones of this repository: `python -m benchmarks.side_by_side OTHER_CLONE`.

Both run as `turnlog up` and are asked in alternating blocks of turns, so that whatever else the
machine does is done to both. It prints the medians of all blocks: the processor time of all
processes of a service, its nats-server included, and the time of a turn by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from benchmarks.figures.floor import CHARACTERS, MeasuredLoad, ServiceUnderLoad, measure_load
from benchmarks.support.benchmark_service import build_variables
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from benchmarks.support.http_caller import connect_caller

OWN_CLONE: Final = Path(__file__).resolve().parents[1]

SPEECH: Final = ModelSpeech(tokens=10, pace=0)
"""What the model's server answers where one is asked."""

ROOT_KEY: Final = "the-root-key-of-a-service-under-load"

DEFAULT_ADAPTER: Final = "litellm"

QUESTION: Final = "How risky is LOGT11?"
"""A question whose turn is one that later turns inherit from."""


async def main() -> None:
    """Measure both clones and print a line for each number of sessions."""
    options = _parse_arguments()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turnlog-side-")))
        model = run_server_process(SPEECH) if options.adapters else nullcontext("")
        address = await stack.enter_async_context(model)
        adapters = options.adapters or (None, None)
        services = [
            await stack.enter_async_context(
                _run_clone(
                    clone,
                    folder / str(number),
                    _build_model_variables(adapter, address),
                    asks=options.keys and number == 1,
                    seals=options.sealing and number == 1,
                )
            )
            for number, (clone, adapter) in enumerate(
                zip((options.other, OWN_CLONE), adapters, strict=True)
            )
        ]
        for sessions in options.sessions:
            turns = max(2, options.turns // sessions)
            measure = partial(measure_load, sessions=sessions)
            if options.question:
                measure = partial(measure, blueprint="araquem", text=QUESTION)
            for service in services:
                await measure(service, turns=2)
            found = [
                tuple([await measure(service, turns=turns) for service in services])
                for _ in range(options.blocks)
            ]
            print(_describe_blocks(sessions, found), flush=True)


def _describe_blocks(sessions: int, found: Sequence[tuple[MeasuredLoad, ...]]) -> str:
    theirs, own = zip(*found, strict=True)
    parts = [f"{sessions} sessions"]
    for name, unit, field in (
        ("processor time a turn", "ms", "processor_milliseconds"),
        ("time of a turn", "ms", "milliseconds"),
        ("turns", "/s", "turns_per_second"),
    ):
        other, this = ([getattr(each, field) for each in side] for side in (theirs, own))
        ratio = statistics.median(mine / its for mine, its in zip(this, other, strict=True))
        before, now = statistics.median(other), statistics.median(this)
        parts.append(f"{name} {before:.1f} -> {now:.1f} {unit} ({ratio:.2f}x)")
    return " · ".join(parts)


@asynccontextmanager
async def _run_clone(
    clone: Path, folder: Path, model_variables: Mapping[str, str], *, asks: bool, seals: bool
) -> AsyncGenerator[ServiceUnderLoad]:
    data_dir = folder / "data"
    variables = {**build_variables(folder, CHARACTERS), **model_variables}
    if asks:
        variables["TURNLOG_ROOT_KEY"] = ROOT_KEY
    if seals:
        variables["TURNLOG_SEALING"] = "on"
    with (folder / "up.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            clone / ".venv/bin/turnlog",
            *("up", "--data-dir", str(data_dir)),
            env={"PATH": f"{clone / '.venv/bin'}:{os.defpath}", "HOME": str(folder), **variables},
            stdout=log,
            stderr=log,
        )
    try:
        while not (data_dir / "ready.json").exists():
            assert process.returncode is None, (folder / "up.log").read_text()
            await asyncio.sleep(0.1)
        ready = json.loads((data_dir / "ready.json").read_text())
        key = await _create_key(ready["http"]) if asks else None
        yield ServiceUnderLoad(ready["http"], process.pid, key)
    finally:
        process.terminate()
        await process.wait()


async def _create_key(http: str) -> str:
    async with connect_caller(http, ROOT_KEY) as caller:
        form: Mapping[str, JsonValue] = {"name": "bench", "roles": ["caller"]}
        return str((await caller.request_json("POST", "/v1/keys", form))["secret"])


def _build_model_variables(adapter: str | None, address: str) -> Mapping[str, str]:
    if adapter is None:
        return {}
    return {
        "TURNLOG_MODEL": "openai/bench",
        "OPENAI_API_BASE": address,
        "OPENAI_API_KEY": "none",
        # A clone from before there was another adapter knows no such setting.
        **({"TURNLOG_MODEL_ADAPTER": adapter} if adapter != DEFAULT_ADAPTER else {}),
    }


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.side_by_side", description=__doc__)
    parser.add_argument("other", type=Path, help="the clone to compare with, installed")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 16, 50])
    parser.add_argument("--turns", type=int, default=60, help="of a block, in all its sessions")
    parser.add_argument("--blocks", type=int, default=6, help="of each clone")
    parser.add_argument(
        "--adapters",
        choices=(DEFAULT_ADAPTER, "direct"),
        nargs=2,
        help="ask a server of a model, the other clone by the first and this one by the second",
    )
    parser.add_argument(
        "--keys", action="store_true", help="have this clone ask for keys, and the other one not"
    )
    parser.add_argument(
        "--sealing", action="store_true", help="have this clone seal its sessions, the other not"
    )
    parser.add_argument("--question", action="store_true", help="ask what later turns inherit")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
