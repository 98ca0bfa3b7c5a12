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
REPLIES = 3
"""What a narrator says in the story."""
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


@contextmanager
def demo(*options: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """Play a demo as a process of its own, on any free port."""
    command = [str(TURNLOG), "demo", *options, "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=OFFLINE | environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_lesson_is_played_and_explained_and_can_be_gone_on_with_and_audited(
    tmp_path: Path,
) -> None:
    with demo("--data-dir", str(tmp_path / "data")) as process:
        shown = until(process, "Ctrl-C ends everything.")
        says_why_the_trickster_spoke_so(shown)
        chat, why, withheld = proposed(shown)
        answered = evened(ran(chat, "What did I win?\nWhy me?\nThat is a trick, no thanks.\n"))
        assert "the list closes when the clock strikes." in answered
        assert answered.endswith("say no to the first small thing."), "the debrief came by itself"
        assert "started  by itself" in ran(why)
        assert "prof.foxglove@truth-now.example" in ran(withheld)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS) == 0
    plain_and_well(shown, tmp_path / "data")


def says_why_the_trickster_spoke_so(shown: str) -> None:
    said = evened(shown)
    assert "choose share, without reading you What is that headline about? reply You will" in said
    assert "one of the busiest there are! withheld (The Trickster thinks better of it.)" in said
    assert "phase debrief begins reply No more play: let me show you my hand." in said
    assert "prof.foxglove" not in shown, "it was never shown, and stands in no record"
    for name in ("choice-recorded", "reply-redacted", "tool-called", "debrief → end · next"):
        assert name in shown
    why = shown.partition("why turn 3 was answered so")[2]
    assert "redaction_note ▌ Your previous response was withheld by the safety check." in why
    assert "when reply_redacted: event 17 reply-redacted" in why
    assert "by assembly   byte for byte the recorded one" in why
    assert "verified · 1 session, 39 events, 5 prompts" in shown


def test_the_demo_of_questions_shows_what_was_meant_and_who_answered(tmp_path: Path) -> None:
    with demo("araquem", "--exit", "--data-dir", str(tmp_path / "data")) as process:
        shown, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0, shown
    said = evened(shown)
    assert "you What does it own? reply LOGT11 is Turnlog Warehouses, which owns" in said
    assert "you Sing me a song. reply (nothing: unroutable)" in said
    for line in ("· ticker LOGT11", "the resolver: rate_limited", "in turn 3"):
        assert line in said
    assert "verified · 1 session, 32 events, 3 prompts" in shown
    plain_and_well(shown, tmp_path / "data")


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


def test_a_demo_plays_a_conversation_and_stays_up_and_what_it_proposes_works(
    tmp_path: Path,
) -> None:
    with demo("assistant", "--data-dir", str(tmp_path / "data")) as process:
        shown = until(process, "Ctrl-C ends everything.")
        begins = "you Hello! Who am I talking to? reply Hello! My words come from a script;"
        assert begins in evened(shown)
        for name in ("session-opened", "prompts-snapshotted", "context-assembled"):
            assert name in shown
        assert "system_prompt" in shown
        assert "by assembly   byte for byte the recorded one" in shown
        assert "verified · 1 session, 20 events, 3 prompts" in shown
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
    plain_and_well(shown, tmp_path / "data")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{page[0]}/healthz")


def test_the_demo_plays_a_story_and_says_what_was_cut_to_fit() -> None:
    with demo("game-master", "--exit") as process:
        shown, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0, shown
    assert "Her eyes go to the sea." in evened(shown)
    assert "the prompt  trim        input" in shown
    assert "the prompt  lower_tier  npc" in shown
    assert "segment 1, version 2" in shown
    assert "each prompt comes out byte for byte, both ways" in shown


def test_the_demo_of_agents_takes_tools_and_says_what_each_contributor_cost() -> None:
    with demo("uderia", "--exit") as process:
        shown, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0, shown
    said = evened(shown)
    assert "was it the wind? reply 153 of yesterday's 1,000 sailings" in said
    for line in (
        "plan-made turn 2 in 3 steps",
        "characters, in",
        "turn 3 step 1 “Take the count by ship.” · known from event",
        "history absent not for this phase turn 1",
        "carried ▌ Summary from focus phase: Look at the wind of yesterday first.",
    ):
        assert line.replace("▌ ", "") in said
    assert "8 by reference and 8 by assembly of 8" in shown


def test_a_demo_asks_a_real_model_where_there_is_one() -> None:
    server = [sys.executable, "-m", "tests.parts.openai_server", "--reply", "I am on the wire."]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        address = model.stdout.readline().split()[-1]
        given = {"OPENAI_API_BASE": address, "OPENAI_API_KEY": "none"}
        with demo("game-master", "--exit", "--model", "openai/any", **given) as process:
            shown, _ = process.communicate(timeout=HANGS)
        model.kill()
    assert process.returncode == 0, shown
    assert "· openai/any" in shown
    assert shown.count("I am on the wire.") >= REPLIES


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
