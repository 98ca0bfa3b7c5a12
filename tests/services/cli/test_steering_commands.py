"""Commands that end a turn or a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import BlockingTurnlogUp, run_blocking_turnlog_up
from turnlog.services.api.published_errors.error_code import ExitCode

ENDLESS_SCRIPT = "replies: [{match: think, pace: 100, text: Never.}, {pace: 0, text: Done.}]"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingTurnlogUp]:
    """A service whose model never ends its answer to one text."""
    folder = tmp_path_factory.mktemp("steering")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "endless.yaml").write_text(ENDLESS_SCRIPT)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TURNLOG_SCRIPTS", str(folder / "scripts"))
        with run_blocking_turnlog_up(folder / "data", "--model", "scripted/endless") as up:
            yield up


@pytest.fixture
def client(up: BlockingTurnlogUp) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=up.http, timeout=100) as client:
        yield client


def open_session(client: httpx.Client) -> str:
    opened = client.post("/v1/sessions", json={"blueprint": "assistant"}).raise_for_status()
    return str(opened.json()["session"])


def submit_turn(client: httpx.Client, session: str, text: str) -> None:
    client.post(f"/v1/sessions/{session}/turns", json={"text": text}).raise_for_status()


def list_statuses(client: httpx.Client, session: str) -> list[str]:
    history: dict[str, Any] = client.get(f"/v1/sessions/{session}/history").json()
    return [turn["status"] for turn in history["turns"]]


def test_cancel_ends_the_running_turn_or_a_queued_one(
    turnlog: RunCommand, up: BlockingTurnlogUp, client: httpx.Client
) -> None:
    session, here = open_session(client), ("--data-dir", up.data_dir)
    for text in ("think", "think again", "and again, think"):
        submit_turn(client, session, text)
    queued = turnlog("cancel", session, "3", *here)
    assert queued.out.startswith("✓ turn 3 is cancelled  event ")
    running = turnlog("cancel", session, *here)
    assert running.out.startswith("✓ turn 1 is cancelled  event ")
    answer = turnlog("cancel", session, "2", "-o", "json", *here).json
    assert (answer["session"], answer["turn"]) == (session, 2)
    assert list_statuses(client, session) == ["cancelled"] * 3
    assert "nothing-to-cancel" in turnlog("cancel", session, *here).err


def test_close_ends_a_session_and_records_the_reason(
    turnlog: RunCommand, up: BlockingTurnlogUp, client: httpx.Client
) -> None:
    session, here = open_session(client), ("--data-dir", up.data_dir)
    closed = turnlog("close", session, "--reason", "solved", *here)
    assert closed.out.startswith(f"✓ {session} is closed  event ")
    ndjson = {"Accept": "application/x-ndjson"}
    recorded = client.get(f"/v1/sessions/{session}/events", headers=ndjson).text
    assert json.loads(recorded.splitlines()[-1])["data"]["reason"] == "solved"
    refused = client.post(f"/v1/sessions/{session}/turns", json={"text": "One more?"})
    assert refused.json()["code"] == "session-closed"
    assert turnlog("close", "unknown", *here).code == 3


def test_feedback_judges_a_turn_or_one_entry_of_what_it_retrieved(
    turnlog: RunCommand, up: BlockingTurnlogUp, client: httpx.Client
) -> None:
    session, here = open_session(client), ("--data-dir", up.data_dir)
    client.post(f"/v1/sessions/{session}/turns?wait=60", json={"text": "Hi"}).raise_for_status()
    judged = turnlog("feedback", session, "1", "up", *here)
    assert judged.out.startswith("✓ turn 1 is voted up  event ")
    shown = turnlog("history", session, *here)
    assert "voted up" in shown.out
    refused = turnlog("feedback", session, "1", "down", "--entry", "manuals/harbour", *here)
    assert refused.code == ExitCode.ERROR
    assert "turn 1 retrieved nothing" in refused.err
    for written in ("manuals", "/harbour", "manuals/"):
        wrong = turnlog("feedback", session, "1", "down", "--entry", written, *here)
        assert (wrong.code, "write COLLECTION/ENTRY" in wrong.err) == (ExitCode.USAGE, True)


def test_session_is_shared_shown_and_shared_no_more(
    turnlog: RunCommand, client: httpx.Client, up: BlockingTurnlogUp
) -> None:
    session, here = open_session(client), ("--data-dir", str(up.data_dir))
    assert "reads it" in turnlog("share", session, "bo", *here).out
    shared = turnlog("share", session, "bo/team", "--submit", "-o", "json", *here)
    assert shared.json["sequence"] == 3
    shown = turnlog("show", session, *here).out
    assert "bo (read), bo/team (submit)" in shown
    ended = turnlog("unshare", session, "bo", *here)
    assert (ended.code, "not shared with bo" in ended.out) == (0, True)
    assert "bo (read)" not in turnlog("show", session, *here).out
    refused = turnlog("share", session, "b o\n", *here)
    assert (refused.code, "user" in refused.err) == (ExitCode.USAGE, True)
