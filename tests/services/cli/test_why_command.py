"""The `why` command on a tutor session with a choice, a redaction and a debrief."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.cli.conftest import RecordedSession, RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up

SAID = (
    "What is that headline about?",
    "Who wrote it? I could ask them.",
    "Then why should I believe it?",
    "You rush me, and I cannot ask your professor. I would look for a second source.",
)

NOTE = "Your previous response was withheld by the safety check."

WITHHELD = "prof.foxglove@truth-now.example"


@pytest.fixture(scope="module")
def tutored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedSession]:
    """A session whose second reply is withheld and whose fourth turn ends the dialogue."""
    place = tmp_path_factory.mktemp("tutored") / "data"
    with (
        run_blocking_turnlog_up(place, "--model", "scripted/trickster") as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        yield RecordedSession(up, run_lesson(client))


def run_lesson(client: httpx.Client) -> str:
    """Run the tutor session to its end."""
    attributes = {"task": "share-before-reading", "locale": "en"}
    body = {"blueprint": "trickster", "attributes": attributes}
    session = str(client.post("/v1/sessions", json=body).raise_for_status().json()["session"])
    session_path = f"/v1/sessions/{session}"
    client.post(f"{session_path}/choices", json={"choice": "share"}).raise_for_status()
    for text in SAID:
        client.post(f"{session_path}/turns?wait=90", json={"text": text}).raise_for_status()
    client.get(
        f"{session_path}/turns/5/stream", headers={"Accept": "text/event-stream"}
    ).raise_for_status()
    return session


def run_why(turnlog: RunCommand, tutored: RecordedSession, turn: int) -> Any:  # noqa: ANN401 - JSON
    return turnlog("why", tutored.session, str(turn), "-o", "json", *tutored.here).json


def map_by_layer(explanation: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {each["part"]["layer"]: each for each in explanation["parts"]}


def test_why_shows_every_layer_and_under_it_where_it_came_from(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("why", tutored.session, "3", *tutored.here)
    assert ran.code == 0
    layers = ("persona", "task", "safety_config", "student_path", "redaction_note", "history")
    places = [ran.out.index(f"{layer} ▌") for layer in layers]
    assert places == sorted(places)
    unwrapped = " ".join(ran.out.split())
    for known in (
        SAID[2],
        "default/persona.md",
        "blob sha256:",
        "session.phase of event 4",
        "when reply_redacted: event 14 reply-redacted",
        "turns 1 to 2",
        "said in event 15 turn-submitted",
        "signal: understood, partial, max_reached",
        "provider nothing to say · absent",
        "byte for byte the recorded one",
    ):
        assert known in unwrapped


def test_why_names_the_events_behind_each_part(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    layers = map_by_layer(run_why(turnlog, tutored, 3))
    (pinned,) = layers["persona"]["by"]
    assert (pinned["sequence"], pinned["event"]) == (7, "prompts-snapshotted")
    (chosen,) = layers["student_path"]["filled"]
    assert [cause["event"] for cause in chosen["by"]] == ["choice-recorded"]
    assert layers["input"]["by"][0]["actor"] == "client"
    assert [each["event"] for each in layers["redaction_note"]["because"]] == ["reply-redacted"]


def test_why_gives_a_program_the_very_prompt_and_its_proof(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    explanation = run_why(turnlog, tutored, 3)
    prompt = turnlog(
        "prompt", tutored.session, explanation["call"], "-o", "json", *tutored.here
    ).json
    assert explanation["messages"] == prompt["messages"]
    assert (explanation["digest"], explanation["verified"]) == (prompt["digest"], True)


def test_why_says_by_which_rule_a_reply_was_withheld_and_who_was_told(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("why", tutored.session, "2", *tutored.here)
    assert "✗ withheld by contact-details: it matches a pattern" in ran.out
    assert "(The Trickster thinks better of it.)" in ran.out
    assert "call 3.1 was told of it by redaction_note" in ran.out
    assert WITHHELD not in ran.out + str(run_why(turnlog, tutored, 2))


@pytest.mark.slow("commands run against a service of their own")
def test_the_note_stands_in_the_next_call_and_in_no_other(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    noted = {turn: NOTE in str(run_why(turnlog, tutored, turn)["messages"]) for turn in range(1, 6)}
    assert noted == {1: False, 2: False, 3: True, 4: False, 5: False}


def test_why_says_what_a_turn_led_to(turnlog: RunCommand, tutored: RecordedSession) -> None:
    explanation = run_why(turnlog, tutored, 4)
    assert [each["what"] for each in explanation["consequences"]] == [
        'it asked for transition_phase {"signal": "understood"}',
        "transition_phase was accepted",
        "talk → debrief by understood",
        "turn 5 started by itself in phase debrief",
    ]
    assert (explanation["standing"]["phase"], explanation["standing"]["exchanges"]) == ("talk", 3)


def test_why_of_a_turn_nobody_asked_for_says_what_started_it(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    explanation = run_why(turnlog, tutored, 5)
    assert explanation["said"] is None
    assert explanation["started"]["event"] == "phase-entered"


def test_why_explains_a_call_by_its_id_as_well(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    explanation = turnlog("why", tutored.session, "4.1", "-o", "json", *tutored.here).json
    assert (explanation["turn"], explanation["call"]) == (4, "4.1")
    note = map_by_layer(explanation)["redaction_note"]
    assert [each["event"] for each in note["because"]] == ["context-assembled"]
    (run,) = [each for each in explanation["parts"] if each["part"]["layer"] == "history"]
    assert [(each["first"], each["rule"]) for each in run["removed"]] == [(2, "redacted")]


def test_diff_says_what_came_and_went_between_two_calls_and_by_which_event(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("diff", tutored.session, "3.1", "4.1", *tutored.here)
    assert ran.code == 0
    for known in (
        "removed · the blueprint · by when reply_redacted",
        "already described: event 17 context-assembled",
        "added · turn 3",
        "answered: event 18 turn-completed",
        "the turn's message: event 19 turn-submitted",
        "1 message, 2,424 tokens · up to redaction_note",
    ):
        assert known in ran.out


def test_diff_of_a_debrief_with_the_dialogue_names_the_phase_that_was_entered(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    diff = turnlog("diff", tutored.session, "4.1", "5.1", "-o", "json", *tutored.here).json
    reasons = {
        each["layer"]: [(one["what"], [by["event"] for by in one["by"]]) for one in each["because"]]
        for each in diff["changes"]
    }
    assert reasons["reveal"] == [("kind", ["phase-entered"])]
    assert reasons["transition_phase"] == [("phase", ["phase-entered"])]
    assert reasons["history"] == [("answered", ["turn-completed"])]


def test_diff_with_a_call_that_was_never_made_says_so(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("diff", tutored.session, "3.1", "9.1", *tutored.here)
    assert ran.code == 3
    assert "there is no call '9.1'" in ran.err


@pytest.mark.parametrize("turn", ["6", "99"])
def test_why_of_a_turn_that_is_not_there_says_so(
    turnlog: RunCommand, tutored: RecordedSession, turn: str
) -> None:
    ran = turnlog("why", tutored.session, turn, *tutored.here)
    assert ran.code == 3
    assert f"there is no turn {turn}" in ran.err


def test_history_says_of_a_debrief_that_nobody_asked_for_it(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("history", tutored.session, *tutored.here)
    assert "you ▌ (nothing: it started by itself" in ran.out.partition("turn 5")[2]


def test_an_auditor_reads_the_withheld_text_from_the_log_itself(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("withheld", tutored.session, "2", *tutored.here)
    assert ran.code == 0
    assert WITHHELD in ran.out
    assert "by contact-details: it matches a pattern" in ran.out
    log = json.loads((tutored.up.data_dir / "ready.json").read_bytes())["nats"]
    answer = turnlog("withheld", tutored.session, "2", "--nats", log, "-o", "json").json
    assert answer["text"].endswith(f"Write to her at {WITHHELD} and say that I sent you.")
    assert (answer["sequence"], answer["rule"]) == (14, "contact-details")


@pytest.mark.slow("commands run against a service of their own")
def test_an_auditor_reads_it_where_no_service_runs(turnlog: RunCommand, tmp_path: Path) -> None:
    with (
        run_blocking_turnlog_up(tmp_path / "data", "--model", "scripted/trickster") as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        session = run_lesson(client)
    target = ("--data-dir", str(tmp_path / "data"))
    assert WITHHELD in turnlog("withheld", session, "2", *target).out
    assert "turns 1 to 2" in turnlog("why", session, "3", *target).out


def test_nothing_else_shows_a_withheld_text(turnlog: RunCommand, tutored: RecordedSession) -> None:
    outputs = [
        turnlog(*command, tutored.session, *words, *tutored.here).out
        for command in (("show",), ("history",), ("window",), ("tail", "--no-follow"), ("verify",))
        for words in ((), ("-o", "json"))
    ]
    assert all(SAID[0] in each or "verified" in each for each in outputs)
    assert [each for each in outputs if WITHHELD in each] == []


@pytest.mark.parametrize(
    ("session", "turn", "says"),
    [(None, "3", "nothing was withheld from turn 3"), ("nowhere", "1", "no such session")],
)
def test_where_nothing_was_withheld_it_says_so(
    turnlog: RunCommand, tutored: RecordedSession, session: str | None, turn: str, says: str
) -> None:
    ran = turnlog("withheld", session or tutored.session, turn, *tutored.here)
    assert ran.code == 3
    assert says in ran.err


def test_help_says_who_may_read_a_withheld_text(turnlog: RunCommand) -> None:
    assert "needs access to the data directory" in turnlog("withheld", "--help").out
