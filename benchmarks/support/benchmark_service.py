"""Turnlog in processes of its own, with a model that answers at once.

The model is a script, so that a turn passes through everything but the client of a
real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.support.random_prose import RandomProse
from tests.support.processes.process_host import run_process_host, wait_for_file

SCRIPT_NAME: Final = "bench"

REPLY_COUNT: Final = 40
"""Different replies, in turn."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BenchmarkService:
    """The addresses of a running Turnlog."""

    http: str
    nats: str
    data_dir: Path
    pid: int


@asynccontextmanager
async def run_service(
    folder: Path, characters: int, extra_variables: Mapping[str, str] = NO_SETTINGS
) -> AsyncGenerator[BenchmarkService]:
    """Run `turnlog up` in a folder; each reply has so many characters in ten pieces."""
    variables = {**build_variables(folder, characters), **extra_variables}
    data_dir = folder / "data"
    async with run_process_host(folder, variables) as on:
        process = await on.start_process(
            "up", "--data-dir", str(data_dir), output_file=folder / "up.log"
        )
        ready = json.loads(await wait_for_file(data_dir / "ready.json", process))
        yield BenchmarkService(ready["http"], ready["nats"], data_dir, process.pid)


def build_variables(folder: Path, characters: int) -> dict[str, str]:
    """Write the model's script to a folder, and return the settings of a service that reads it.

    It does not seal, unless it is told to: some benchmarks write to its log themselves, and their
    figures go on with those from before new directories were sealed.
    """
    scripts = folder / "scripts"
    _write_script(scripts, characters)
    return {
        "TURNLOG_SCRIPTS": str(scripts),
        "TURNLOG_MODEL": f"scripted/{SCRIPT_NAME}",
        "TURNLOG_HTTP": "127.0.0.1:0",
        "TURNLOG_SEALING": "off",
    }


def _write_script(scripts: Path, characters: int) -> None:
    scripts.mkdir(parents=True)
    prose = RandomProse(2)
    replies = [
        {"text": _join_pieces(prose.generate_text(characters)), "pace": 0}
        for _ in range(REPLY_COUNT)
    ]
    (scripts / f"{SCRIPT_NAME}.yaml").write_text(json.dumps({"replies": replies}))


def _join_pieces(text: str, pieces: int = 10) -> str:
    """Leave nine blanks in the text, since a script is streamed word by word."""
    size = -(-len(text) // pieces)
    parts: Sequence[str] = [text[at : at + size - 1] for at in range(0, len(text), size)]
    return " ".join(part.replace(" ", "-") for part in parts)
