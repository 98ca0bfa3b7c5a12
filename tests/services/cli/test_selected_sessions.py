"""Commands for many sessions, which the same options select for each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import (
    TURNLOG_PROGRAM,
    BlockingTurnlogUp,
    run_blocking_turnlog_up,
)
from turnlog.client.session_filters import SessionFilters
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli.session_options import SessionFilterOptions
from turnlog.services.cli.what_if.what_if_comparison import read_blueprint_folder
from turnlog.services.http.session_filter import SessionFilter

SCRIPT = """
replies:
  - {match: think, pace: 100, text: Never.}
  - {match: break, pace: 0, text: "", fail: bad_request}
  - {pace: 0, text: "Yes."}
"""


@dataclass(frozen=True)
class Office:
    """A service with three sessions in the order of their opening."""

    up: BlockingTurnlogUp
    blueprints: Path
    lithuanian: str
    """Of the user ann."""
    german: str
    """Of the user bob, with a failed turn."""
    uderia: str
    """Of another blueprint, closed."""

    @property
    def here(self) -> tuple[str, str]:
        return "--data-dir", str(self.up.data_dir)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    blueprints = folder / "blueprints"
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", blueprints / "assistant")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "office.yaml").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TURNLOG_SCRIPTS", str(folder / "scripts"))
        options = ("--blueprints", str(blueprints), "--model", "scripted/office")
        with (
            run_blocking_turnlog_up(folder / "data", *options) as up,
            httpx.Client(base_url=up.http, timeout=100) as client,
        ):
            lithuanian = record_session(client, "Lithuanian", ("Hello!", "ann"))
            german = record_session(client, "German", ("Please break.", "bob"))
            uderia = open_session(client, {"blueprint": "uderia"})
            closed = client.post(f"/v1/sessions/{uderia}/close").raise_for_status().json()
            seen = f"{uderia}:{closed['sequence']}"
            client.get("/v1/sessions", params={"min_sequence": seen}).raise_for_status()
            yield Office(up, blueprints, lithuanian, german, uderia)


def open_session(client: httpx.Client, body: dict[str, Any]) -> str:
    return str(client.post("/v1/sessions", json=body).raise_for_status().json()["session"])


def record_session(client: httpx.Client, language: str, turn: tuple[str, str]) -> str:
    body = {"blueprint": "assistant", "attributes": {"language": language}}
    session = open_session(client, body)
    text, user = turn
    path = f"/v1/sessions/{session}/turns?wait=60"
    client.post(path, json={"text": text, "user": user}).raise_for_status()
    return session


def list_selected(turnlog: RunCommand, office: Office, *options: str) -> list[str]:
    page = turnlog("sessions", *options, "-o", "json", *office.here).json
    return [each["session"] for each in page["sessions"]]


def find_row(turnlog: RunCommand, office: Office, session: str) -> dict[str, Any]:
    page = turnlog("sessions", "-q", session, "-o", "json", *office.here).json
    row: dict[str, Any]
    (row,) = page["sessions"]
    return row


def test_sessions_are_selected_by_user_time_and_attribute(
    turnlog: RunCommand, office: Office
) -> None:
    def select(*options: str) -> list[str]:
        return list_selected(turnlog, office, *options)

    german = find_row(turnlog, office, office.german)
    assert select("--user", "ann") == [office.lithuanian]
    assert select("--until", german["opened_at"]) == [office.lithuanian]
    assert select("--since", german["last_at"]) == [office.uderia, office.german]
    assert select("-a", "language=German") == [office.german]
    assert select("-a", "language=German", "--user", "ann") == []
    assert turnlog("sessions", "-a", "language", *office.here).code == 2


def test_described_session_is_listed_by_its_title_and_selected_by_its_label(
    turnlog: RunCommand, office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(*options: str) -> None:
        done = turnlog("describe", office.uderia, *options, "-o", "json", *office.here)
        assert done.code == 0, done.err
        wait_for_rows(office, office.uderia, done.json["sequence"])

    labels = ("--label", "travel", "--label", "Büro Nord")
    describe("--title", "Trip to Holm", *labels, "--metadata", '{"thread": "t-17", "old": 1}')
    describe("--metadata", '{"old": null}')
    assert list_selected(turnlog, office, "--label", "Büro Nord") == [office.uderia]
    assert list_selected(turnlog, office, "-q", "to holm") == [office.uderia]
    assert list_selected(turnlog, office, "--label", "travel", "--user", "ann") == []
    monkeypatch.setenv("COLUMNS", "160")
    assert "Trip to Holm  #travel  #Büro Nord" in turnlog("sessions", *office.here).out
    shown = turnlog("show", office.uderia, *office.here).out
    assert ("travel, Büro Nord" in shown, '{"thread":"t-17"}' in shown) == (True, True)
    bundle = tmp_path / "labelled"
    assert turnlog("export", "--label", "travel", "--bundle", bundle, *office.here).code == 0
    assert [file.stem for file in (bundle / "sessions").iterdir()] == [office.uderia]
    words = ("what-if", "--budget", "9000", "--label", "travel", "-o", "json", *office.here)
    assert [each["session"] for each in turnlog(*words).json["sessions"]] == [office.uderia]
    describe("--no-labels", "--title", "")
    assert list_selected(turnlog, office, "--label", "travel") == []
    assert find_row(turnlog, office, office.uderia)["title"] is None
    for wrong in (("--metadata", "[1]"), ("--label", "a", "--no-labels"), ()):
        assert turnlog("describe", office.uderia, *wrong, *office.here).code == 2


def test_what_if_is_evaluated_over_selected_sessions(turnlog: RunCommand, office: Office) -> None:
    def evaluate(*options: str) -> list[str]:
        ran = turnlog("what-if", "--budget", "9000", *options, "-o", "json", *office.here)
        return sorted(each["session"] for each in ran.json["sessions"])

    assert evaluate("-a", "language=German") == [office.german]
    assert evaluate("--user", "ann", "--profile", "chat") == [office.lithuanian]
    until = find_row(turnlog, office, office.german)["opened_at"]
    assert evaluate("--since", "2001-01-01T00:00:00Z", "--until", until) == [office.lithuanian]
    assert evaluate("--profile", "unknown") == []
    both = turnlog("what-if", office.german, "--budget", "9", "--user", "ann", *office.here)
    assert "leave one of both out" in both.err


def test_what_if_compares_selected_sessions_with_another_blueprint(
    turnlog: RunCommand, office: Office, tmp_path: Path
) -> None:
    assert turnlog("blueprint", "new", "copy", "--from", "assistant", "--in", tmp_path).code == 0
    uploaded = read_blueprint_folder(tmp_path / "copy").model_dump(mode="json")
    answer = httpx.post(
        f"{office.up.http}/v1/what-if",
        params={"blueprint": "assistant"},
        json={"blueprint": uploaded},
        timeout=100,
    )
    lines = [json.loads(line) for line in answer.raise_for_status().text.splitlines()]
    assert (lines[0]["sessions"], lines[-1]["untold"]) == (2, 0)


def test_export_writes_the_selected_sessions(
    turnlog: RunCommand, office: Office, tmp_path: Path
) -> None:
    since = find_row(turnlog, office, office.german)["last_at"]
    ran = turnlog("export", "--since", since, "--to", tmp_path / "new", *office.here)
    assert (ran.code, {file.stem for file in (tmp_path / "new").iterdir()}) == (
        0,
        {office.german, office.uderia},
    ), ran.err
    bundle = tmp_path / "bundle"
    assert turnlog("export", "--failed", "--bundle", bundle, *office.here).code == 0
    assert [file.stem for file in (bundle / "sessions").iterdir()] == [office.german]
    nothing = turnlog("export", "--user", "eve", *office.here)
    assert (nothing.code, nothing.out) == (3, "")
    assert turnlog("export", *office.here).code == 2
    assert turnlog("export", office.german, "--failed", *office.here).code == 2


def test_usage_is_grouped_by_an_attribute_of_the_session(
    turnlog: RunCommand, office: Office
) -> None:
    report = turnlog("usage", "--group-by", "attribute.language", "-o", "json", *office.here).json
    figures = [(each["group"], each["turns"], each["failed"]) for each in report["groups"]]
    assert figures == [("German", 1, 1), ("Lithuanian", 1, 0)]
    table = turnlog("usage", "--group-by", "attribute.language", *office.here).out
    assert table.splitlines()[0].startswith("attribute.language")
    assert turnlog("usage", "--group-by", "language", *office.here).code == 2


def write_version(office: Office, version: int) -> None:
    """Give the files of the assistant another version."""
    file = office.blueprints / "assistant" / "blueprint.yaml"
    file.write_text(
        re.sub(r"^version: \d+$", f"version: {version}", file.read_text(), flags=re.MULTILINE)
    )


def test_selected_sessions_are_moved_to_the_current_files_by_a_plan(
    turnlog: RunCommand, office: Office
) -> None:
    write_version(office, 2)
    session = f"{office.up.http}/v1/sessions/{office.german}"
    httpx.post(f"{session}/turns", json={"text": "think"}).raise_for_status()
    which = ("blueprint", "move", "--blueprint", "assistant")

    def list_versions() -> list[int]:
        pages = [find_row(turnlog, office, each) for each in (office.lithuanian, office.german)]
        return [row["version"] for row in pages]

    plan = turnlog(*which, "--dry-run", "-o", "json", *office.here)
    assert plan.code == 1, "one of them has an open turn"
    assert [each["session"] for each in plan.json["sessions"]] == [office.german, office.lithuanian]
    assert [each["refused"] and each["refused"]["code"] for each in plan.json["sessions"]] == [
        "turn-open",
        None,
    ]
    assert plan.json["sessions"][1]["preview"]["moves"]
    command = [str(TURNLOG_PROGRAM), *which, *office.here]
    answered_no = subprocess.run(command, input="n\n", capture_output=True, text=True, check=False)
    assert "2 sessions: 1 to move, 1 cannot be moved" in answered_no.stdout
    assert "Move 1 of 2 sessions? [y/N]" in answered_no.stderr
    assert list_versions() == [1, 1]
    assert turnlog(*which, "-o", "json", *office.here).code == 2, "it must be confirmed"
    moved = turnlog(*which, "--yes", *office.here)
    assert (moved.code, "✓ 1 session moved" in moved.out) == (1, True)
    httpx.post(f"{session}/cancel").raise_for_status()
    rest = turnlog(*which, "--user", "bob", "--yes", "-o", "json", *office.here)
    assert (rest.code, rest.json["sessions"][0]["done"]["version"]) == (0, 2)
    wait_for_rows(office, office.german, rest.json["sessions"][0]["done"]["sequence"])
    assert list_versions() == [2, 2]
    done = turnlog(*which, "--yes", *office.here)
    assert (done.code, "2 sessions: 0 to move, 0 cannot be moved" in done.out) == (0, True)


def test_dry_run_of_one_session_says_what_a_move_would_change(
    turnlog: RunCommand, office: Office
) -> None:
    write_version(office, 3)
    path = f"{office.up.http}/v1/sessions/{office.lithuanian}"
    before = httpx.get(path).json()["sequence"]
    shown = turnlog("blueprint", "move", office.lithuanian, "--dry-run", *office.here)
    assert f"{office.lithuanian} would use assistant v3" in shown.out
    closed = turnlog("blueprint", "move", office.uderia, "--dry-run", *office.here)
    assert "session-closed" in closed.err
    assert httpx.get(path).json()["sequence"] == before
    assert turnlog("blueprint", "move", *office.here).code == 2
    assert turnlog("blueprint", "move", office.lithuanian, "--open", *office.here).code == 2


def wait_for_rows(office: Office, session: str, sequence: int) -> None:
    awaited = {"min_sequence": f"{session}:{sequence}"}
    httpx.get(f"{office.up.http}/v1/sessions", params=awaited, timeout=100).raise_for_status()


def test_command_line_and_clients_have_every_condition_of_the_session_list() -> None:
    conditions = set(SessionFilter.model_fields) | {"attributes"}
    options = {each.name for each in fields(SessionFilterOptions)}
    assert {"attributes" if name == "attribute" else name for name in options} == conditions
    filters = set(get_type_hints(SessionFilters))
    assert {"q" if name == "text" else name for name in filters} == conditions
