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


def test_why_shows_every_layer_with_its_sources(
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


def test_why_as_json_returns_the_exact_prompt_and_its_digest(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    explanation = run_why(turnlog, tutored, 3)
    prompt = turnlog(
        "prompt", tutored.session, explanation["call"], "-o", "json", *tutored.here
    ).json
    assert explanation["messages"] == prompt["messages"]
    assert (explanation["digest"], explanation["verified"]) == (prompt["digest"], True)


def test_why_shows_the_redaction_rule_and_the_calls_that_mention_it(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("why", tutored.session, "2", *tutored.here)
    assert "✗ withheld by contact-details: it matches a pattern" in ran.out
    assert "(The Trickster thinks better of it.)" in ran.out
    assert "call 3.1 was told of it by redaction_note" in ran.out
    assert WITHHELD not in ran.out + str(run_why(turnlog, tutored, 2))


@pytest.mark.slow("commands run against a service of their own")
def test_redaction_note_is_included_in_the_next_call_only(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    noted = {turn: NOTE in str(run_why(turnlog, tutored, turn)["messages"]) for turn in range(1, 6)}
    assert noted == {1: False, 2: False, 3: True, 4: False, 5: False}


def test_why_lists_the_effects_of_a_turn(turnlog: RunCommand, tutored: RecordedSession) -> None:
    explanation = run_why(turnlog, tutored, 4)
    assert [each["what"] for each in explanation["consequences"]] == [
        'it asked for transition_phase {"signal": "understood"}',
        "transition_phase was accepted",
        "talk → debrief by understood",
        "turn 5 started by itself in phase debrief",
    ]
    assert (explanation["standing"]["phase"], explanation["standing"]["exchanges"]) == ("talk", 3)


def test_why_of_an_automatic_turn_shows_the_event_that_started_it(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    explanation = run_why(turnlog, tutored, 5)
    assert explanation["said"] is None
    assert explanation["started"]["event"] == "phase-entered"


def test_why_accepts_a_call_id(turnlog: RunCommand, tutored: RecordedSession) -> None:
    explanation = turnlog("why", tutored.session, "4.1", "-o", "json", *tutored.here).json
    assert (explanation["turn"], explanation["call"]) == (4, "4.1")
    note = map_by_layer(explanation)["redaction_note"]
    assert [each["event"] for each in note["because"]] == ["context-assembled"]
    (run,) = [each for each in explanation["parts"] if each["part"]["layer"] == "history"]
    assert [(each["first"], each["rule"]) for each in run["removed"]] == [(2, "redacted")]


def test_diff_lists_changes_between_two_calls_with_their_events(
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


def test_diff_across_phases_names_the_phase_transition_event(
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


def test_diff_with_a_missing_call_is_not_found(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("diff", tutored.session, "3.1", "9.1", *tutored.here)
    assert ran.code == 3
    assert "there is no call '9.1'" in ran.err


@pytest.mark.parametrize("turn", ["6", "99"])
def test_why_of_a_missing_turn_is_not_found(
    turnlog: RunCommand, tutored: RecordedSession, turn: str
) -> None:
    ran = turnlog("why", tutored.session, turn, *tutored.here)
    assert ran.code == 3
    assert f"there is no turn {turn}" in ran.err


def test_history_marks_an_automatic_turn_as_started_by_itself(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("history", tutored.session, *tutored.here)
    assert "you ▌ (nothing: it started by itself" in ran.out.partition("turn 5")[2]


def test_withheld_command_reads_the_redacted_text_from_the_log(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
    ran = turnlog("withheld", tutored.session, "2", *tutored.here)
    assert ran.code == 0
    assert WITHHELD in ran.out
    assert "by contact-details: it matches a pattern" in ran.out
    log = json.loads((tutored.up.data_dir / "ready.json").read_bytes())["nats"]
    words = ("withheld", tutored.session, "2", "--nats", log, "-o", "json")
    # It is sealed: the keyring is in the data directory.
    assert "set TURNLOG_KEYRING" in turnlog(*words).err
    answer = turnlog(*words, *tutored.here).json
    assert answer["text"].endswith(f"Write to her at {WITHHELD} and say that I sent you.")
    assert (answer["sequence"], answer["rule"]) == (14, "contact-details")


@pytest.mark.slow("commands run against a service of their own")
def test_withheld_command_works_without_a_running_service(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    with (
        run_blocking_turnlog_up(tmp_path / "data", "--model", "scripted/trickster") as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        session = run_lesson(client)
    target = ("--data-dir", str(tmp_path / "data"))
    assert WITHHELD in turnlog("withheld", session, "2", *target).out
    assert "turns 1 to 2" in turnlog("why", session, "3", *target).out


def test_other_commands_do_not_show_a_withheld_text(
    turnlog: RunCommand, tutored: RecordedSession
) -> None:
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
def test_withheld_command_reports_a_turn_without_redaction_or_a_missing_session(
    turnlog: RunCommand, tutored: RecordedSession, session: str | None, turn: str, says: str
) -> None:
    ran = turnlog("withheld", session or tutored.session, turn, *tutored.here)
    assert ran.code == 3
    assert says in ran.err


def test_help_of_withheld_names_the_required_access(turnlog: RunCommand) -> None:
    assert "needs access to the data directory" in turnlog("withheld", "--help").out
