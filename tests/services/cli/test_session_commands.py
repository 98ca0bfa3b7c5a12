from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.cli.conftest import (
    SESSION_QUESTIONS,
    CommandResult,
    RecordedSession,
    RunCommand,
    record_session,
)
from tests.services.media.media_samples import SAMPLES, make_png
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.forked_program import get_forked_program
from turnlog.contract.call_payloads import GroupMetrics
from turnlog.events.content import compute_digest
from turnlog.services.cli.views.growth_csv import iterate_cells


def count_sessions(played: RecordedSession) -> str:
    """The sessions of the service in words; other tests of this file open some as well."""
    listed = httpx.get(f"{played.up.http}/v1/sessions", params={"limit": 100}, timeout=100).json()
    count = len(listed["sessions"])
    return "1 session" if count == 1 else f"{count} sessions"


def test_session_list_shows_the_first_message_of_each_session(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("sessions", *played.here)
    assert ran.code == 0
    for known in (played.session, "assistant v1", SESSION_QUESTIONS[0], "redacted", "$0.00"):
        assert known in ran.out


def test_blueprint_show_lists_the_allowed_values(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("blueprint", "show", "game-master", *played.here)
    assert ran.code == 0
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert "required" in lines["attributes.world"]
    assert '"en"' in lines["attributes.locale"]
    assert "a whole number from 1 to 1000000" in lines["inputs.token_budget"]
    assert "true or false" in lines["inputs.first_turn"]
    assert "a list of npc: text matching" in lines["inputs.npcs"]
    words = " ".join(ran.out.split())
    assert "the whole prompt above 8,000 (or inputs.token_budget) tokens: trim input to" in words
    nearest = turnlog("blueprint", "show", "gamemaster", *played.here)
    assert "write `game-master`" in nearest.err


@pytest.mark.slow("commands run against a service of their own")
def test_attribute_option_is_parsed_by_its_declared_type(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    assemble = ("assemble", "uderia", "--text", "Hi", "--profile", "llm_only", "-o", "json")
    charts = turnlog(*assemble, "-a", "charting=true", *played.here)
    assert charts.code == 0, charts.err
    assert turnlog(*assemble, "-a", "instructions=true", *played.here).code == 0
    refused = turnlog(*assemble, "-a", "charting=maybe", *played.here)
    assert refused.code != 0
    assert "attributes.charting" in refused.err


@pytest.mark.slow("commands run against a service of their own")
def test_input_option_is_parsed_by_its_declared_type(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    opened = httpx.post(f"{played.up.http}/v1/sessions", json={"blueprint": "typed"}).json()
    for command in (("window", opened["session"]), ("assemble", "typed")):
        preview = (*command, "--text", "Hi", "-o", "json", *played.here)
        for text in ("5", "true", "null", '{"a": 1}', "Ada"):
            shown = turnlog(*preview, "--input", f"name={text}", "--input", "count=5")
            assert shown.code == 0, shown.err
            assert shown.json["messages"][0]["content"].endswith(text)
        refused = turnlog(*preview, "--input", "count=few")
        told = " ".join(refused.err.split())
        assert "inputs.count" in told
        assert "it is not a whole number from 1 to 9" in told


def test_sessions_can_be_searched_by_message_text(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    found = turnlog("sessions", "-q", "HELLO", "-o", "json", *played.here).json["sessions"]
    missed = turnlog("sessions", "-q", "goodbye", "-o", "json", *played.here).json["sessions"]
    assert [session["session"] for session in found] == [played.session]
    assert missed == []


def test_show_lists_the_turns_and_calls_of_a_session(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("show", played.session, *played.here)
    assert ran.code == 0
    for known in (
        "language=Dutch",
        "3 turns",
        "redacted",
        "3.1",
        "scripted/demo",
        *SESSION_QUESTIONS[:1],
    ):
        assert known in ran.out


def test_history_shows_the_replacement_of_a_redacted_reply_and_not_its_text(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("history", played.session, *played.here)
    assert "reply withheld: asked for" in ran.out
    assert "(This reply was withheld.)" in ran.out
    assert "Everything that happened" not in ran.out
    assert "left out of windows" in ran.out


def test_history_can_be_shown_at_an_earlier_sequence(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("history", played.session, "--at", "2", "-o", "json", *played.here)
    assert [(turn["text"], turn["status"]) for turn in ran.json["turns"]] == [
        (SESSION_QUESTIONS[0], "open")
    ]


def test_growth_shows_tokens_of_each_call_by_component_and_history_growth(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("growth", played.session, *played.here)
    for known in ("1.1", "3.1", "reply", "█", "■ history", "■ system_prompt", "history grows by"):
        assert known in ran.out
    for which in ((), (played.session,)):
        grouped = turnlog("growth", *which, "--group-by", "blueprint", *played.here)
        assert "assistant" in grouped.out
    both = turnlog("growth", "--group-by", "blueprint,kind", "--bucket", "day", *played.here)
    assert ("assistant" in both.out, "reply" in both.out) == (True, True)


def test_growth_as_csv_has_a_row_for_each_call_or_group(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    csv_of = ("-o", "csv", *played.here)
    calls = list(csv.DictReader(StringIO(turnlog("growth", played.session, *csv_of).out)))
    listed = turnlog("growth", played.session, "-o", "json", *played.here).json["calls"]
    assert [(each["call"], int(each["tokens"])) for each in calls] == [
        (each["call"], each["tokens"]) for each in listed
    ]
    assert int(calls[0]["components.history_tokens"]) == listed[0]["components"]["history_tokens"]
    grouped = turnlog("growth", "--group-by", "kind,model", *csv_of)
    rows = list(csv.DictReader(StringIO(grouped.out)))
    assert [(each["key.kind"], int(each["calls"])) for each in rows] == [("reply", len(listed))]


def test_value_that_a_spreadsheet_would_run_is_quoted() -> None:
    group = GroupMetrics.model_validate(
        {
            "key": {"profile": "=1+2", "model": "openai/a"},
            "calls": 1,
            "tokens": 9,
            "components": {},
            "savings_estimate": 0,
            "cut_turns": 0,
            "cost": {"micro_dollars": None},
            "retrieval_hit_rate": None,
        }
    )
    cells = dict(iterate_cells(group))
    assert cells["key.profile"] == "'=1+2"
    assert cells["key.model"] == "openai/a"
    assert (cells["calls"], cells["cost.micro_dollars"]) == (1, "")


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ("kinds", "write `kind`"),
        ("kind,kind", "2 different ones at most"),
        ("kind,model,profile", "2 different ones at most"),
        ("", "use one of: blueprint"),
    ],
)
def test_growth_is_refused_for_groups_that_do_not_exist(
    turnlog: RunCommand, played: RecordedSession, groups: str, problem: str
) -> None:
    ran = turnlog("growth", "--group-by", groups, *played.here)
    assert ran.code == 2
    assert problem in " ".join(ran.err.split())


def test_window_shows_tokens_by_component_and_excluded_turns(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("window", played.session, *played.here)
    assert ran.code == 0
    assert "█" in ran.out
    assert "of 8,000" in ran.out
    left_out = ran.out.partition("left out")[2]
    assert "turn 3" in left_out
    assert "excluded" in left_out


def test_window_previews_a_turn_with_another_budget_and_model(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    head = turnlog("window", played.session, "-o", "json", *played.here).json["sequence"]
    ran = turnlog("window", played.session, "--text", "And what if?", *played.here)
    assert ran.code == 0, ran.err
    assert "And what if?" in ran.out
    assert "for the prompt" in ran.out
    assert "begins as call 3.1 did" in ran.out
    options = ("--text", "And what if?", "--model", "openai/gpt-4o", "--budget", "90")
    tried = turnlog("window", played.session, *options, "-o", "json", *played.here).json
    assert (tried["sequence"], tried["model"]) == (head, "openai/gpt-4o")
    assert tried["manifest"]["tokens"] <= tried["manifest"]["budget"] == 90
    assert tried["cost"]["price"] == "exact"


@pytest.mark.slow("commands run against a service of their own")
def test_window_and_assemble_preview_a_turn_with_attached_files_and_store_none(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    picture, paper = make_png(600_000), tmp_path / "fares.pdf"
    (tmp_path / "heron.png").write_bytes(picture)
    paper.write_bytes(SAMPLES["application/pdf"])
    for command in (("window", played.session), ("assemble", "uderia", "--profile", "llm_only")):
        files = ("--attach", tmp_path / "heron.png", "--attach", paper)
        shown = turnlog(*command, "--text", "Which?", *files, "-o", "json", *played.here)
        assert shown.code == 0, shown.err
        text, *media = shown.json["messages"][-1]["content"]
        assert text["text"].endswith("Which?")
        assert [(each["type"], each["name"]) for each in media] == [
            ("image", "heron.png"),
            ("file", "fares.pdf"),
        ]
        alone = turnlog(*command, "--attach", paper, "-o", "json", *played.here)
        assert alone.code == 0, alone.err
    found = httpx.head(f"{played.up.http}/v1/blobs/{compute_digest(picture)}")
    assert found.status_code == 404


def test_session_list_can_be_filtered_by_profile_phase_and_failure(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    whole = turnlog("sessions", "-o", "json", *played.here).json["sessions"]
    assert played.session in {each["session"] for each in whole}
    for filters in (("--failed",), ("--profile", "another"), ("--phase", "another")):
        filtered = turnlog("sessions", *filters, "-o", "json", *played.here).json["sessions"]
        assert filtered == [], filters


def test_prompt_command_shows_all_text_sources_and_digest(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("prompt", played.session, "2.1", *played.here)
    for known in (
        "Always answer in Dutch.",
        SESSION_QUESTIONS[0],
        SESSION_QUESTIONS[1],
        "persona.md",
        "turn 1",
        "event 7",
    ):
        assert known in ran.out
    assert "by assembly   byte for byte the recorded one" in ran.out
    digest = turnlog("prompt", played.session, "2.1", "-o", "json", *played.here).json["digest"]
    assert digest in ran.out


@pytest.mark.slow("commands run against a service of their own")
def test_turn_number_selects_the_call_that_produced_its_reply(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    for command, turns, calls in (
        ("prompt", ["2"], ["2.1"]),
        ("diff", ["1", "2"], ["1.1", "2.1"]),
    ):
        of_turns = turnlog(command, played.session, *turns, "-o", "json", *played.here)
        of_calls = turnlog(command, played.session, *calls, "-o", "json", *played.here)
        assert (of_turns.code, of_turns.json) == (0, of_calls.json)
    assert turnlog("prompt", played.session, "9", *played.here).code == 3


def test_call_route_given_a_turn_number_returns_the_call_syntax_as_fix(
    played: RecordedSession,
) -> None:
    path = f"/v1/sessions/{played.session}/calls/2/prompt"
    problem = httpx.get(f"{played.up.http}{path}", timeout=100).json()
    assert (problem["code"], problem["fix"]) == (
        "unknown-call",
        "write 2.1 for the first call of turn 2",
    )


def test_service_url_is_read_from_the_environment(
    turnlog: RunCommand, played: RecordedSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert turnlog("show", played.session).code == 3, "nothing runs here"
    monkeypatch.setenv("TURNLOG_URL", played.up.http)
    assert turnlog("show", played.session).code == 0
    assert turnlog("config", "show").code == 0, "it is no unknown variable"
    named = turnlog("show", played.session, "--data-dir", tmp_path / "other")
    assert "unknown-data-dir" in named.err, "a directory that is named counts, not the variable"


def test_tail_prints_one_line_per_event(turnlog: RunCommand, played: RecordedSession) -> None:
    ran = turnlog("tail", played.session, "--no-follow", *played.here)
    lines = ran.out.splitlines()
    assert [int(line.split()[1]) for line in lines] == list(range(1, len(lines) + 1))
    assert f"turn 1 “{SESSION_QUESTIONS[0]}”" in lines[1]
    assert "reply-redacted" in ran.out
    assert "turn-excluded" in lines[-1]


def test_tail_filters_events_by_name_and_sequence(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    types = ("--types", "turn-submitted", "-o", "json")
    ran = turnlog("tail", "--no-follow", "--after", "2", *types, *played.here)
    texts = [json.loads(line)["data"]["text"]["text"] for line in ran.out.splitlines()]
    assert texts == [*SESSION_QUESTIONS[1:]]


def test_replay_shows_what_the_user_saw_in_order(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("replay", played.session, *played.here)
    order = (
        SESSION_QUESTIONS[0],
        "Hello! My words",
        SESSION_QUESTIONS[1],
        "withheld",
        SESSION_QUESTIONS[2],
    )
    places = [ran.out.index(known) for known in order]
    assert places == sorted(places)
    assert "Everything that happened" not in ran.out, "the reply was redacted later"


def test_replay_with_prompts_shows_the_prompt_before_each_reply(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("replay", played.session, "--prompts", *played.here)
    order = (
        SESSION_QUESTIONS[0],
        "shown, in call 1.1",
        "Always answer in Dutch.",
        "Hello! My words",
        SESSION_QUESTIONS[1],
    )
    places = [ran.out.index(known) for known in order]
    assert places == sorted(places)
    assert ran.out.count("the model is shown") == 3


def test_session_can_be_shown_at_an_earlier_sequence(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("show", played.session, "--at", "3", "-o", "json", *played.here)
    assert (ran.json["sequence"], ran.json["calls"]) == (3, [])
    assert [turn["status"] for turn in ran.json["turns"]] == ["open"]


def test_verify_passes_on_an_unaltered_log(turnlog: RunCommand, played: RecordedSession) -> None:
    ran = turnlog("verify", *played.here)
    assert ran.code == 0
    for promise in ("intact", "unwitnessed", "reproduced", "equal"):
        assert f"{promise} · " in ran.out
    assert f"verified · {count_sessions(played)}" in ran.out


def test_signed_checkpoint_is_used_as_witness_by_verify(
    turnlog: RunCommand,
    played: RecordedSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = tmp_path / "checkpoint.json"
    taken = turnlog("checkpoint", kept, "--key", tmp_path / "key.pem", *played.here)
    assert (taken.code, f"signed · {count_sessions(played)}" in taken.out) == (0, True)
    ran = turnlog("verify", "--checkpoint", kept, *played.here)
    assert (ran.code, "witnessed · " in ran.out) == (0, True)
    folder = tmp_path / "kept"
    folder.mkdir()
    empty = turnlog("verify", "--checkpoint", folder, *played.here)
    assert (empty.code, "has no checkpoint" in " ".join(empty.err.split())) == (2, True), empty.err
    (folder / "checkpoint-20260101T000000.000Z.json").write_text("older")
    (folder / "checkpoint-20260102T000000.000Z.json").write_bytes(kept.read_bytes())
    monkeypatch.setenv("TURNLOG_CHECKPOINTS", str(folder))
    ran = turnlog("verify", *played.here)
    assert (ran.code, "witnessed · " in ran.out) == (0, True)
    assert "unwitnessed" not in ran.out
    again = turnlog("checkpoint", kept, "--key", tmp_path / "key.pem", *played.here)
    assert (again.code, "file-exists" in again.err) == (4, True)


@pytest.mark.promise("P17")
def test_checkpoint_continues_another_and_that_is_verified_without_the_log(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    older, newer, nodes, key = (tmp_path / name for name in ("one", "two", "nodes", "key.pem"))
    turnlog("checkpoint", older, "--key", key, *played.here)
    taken = turnlog(
        *("checkpoint", newer, "--after", older, "--consistency", nodes),
        *("--key", key, "--verifier", tmp_path / "verify.py", *played.here),
    )
    assert (taken.code, f"signed · {count_sessions(played)}" in taken.out) == (0, True), taken.err
    signer = taken.out.split()[-1]
    compare = ("verify", "--between", older, newer, "--consistency", nodes)
    ran = turnlog(*compare, "--signer", signer)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "consistent"), ran.out
    assert turnlog(*compare, "--signer", "somebody").code == 5
    swapped = turnlog("verify", "--between", newer, older, "--consistency", nodes)
    assert (swapped.code, swapped.out.splitlines()[-1]) == (5, "NOT CONSISTENT")
    for words in (compare[:4], (*compare, "--all"), (*compare, "--checkpoint", older)):
        assert turnlog(*words).code == 2, words
    again = turnlog("checkpoint", newer, "--after", older, "--key", key, *played.here)
    assert (again.code, "file-exists" in again.err) == (4, True)
    alone = turnlog("checkpoint", tmp_path / "x", "--consistency", nodes, *played.here)
    assert alone.code == 2


@pytest.mark.promise("P17")
def test_call_is_proved_against_a_checkpoint_and_the_proof_is_verified(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    kept, proof = tmp_path / "checkpoint.json", tmp_path / "proof.json"
    turnlog("checkpoint", kept, "--key", tmp_path / "key.pem", *played.here)
    made = turnlog("prove", played.session, "1", proof, "--checkpoint", kept, *played.here)
    assert (made.code, f"proved · call 1.1 of {played.session}" in made.out) == (0, True), made.err
    ran = turnlog("verify", "--proof", proof, "--checkpoint", kept)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "verified"), ran.err
    assert turnlog("verify", "--proof", proof, "--signer", "somebody").code == 5
    assert turnlog("verify", played.session, "--proof", proof).code == 2
    again = turnlog("prove", played.session, "1", proof, "--checkpoint", kept, *played.here)
    assert (again.code, "file-exists" in again.err) == (4, True)


def test_prompt_is_shown_with_both_reproductions(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("prompt", played.session, "1.1", *played.here)
    assert ran.out.count("byte for byte the recorded one") == 2


def test_blueprints_are_listed(turnlog: RunCommand, played: RecordedSession) -> None:
    assert "assistant v1" in turnlog("blueprint", "list", *played.here).out


def test_url_option_overrides_the_data_directory(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    ran = turnlog("sessions", "--url", f"{played.up.http}/", "--data-dir", tmp_path / "none")
    assert played.session in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "nobody"], 3, "unknown-session"),
        (["show", "nobody"], 3, "`turnlog sessions`"),
        (["history", "SESSION", "--at", "999"], 3, "not-there-yet"),
        (["prompt", "SESSION", "9.1"], 3, "unknown-call"),
        (["window", "SESSION", "--call", "rply"], 2, "reply"),
        (["window", "SESSION", "--text", "Hi", "--at", "2"], 2, "--at"),
        (["window", "SESSION", "--attach", "none.png"], 2, "No such file"),
        (["window", "SESSION", "--attach", sys.executable], 1, "no known type"),
        (["window", "SESSION", "--text", "Hi", "--input", "x"], 2, "NAME=VALUE"),
        (["window", "SESSION", "--text", "Hi", "--budget", "1"], 1, "raise the budget"),
        (["tail", "SESSION", "--types", "turn-submited", "--no-follow"], 2, "turn-submitted"),
        (["show", "no.id"], 2, "bad-id"),
    ],
)
def test_failed_command_exits_with_code_reason_and_fix(
    turnlog: RunCommand, played: RecordedSession, arguments: list[str], code: int, message: str
) -> None:
    ran = turnlog(*(word.replace("SESSION", played.session) for word in arguments), *played.here)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "do  " in ran.err
    assert "Traceback" not in ran.err


def test_missing_data_directory_is_an_error_and_is_not_created(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    ran = turnlog("sessions", "--data-dir", tmp_path / "none")
    assert ran.code == 3
    assert "turnlog up" in ran.err
    assert not (tmp_path / "none").exists()


def test_operating_system_error_is_reported_with_path_and_fix(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    ran = turnlog("up", "--data-dir", tmp_path / "file" / "data")
    assert ran.code == 1
    assert str(tmp_path / "file") in ran.err.replace("\n", "").replace(" ", "")
    assert "turnlog doctor" in ran.err


def test_invalid_settings_are_also_reported_by_read_commands(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_KEEP_ALIVE", "never")
    ran = turnlog("verify", "--data-dir", tmp_path)
    assert ran.code == 2
    assert "TURNLOG_KEEP_ALIVE" in ran.err


def test_tail_follows_new_events_after_existing_ones(played: RecordedSession) -> None:
    command = [str(get_forked_program()), "tail", "-o", "json", "--url", played.up.http]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["type"] == "turnlog.session-opened.v1"
        body = {"blueprint": "assistant", "session": "watched"}
        httpx.post(f"{played.up.http}/v1/sessions", json=body).raise_for_status()
        seen = next(line for line in watching.stdout if '"watched"' in line)
        assert json.loads(seen)["sequence"] == 1
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130


def test_unreachable_service_is_reported_as_an_error(turnlog: RunCommand) -> None:
    ran = turnlog("sessions", "--url", "http://127.0.0.1:9")
    assert ran.code == 1
    assert "does not answer" in ran.err


QUESTIONS = (
    ("sessions",),
    ("show", "SESSION"),
    ("show", "SESSION", "--at", "6"),
    ("history", "SESSION"),
    ("window", "SESSION"),
    ("window", "SESSION", "--at", "6"),
    ("prompt", "SESSION", "3.1"),
    ("growth", "SESSION"),
    ("tail", "SESSION", "--no-follow"),
    ("tail", "--no-follow"),
    ("verify",),
    ("blueprint", "list"),
)


@pytest.mark.slow("commands run against a service of their own")
def test_offline_data_directory_gives_the_same_answers_as_its_service(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"

    def ask(session: str) -> list[CommandResult]:
        options = ("-o", "json", "--data-dir", str(data_dir))
        return [
            turnlog(*(session if w == "SESSION" else w for w in q), *options) for q in QUESTIONS
        ]

    with (
        run_blocking_turnlog_up(data_dir) as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        session = record_session(client)
        forked = turnlog("fork", session, "--at", "6", "-o", "json", "--data-dir", data_dir)
        assert (forked.code, forked.json["sequence"]) == (0, 6)
        client.get("/v1/sessions", params={"min_sequence": f"{forked.json['session']}:6"})
        served = ask(session)
        assert [fork["session"] for fork in served[1].json["forks"]] == [forked.json["session"]]
    opened = ask(session)
    for question, before, after in zip(QUESTIONS, served, opened, strict=True):
        assert (before.code, after.code) == (0, 0), (question, after.err)
        assert remove_timings(after) == remove_timings(before), question
    (data_dir / "read-models.db").unlink()
    assert turnlog("rebuild", "--data-dir", data_dir).code == 0
    assert remove_timings(ask(session)[0]) == remove_timings(served[0])


def remove_timings(ran: CommandResult) -> list[Any]:
    """Return the answers without window times and verification durations."""
    answers = [json.loads(line) for line in ran.out.splitlines()]
    for answer in answers:
        if "messages" in answer and "digest" not in answer:
            del answer["manifest"]["at"]
        if answer.get("kind") == "summary":
            del answer["seconds"]
    return answers


def test_quota_limits_of_a_user_are_set_together_and_shown(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    given = {"input-tokens": 5, "output-tokens": 6, "requests-per-hour": 7, "requests-per-day": 8}
    options = [part for name, limit in given.items() for part in (f"--{name}", str(limit))]
    view = turnlog("quota", "set", "ann", *options, "-o", "json", *played.here).json
    limits = {name.replace("-", "_"): limit for name, limit in given.items()}
    assert view["limits"] == {"user": "ann", **limits}
    listed = turnlog("quota", "show", *played.here).out
    assert listed.splitlines()[1].split() == ["ann", "5", "6", "7", "8"]
    refused = turnlog("quota", "set", "ann", "--input-tokens", "0", *played.here).out
    month, *_, message = refused.replace("\n", " ").partition("input tokens  0")
    assert month.startswith(f"ann {view['period']}")
    assert "nothing is left of 0 input tokens per month: 0 used" in message
    assert turnlog("quota", "set", "ann", *played.here).code == 0
    assert "every turn is allowed" in turnlog("quota", "show", "ann", *played.here).out


def test_usage_can_be_grouped_and_filtered(turnlog: RunCommand, played: RecordedSession) -> None:
    def count_turns(*options: str) -> tuple[int, list[str | None]]:
        report = turnlog("usage", *options, "-o", "json", *played.here).json
        return report["total"]["turns"], [each["group"] for each in report["groups"]]

    path = f"{played.up.http}/v1/sessions/{played.session}"
    head = httpx.get(path, timeout=100).json()["sequence"]
    httpx.get(f"{path}/calls", params={"min_sequence": head}, timeout=100).raise_for_status()
    turns, groups = count_turns("--group-by", "profile")
    assert turns >= 3
    assert "chat" in groups
    assert count_turns("--group-by", "failure") == (turns, [None])
    assert count_turns("--since", "2001-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")[0] >= 3
    for narrowed in (
        ("--since", "2100-01-01T00:00:00Z"),
        ("--until", "2001-01-01T00:00:00Z"),
        ("--user", "nobody"),
    ):
        assert count_turns(*narrowed) == (0, [])
