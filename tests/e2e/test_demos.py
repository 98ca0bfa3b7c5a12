"""The demos of the other systems: what each shows, and that it ends by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.demo_process import DEMO_TIMEOUT, assert_plain_screen, normalize_screen, run_demo

pytestmark = pytest.mark.slow("a demo is played to its end")

REPLIES = 3
"""What a narrator says in the story."""


def test_araquem_demo_shows_resolved_references_and_sources_of_answers(tmp_path: Path) -> None:
    with run_demo("araquem", "--exit", "--data-dir", str(tmp_path / "data")) as process:
        screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
    assert process.returncode == 0, screen
    text = normalize_screen(screen)
    assert "you What does it own? reply LOGT11 is Turnlog Warehouses, which owns" in text
    assert "you Sing me a song. reply (nothing: unroutable)" in text
    for line in ("· ticker LOGT11", "the resolver: rate_limited", "in turn 3"):
        assert line in text
    assert "verified · 1 session, 25 events, 3 prompts" in screen
    assert_plain_screen(screen, tmp_path / "data")


def test_game_master_demo_plays_a_story_and_lists_what_was_trimmed() -> None:
    with run_demo("game-master", "--exit") as process:
        screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
    assert process.returncode == 0, screen
    assert "Her eyes go to the sea." in normalize_screen(screen)
    assert "the prompt  trim        input" in screen
    assert "the prompt  lower_tier  npc" in screen
    assert "segment 1, version 2" in screen
    assert "every prompt reproduced byte for byte, both ways" in screen


def test_uderia_demo_runs_tools_and_shows_the_cost_of_each_component() -> None:
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
    assert "12 by reference and 12 by assembly of 12" in screen
    assert_case_adapted(text)
    assert_child_requests(text)


def assert_case_adapted(text: str) -> None:
    for line in (
        "✓ champion 5 entries: 5 added",
        "✓ knowledge 4 entries: 4 added",
        "champion/late-sailings case 0.",
        "reply 76 of yesterday's 1,000 sailings left more than 30 minutes late",
        "knowledge-retrieved turn 4 · cases in champion · 5 candidates",
        "tools of tool_enabled, by name",
        "champion/late-sailings revision 1, score 0.",
    ):
        assert line in text, line
    assert re.search(r"adapt cases 0\.\d+ > 0\.85", text)
    assert re.search(r"when confident cases: event \d+ knowledge-retrieved", text)


def assert_child_requests(text: str) -> None:
    asked = text.partition("Asking two colleagues at once")[2].partition("What the log holds")[0]
    names = re.findall(r"child-(?:requested|settled)", asked)
    assert names == ["child-requested"] * 2 + ["child-settled"] * 2, "asked before either answered"
    assert "reply Yesterday was one: north-west 8" in asked
    refused = asked.partition("A quota that is used up")[2]
    assert "error quota-exceeded" in refused
    resets = r"the limit resets at \d{4}-\d\d-\d\dT00:00:00Z"
    assert re.search(f"nothing is left of 1 request per day: 1 used; {resets}", refused)
    assert "2 child sessions with 4 prompts" in text


def test_demo_calls_a_real_model_if_one_is_configured() -> None:
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
