"""Turnlog in processes of its own, with a model that answers at once.

The model is a script that litellm streams, so that a turn passes through everything a real one
does.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.parts.prose import Prose
from tests.parts.processes import machine, written

SCRIPT: Final = "bench"
REPLIES: Final = 40
"""Different replies, in turn."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Running:
    """The addresses of a running Turnlog."""

    http: str
    nats: str
    data_dir: Path
    pid: int


@asynccontextmanager
async def up(
    folder: Path, characters: int, told: Mapping[str, str] = NOTHING
) -> AsyncGenerator[Running]:
    """Run `turnlog up` in a folder; each reply has so many characters in ten pieces."""
    scripts = folder / "scripts"
    _write_script(scripts, characters)
    variables = {
        "TURNLOG_SCRIPTS": str(scripts),
        "TURNLOG_MODEL": f"scripted/{SCRIPT}",
        "TURNLOG_HTTP": "127.0.0.1:0",
        **told,
    }
    data_dir = folder / "data"
    async with machine(folder, variables) as on:
        process = await on.start("up", "--data-dir", str(data_dir), said=folder / "up.log")
        ready = json.loads(await written(data_dir / "ready.json", process))
        yield Running(ready["http"], ready["nats"], data_dir, process.pid)


def _write_script(scripts: Path, characters: int) -> None:
    scripts.mkdir(parents=True)
    prose = Prose(2)
    replies = [{"text": _in_pieces(prose.say(characters)), "pace": 0} for _ in range(REPLIES)]
    (scripts / f"{SCRIPT}.yaml").write_text(json.dumps({"replies": replies}))


def _in_pieces(text: str, pieces: int = 10) -> str:
    """Leave nine blanks in the text, since a script is streamed word by word."""
    size = -(-len(text) // pieces)
    parts: Sequence[str] = [text[at : at + size - 1] for at in range(0, len(text), size)]
    return " ".join(part.replace(" ", "-") for part in parts)
