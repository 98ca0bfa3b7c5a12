"""Demos as processes of their own, and helpers that read their screens."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.forked_program import get_forked_program

DEMO_TIMEOUT = 120.0
"""Seconds until a command counts as hanging."""

TERMINAL_WIDTH = {"COLUMNS": "100"}
"""A fixed terminal width, whatever terminal runs the tests."""

OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


@contextmanager
def run_demo(*options: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """Run a demo as a process, on a free port; the README's is executed by `tests/docs`."""
    command = [str(get_forked_program()), "demo", *options, "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=OFFLINE | TERMINAL_WIDTH | environ,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def normalize_screen(screen: str) -> str:
    """Return a screen as one line, without its strokes."""
    return " ".join(re.sub("[▌ ]+", " ", screen).split())


def assert_plain_screen(screen: str, data_dir: Path) -> None:
    """Check that nothing failed, and that output that is no terminal has no colours."""
    assert "█" in screen
    assert "\x1b" not in screen
    assert "Traceback" not in (data_dir / "turnlog.log").read_text()
    # The proposed commands are as long as the paths in them.
    played = screen.partition("Your turn")[0].splitlines()
    assert all(len(line) <= 100 for line in played if not line.startswith("word for word:"))


def read_until(process: subprocess.Popen[str], last: str) -> str:
    """Read the output of a process up to a line."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.strip() == last:
            return "".join(lines)
    raise AssertionError("".join(lines))


def list_proposed_commands(screen: str) -> list[list[str]]:
    """Parse the commands that the screen proposes, as a shell would."""
    after = screen.partition("Your turn")[2].replace("\\\n", " ")
    lines = [line.strip() for line in after.splitlines()]
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def run_proposed_command(command: list[str], typed: str = "") -> str:
    """Run a proposed command, with text typed into it."""
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, check=True, timeout=DEMO_TIMEOUT
    ).stdout
