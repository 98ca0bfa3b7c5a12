"""The demos that stay up: what they show, and that what they propose works."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e.demo_process import (
    DEMO_TIMEOUT,
    assert_plain_screen,
    list_proposed_commands,
    normalize_screen,
    read_until,
    run_demo,
    run_proposed_command,
)
from tests.support.processes.forked_program import get_forked_program

pytestmark = pytest.mark.slow("a demo is played to its end")


def test_trickster_demo_plays_and_explains_a_lesson_and_its_commands_work(
    tmp_path: Path,
) -> None:
    with run_demo("--data-dir", str(tmp_path / "data")) as process:
        screen = read_until(process, "Ctrl-C ends everything.")
        assert_trickster_explained(screen)
        chat, why_command, withheld = list_proposed_commands(screen)
        answered = normalize_screen(
            run_proposed_command(chat, "What did I win?\nWhy me?\nThat is a trick, no thanks.\n")
        )
        assert "the list closes when the clock strikes." in answered
        assert answered.endswith("say no to the first small thing."), "the debrief came by itself"
        assert "started  by itself" in run_proposed_command(why_command)
        assert "prof.foxglove@truth-now.example" in run_proposed_command(withheld)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEMO_TIMEOUT) == 0
    assert_plain_screen(screen, tmp_path / "data")


def assert_trickster_explained(screen: str) -> None:
    text = normalize_screen(screen)
    assert "choose share, without reading you What is that headline about? reply You will" in text
    assert "one of the busiest there are! withheld (The Trickster thinks better of it.)" in text
    assert "phase debrief begins reply No more play: let me show you my hand." in text
    assert "prof.foxglove" not in screen, "it was never shown, and stands in no record"
    for name in ("choice-recorded", "reply-redacted", "tool-called", "debrief → end · next"):
        assert name in screen
    explanation = screen.partition("why turn 3 was answered so")[2]
    assert (
        "redaction_note ▌ Your previous response was withheld by the safety check." in explanation
    )
    assert "when reply_redacted: event 14 reply-redacted" in explanation
    assert "by assembly   byte for byte the recorded one" in explanation
    assert "verified · 1 session, 31 events, 5 prompts" in screen


def test_assistant_demo_plays_a_conversation_stays_up_and_its_commands_work(
    tmp_path: Path,
) -> None:
    with run_demo("assistant", "--data-dir", str(tmp_path / "data")) as process:
        screen = read_until(process, "Ctrl-C ends everything.")
        begins = "you Hello! Who am I talking to? reply Hello! My words come from a script;"
        assert begins in normalize_screen(screen)
        for name in ("session-opened", "prompts-snapshotted", "context-assembled"):
            assert name in screen
        assert "system_prompt" in screen
        assert "by assembly   byte for byte the recorded one" in screen
        assert "verified · 1 session, 14 events, 3 prompts" in screen
        page = re.search(r"http://127\.0\.0\.1:\d+", screen)
        assert page is not None
        assert httpx.get(f"{page[0]}/readyz").is_success
        commands = list_proposed_commands(screen)
        assert [command[0] for command in commands] == [
            "curl",
            str(get_forked_program()),
            str(get_forked_program()),
        ]
        chat, prompt = commands[1:]
        assert "reply" in run_proposed_command(chat, "Thank you.\n")
        assert "prompt of call 2.1" in run_proposed_command(prompt)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEMO_TIMEOUT) == 0
    assert_plain_screen(screen, tmp_path / "data")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{page[0]}/healthz")
