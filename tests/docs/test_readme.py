"""The README against reality: its screen is the demo's, its model a real server's."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT, list_blocks
from tests.docs.doc_shell import BIN, DEFAULT_ADDRESS, DocShell, run_service
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer

README = ROOT / "README.md"


def find_console_block(word: str) -> str:
    """Return the reading block that contains a word."""
    reading = [each.code for each in list_blocks(README) if each.language == "console"]
    (found,) = [code for code in reading if word in code]
    return found


def normalize_screen(screen: str) -> list[str]:
    """Return a screen's lines without what differs between runs: no figure of a prompt does."""
    for pattern, other in (
        (r"sha256:\w+", "digest"),
        (r"(attempt 1 · ).*", r"\1worker"),
        (r"\d\d:\d\d:\d\d", "time"),
        (r"\d+ ms", "# ms"),
    ):
        screen = re.sub(pattern, other, screen)
    return [" ".join(line.split()) for line in screen.splitlines() if line.strip()]


@pytest.mark.slow("the code of a page runs")
def test_screen_in_the_readme_matches_output_of_the_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(BIN / "turnlog"), "demo", "--exit", "--http", "127.0.0.1:0"],
        cwd=tmp_path,
        env=DocShell(tmp_path, programs=BIN).environment,
        capture_output=True,
        text=True,
        check=True,
    )
    screen = "\n".join(normalize_screen(done.stdout))
    for piece in find_console_block("What the log holds").split("\n...\n"):
        assert "\n".join(normalize_screen(piece)) in screen


def test_commands_of_the_readme_are_makefile_rules() -> None:
    rules = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in find_console_block("make run").splitlines():
        assert line.split()[1] in rules


def test_quick_start_has_at_most_twelve_lines() -> None:
    (block,) = [each.code for each in list_blocks(README) if each.language == "sh"]
    assert len(block.splitlines()) <= 12


@pytest.mark.slow("the code of a page runs")
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash, curl")
async def test_own_model_receives_the_prompts_that_the_log_reads_back(tmp_path: Path) -> None:
    export, command = find_console_block("OPENAI_API_BASE").splitlines()
    setting = export.removeprefix("export ").partition("=")[0]
    async with OpenAIServer(ModelAnswer(tokens=("Good ", "day."))) as model:
        exported = {setting: model.url}
        printed = await asyncio.to_thread(
            run_readme_conversation, tmp_path, command.split(), exported
        )
        received = [exchange.body["messages"] for exchange in model.exchanges]
    *prompts, history = map(json.loads, printed[1:])
    assert received == [prompt["messages"] for prompt in prompts]
    assert [turn["reply"] for turn in history["turns"]] == ["Good day.", "Good day."]


def run_readme_conversation(
    folder: Path, command: list[str], exported: Mapping[str, str]
) -> list[str]:
    """Start a service as the README says, send its twelve lines, and read what is recorded."""
    lines = [each.code for each in list_blocks(README) if each.language == "sh"]
    first = f"curl {DEFAULT_ADDRESS}/v1/sessions/first"
    looked = [f"{first}/calls/1.1/prompt", f"{first}/calls/2.1/prompt", f"{first}/history"]
    with run_service(DocShell(folder, exported=exported, programs=BIN), command) as shell:
        return shell.run_blocks([*lines, *looked])
