"""What a data directory holds beside the log: its keys and the address of its nats-server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.services.cli.conftest import CommandResult, RecordedSession, RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.process_host import find_free_port
from turnlog.services.platform.nats_server import choose_address, keep_address


def read_lines(data_dir: Path, event: str) -> list[str]:
    """Return the lines of an event in the log of `turnlog up`, without colours."""
    log = (data_dir.parent / f"{data_dir.name}.log").read_text()
    return [line for line in log.splitlines() if f" {event} " in line]


def test_start_logs_created_files_and_listening_address(played: RecordedSession) -> None:
    data_dir = played.up.data_dir
    for event, file in (
        ("nats-password-created", "credentials"),
        ("consumer-password-created", "consumer-credentials"),
        ("snapshot-key-created", "snapshot-key"),
    ):
        (line,) = read_lines(data_dir, event)
        assert f"file={data_dir / file}" in line
    (line,) = read_lines(data_dir, "gateway-listening")
    assert f"address={played.up.http} " in line
    (line,) = read_lines(data_dir, "projector-started")
    assert f"database=sqlite:///{data_dir}/read-models.db" in line
    assert read_lines(data_dir, "model-library-loading") == [], "a script needs no litellm"
    submit = "method=POST route=/v1/sessions/{session}/turns "
    submits = [line for line in read_lines(data_dir, "request") if submit in line]
    assert len(submits) == 3
    assert not [line for line in read_lines(data_dir, "request") if played.session in line]


@pytest.mark.slow("commands run against a service of their own")
def test_nats_address_is_reused_until_another_is_requested(tmp_path: Path) -> None:
    data_dir, address = tmp_path / "data", f"127.0.0.1:{find_free_port()}"

    def read_nats_url() -> str:
        return str(json.loads((data_dir / "ready.json").read_bytes())["nats"])

    def read_consumer_url() -> str:
        return str(json.loads((data_dir / "ready.json").read_bytes())["nats_consumer"])

    with run_blocking_turnlog_up(data_dir, "--nats", address):
        url, consumer_url = read_nats_url(), read_consumer_url()
        assert url.endswith(f"@{address}")
        assert consumer_url.startswith("nats://consumer:")
        assert consumer_url.endswith(f"@{address}")
    assert (data_dir / "nats-address").read_text() == f"{address}\n"
    assert len(read_lines(data_dir, "nats-address-saved")) == 1
    with run_blocking_turnlog_up(data_dir):
        assert read_nats_url() == url
        assert read_consumer_url() == consumer_url, "a consumer that was configured once goes on"
    keep_address(data_dir, None)
    assert choose_address(data_dir, None) == address
    other = "127.0.0.1:4333"
    assert choose_address(data_dir, other) == other
    keep_address(data_dir, other)
    assert choose_address(data_dir, None) == other
    keep_address(data_dir, "127.0.0.1:0")
    assert choose_address(data_dir, None) == "127.0.0.1:0"
    assert not (data_dir / "nats-address").exists()


def test_first_checkpoint_creates_and_reports_a_signing_key_in_the_data_directory(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    key = played.up.data_dir / "checkpoint-key.pem"
    first = turnlog("checkpoint", tmp_path / "one.json", *played.here)
    assert (first.code, first.err) == (0, f"created the signing key {key}\n")
    second = turnlog("checkpoint", tmp_path / "two.json", "--url", played.up.http, *played.here)
    assert (second.code, second.err) == (0, "")


def test_signing_key_is_never_created_in_the_working_directory(
    turnlog: RunCommand,
    played: RecordedSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = turnlog("checkpoint", "kept.json", "--url", played.up.http)
    assert (ran.code, "--key" in ran.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
    # Nothing is created either for a checkpoint that cannot be taken.
    ran = turnlog("checkpoint", "kept.json", "--url", "http://127.0.0.1:1", "--key", "key.pem")
    assert ran.code != 0
    assert list(tmp_path.iterdir()) == []


def test_reading_a_data_directory_without_keys_reports_the_replaced_password(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    (data_dir / "jetstream").mkdir(parents=True)
    ran = turnlog("blueprint", "pinned", "--data-dir", data_dir)
    assert ran.code == 0, ran.err
    assert "nats-password-replaced" in ran.err
    assert not (data_dir / "snapshot-key").exists()


@pytest.mark.slow("commands run against a service of their own")
def test_blueprints_are_listed_and_shown_without_starting_a_service(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own"
    assert turnlog("blueprint", "new", "mine", "--in", own).code == 0
    assert "assistant v1" in turnlog("blueprint", "list").out
    for ran in (
        turnlog("blueprint", "list", "--blueprints", own, "-o", "json"),
        set_and_run(turnlog, monkeypatch, {"TURNLOG_BLUEPRINTS": str(own)}),
    ):
        names = {each["blueprint"] for each in ran.json["blueprints"]}
        assert {"mine", "assistant"} <= names
    shown = turnlog("blueprint", "show", "mine", "--blueprints", own, "-o", "json")
    assert (shown.json["blueprint"], "language" in shown.json["attributes"]["properties"]) == (
        "mine",
        True,
    )
    assert "assistant v1" in turnlog("blueprint", "show", "assistant").out
    unknown = turnlog("blueprint", "show", "asistant")
    assert (unknown.code, "write `assistant`" in unknown.err) == (3, True)
    hidden = {"TURNLOG_SHIPPED_BLUEPRINTS": "off"}
    ran = set_and_run(turnlog, monkeypatch, hidden)
    assert [each["blueprint"] for each in ran.json["blueprints"]] == ["mine"]
    assert list(tmp_path.iterdir()) == [own]


def set_and_run(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> CommandResult:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return turnlog("blueprint", "list", "-o", "json")


def test_blueprint_list_of_a_running_service_ignores_local_settings(
    turnlog: RunCommand,
    played: RecordedSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert turnlog("blueprint", "new", "mine", "--in", tmp_path).code == 0
    monkeypatch.setenv("TURNLOG_BLUEPRINTS", str(tmp_path))
    ran = turnlog("blueprint", "list", "-o", "json", *played.here)
    assert "mine" not in {each["blueprint"] for each in ran.json["blueprints"]}
