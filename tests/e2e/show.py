"""Demos as processes of their own, and what they show read as a person would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.parts.turnlog_up import TURNLOG

HANGS = 120.0
"""Seconds: a bound on hanging, not on speed."""
WIDE = {"COLUMNS": "100"}
"""A terminal of this width, whatever the one is that tests are started from."""
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


@contextmanager
def demo(*options: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """Play a demo as a process of its own, on any free port."""
    command = [str(TURNLOG), "demo", *options, "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=OFFLINE | WIDE | environ,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def evened(shown: str) -> str:
    """Give a screen as one line, without its strokes."""
    return " ".join(re.sub("[▌ ]+", " ", shown).split())


def plain_and_well(shown: str, data_dir: Path) -> None:
    """Nothing went wrong, and nothing is coloured where nobody watches."""
    assert "█" in shown
    assert "\x1b" not in shown
    assert "Traceback" not in (data_dir / "turnlog.log").read_text()
    # What is proposed is as long as the paths in it
    played = shown.partition("Your turn")[0]
    assert all(len(line) <= 100 for line in played.splitlines())


def until(process: subprocess.Popen[str], last: str) -> str:
    """Read what a process shows up to a line."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.strip() == last:
            return "".join(lines)
    raise AssertionError("".join(lines))


def proposed(shown: str) -> list[list[str]]:
    """Take the commands out of what was shown, as a shell would."""
    after = shown.partition("Your turn")[2].replace("\\\n", " ")
    lines = [line.strip() for line in after.splitlines()]
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def ran(command: list[str], said: str = "") -> str:
    """Run a proposed command, with what a person then types."""
    return subprocess.run(
        command, input=said, capture_output=True, text=True, check=True, timeout=HANGS
    ).stdout
