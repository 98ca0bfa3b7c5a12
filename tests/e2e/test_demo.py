from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.parts.turnlog_up import TURNLOG

HANGS = 120.0
"""Seconds: a bound on hanging, not on speed."""
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


@contextmanager
def demo(*options: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """Play the demo as a process of its own, on any free port."""
    command = [str(TURNLOG), "demo", "--http", "127.0.0.1:0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=OFFLINE | environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_demo_plays_a_conversation_and_proves_what_the_log_holds_of_it(tmp_path: Path) -> None:
    with demo("--exit", "--data-dir", str(tmp_path / "data")) as process:
        shown, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0, shown
    said = " ".join(re.sub("[▌ ]+", " ", shown).split())
    assert "you Hello! Who am I talking to? reply Hello! My words come from a script;" in said
    for name in ("session-opened", "prompts-snapshotted", "context-assembled", "turn-completed"):
        assert name in shown
    assert "prompt of call 3.1" in shown
    assert "system_prompt" in shown
    assert "█" in shown
    assert "✓ read back from the log, byte for byte" in shown
    assert "verified · 1 session, 20 events, 3 prompts" in shown
    assert "✗" not in shown
    assert "\x1b" not in shown, "nobody watches, so nothing is coloured"
    assert "Traceback" not in (tmp_path / "data" / "turnlog.log").read_text()


def test_the_demo_stays_up_and_what_it_proposes_works() -> None:
    with demo() as process:
        shown = until(process, "Ctrl-C ends everything.")
        page = re.search(r"http://127\.0\.0\.1:\d+", shown)
        assert page is not None
        assert httpx.get(f"{page[0]}/readyz").is_success
        commands = proposed(shown)
        assert [command[0] for command in commands] == ["curl", str(TURNLOG), str(TURNLOG)]
        chat, prompt = commands[1:]
        assert "reply" in ran(chat, "Thank you.\n")
        assert "prompt of call 2.1" in ran(prompt)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{page[0]}/healthz")


def test_the_demo_asks_a_real_model_where_there_is_one() -> None:
    server = [sys.executable, "-m", "tests.parts.openai_server", "--reply", "I am on the wire."]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        address = model.stdout.readline().split()[-1]
        given = {"OPENAI_API_BASE": address, "OPENAI_API_KEY": "none"}
        with demo("--exit", "--model", "openai/any", **given) as process:
            shown, _ = process.communicate(timeout=HANGS)
        model.kill()
    assert process.returncode == 0, shown
    assert "· openai/any" in shown
    assert shown.count("I am on the wire.") >= 3


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
