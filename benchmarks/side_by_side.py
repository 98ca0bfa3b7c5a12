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
from typing import Any, Final

from pydantic import JsonValue

from benchmarks.figures.floor import CHARACTERS, MeasuredLoad, ServiceUnderLoad, measure_load
from benchmarks.support.benchmark_service import build_variables
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from benchmarks.support.http_caller import connect_caller
from benchmarks.support.processor_time import read_processor_seconds

OWN_CLONE: Final = Path(__file__).resolve().parents[1]

SPEECH: Final = ModelSpeech(tokens=10, pace=0)
"""What the model's server answers where one is asked."""

ROOT_KEY: Final = "the-root-key-of-a-service-under-load"

DEFAULT_ADAPTER: Final = "litellm"

VERIFICATIONS: Final = 3
"""How often a session is verified in a block: one takes few ticks of the processor's clock."""

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
        if options.verify:
            pairs = [
                tuple([await _measure_verification(service) for service in services])
                for _ in range(options.blocks)
            ]
            print(_compare_sides("processor time of `verify`", "ms", pairs), flush=True)


async def _measure_verification(service: ServiceUnderLoad) -> float:
    """Verify the longest session; return the processor milliseconds that it takes."""
    async with connect_caller(service.http, service.key) as caller:
        listed: Any = await caller.request_json("GET", "/v1/sessions")
        longest = max(listed["sessions"], key=lambda each: int(each["turns"]))
        before = read_processor_seconds(service.pid)
        for _ in range(VERIFICATIONS):
            report: Any = await caller.request_json(
                "GET", f"/v1/sessions/{longest['session']}/verify"
            )
            assert report["verified"], report
        taken = read_processor_seconds(service.pid) - before
    return taken / VERIFICATIONS * 1000


def _describe_blocks(sessions: int, found: Sequence[tuple[MeasuredLoad, ...]]) -> str:
    parts = [f"{sessions} sessions"]
    for name, unit, field in (
        ("processor time a turn", "ms", "processor_milliseconds"),
        ("time of a turn", "ms", "milliseconds"),
        ("turns", "/s", "turns_per_second"),
    ):
        pairs = [tuple(float(getattr(each, field)) for each in block) for block in found]
        parts.append(_compare_sides(name, unit, pairs))
    return " · ".join(parts)


def _compare_sides(name: str, unit: str, pairs: Sequence[tuple[float, ...]]) -> str:
    theirs, own = zip(*pairs, strict=True)
    ratio = statistics.median(mine / its for mine, its in zip(own, theirs, strict=True))
    before, now = statistics.median(theirs), statistics.median(own)
    return f"{name} {before:.1f} -> {now:.1f} {unit} ({ratio:.2f}x)"


@asynccontextmanager
async def _run_clone(
    clone: Path, folder: Path, model_variables: Mapping[str, str], *, asks: bool, seals: bool
) -> AsyncGenerator[ServiceUnderLoad]:
    data_dir = folder / "data"
    variables = {**build_variables(folder, CHARACTERS), **model_variables}
    if asks:
        variables["TURNLOG_ROOT_KEY"] = ROOT_KEY
    if not _can_seal(clone):
        del variables["TURNLOG_SEALING"]  # It would be refused as unknown.
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


def _can_seal(clone: Path) -> bool:
    return (clone / "services/src/turnlog/services/seals").exists()


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
    parser.add_argument(
        "--verify", action="store_true", help="verify the longest session of each as well"
    )
    parser.add_argument("--question", action="store_true", help="ask what later turns inherit")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
