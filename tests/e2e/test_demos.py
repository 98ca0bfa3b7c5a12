"""The demos of the other systems: what each shows, and that it ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.demo_process import DEMO_TIMEOUT, assert_plain_screen, normalize_screen, run_demo

REPLIES = 3
"""What a narrator says in the story."""


def test_the_demo_of_questions_shows_what_was_meant_and_who_answered(tmp_path: Path) -> None:
    with run_demo("araquem", "--exit", "--data-dir", str(tmp_path / "data")) as process:
        screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
    assert process.returncode == 0, screen
    text = normalize_screen(screen)
    assert "you What does it own? reply LOGT11 is Turnlog Warehouses, which owns" in text
    assert "you Sing me a song. reply (nothing: unroutable)" in text
    for line in ("· ticker LOGT11", "the resolver: rate_limited", "in turn 3"):
        assert line in text
    assert "verified · 1 session, 32 events, 3 prompts" in screen
    assert_plain_screen(screen, tmp_path / "data")


def test_the_demo_plays_a_story_and_says_what_was_cut_to_fit() -> None:
    with run_demo("game-master", "--exit") as process:
        screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
    assert process.returncode == 0, screen
    assert "Her eyes go to the sea." in normalize_screen(screen)
    assert "the prompt  trim        input" in screen
    assert "the prompt  lower_tier  npc" in screen
    assert "segment 1, version 2" in screen
    assert "every prompt reproduced byte for byte, both ways" in screen


def test_the_demo_of_agents_takes_tools_and_says_what_each_contributor_cost() -> None:
    with run_demo("uderia", "--exit") as process:
        screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
    assert process.returncode == 0, screen
    text = normalize_screen(screen)
    assert "was it the wind? reply 153 of yesterday's 1,000 sailings" in text
    for line in (
        "plan-made turn 2 in 4 steps",
        "harbour_departures answered · 70,506",
        "harbour_delay_report answered",
        "turn 3 step 1 “Take the count by ship.” · known from event",
        "history absent not for this phase turn 1",
        "carried ▌ Summary from focus phase: Look at the wind of yesterday first.",
    ):
        assert line.replace("▌ ", "") in text
    assert "9 by reference and 9 by assembly of 9" in screen


def test_a_demo_asks_a_real_model_where_there_is_one() -> None:
    server = [
        sys.executable,
        "-m",
        "tests.support.servers.openai_server",
        "--reply",
        "I am on the wire.",
    ]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        address = model.stdout.readline().split()[-1]
        variables = {"OPENAI_API_BASE": address, "OPENAI_API_KEY": "none"}
        with run_demo("game-master", "--exit", "--model", "openai/any", **variables) as process:
            screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
        model.kill()
    assert process.returncode == 0, screen
    assert "· openai/any" in screen
    assert screen.count("I am on the wire.") >= REPLIES
