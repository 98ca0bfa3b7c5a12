from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.services.cli.conftest import RecordedSession, RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.services.audit.checkpoint_signatures import KEY_FILE, load_or_create_key
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli import doctor


def test_a_machine_that_has_everything_is_told_so(turnlog: RunCommand, tmp_path: Path) -> None:
    ran = turnlog("doctor", "--data-dir", tmp_path, "-o", "json")
    found = {each["what"]: each["verdict"] for each in ran.json}
    assert found["nats-server"] == found["JetStream"] == found["acknowledgement"] == "good"
    assert found["data directory"] == found["litellm"] == "good"
    assert "fsync-acked" in turnlog("doctor", "--data-dir", tmp_path).out
    assert list(tmp_path.iterdir()) == [], "looking changes nothing"


def test_a_port_that_is_taken_is_named_with_a_way_out(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("TURNLOG_HTTP", address)
        ran = turnlog("doctor", "--data-dir", tmp_path)
    assert ran.code == 1
    assert address in ran.out
    assert "--http 127.0.0.1:0" in ran.out


def test_a_port_taken_by_the_service_itself_is_well(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("doctor", *played.here)
    assert ran.code == 0
    assert f"{played.up.http} answers" in ran.out


def test_a_directory_that_takes_no_files_is_named(tmp_path: Path) -> None:
    # Not by its mode: the suite may run as root, whom no mode stops.
    file = tmp_path / "file"
    file.touch()
    found = doctor.check_data_dir(file)
    assert (found.verdict, found.fix != "") == ("bad", True)


def test_a_log_of_which_no_checkpoint_was_signed_is_named_with_the_command(
    tmp_path: Path,
) -> None:
    assert doctor.check_checkpoints(tmp_path).verdict == "good", "there is nothing to sign"
    (tmp_path / "jetstream").mkdir()
    found = doctor.check_checkpoints(tmp_path)
    assert (found.verdict, "turnlog checkpoint FILE" in found.fix) == ("wary", True)
    load_or_create_key(tmp_path / KEY_FILE)
    assert doctor.check_checkpoints(tmp_path).verdict == "good"


def test_a_clock_behind_what_was_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.log").touch()
    os.utime(tmp_path / "server.log", (4e9, 4e9))
    assert doctor.check_clock(tmp_path).verdict == "wary"


def test_read_models_of_a_later_release_are_named(turnlog: RunCommand, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "read-models.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        database.commit()
    ran = turnlog("doctor", "--data-dir", tmp_path)
    assert ran.code == 1
    assert "schema 9999" in ran.out


def test_a_shipped_blueprint_has_no_faults(turnlog: RunCommand) -> None:
    ran = turnlog("blueprint", "check", SHIPPED_BLUEPRINTS / "assistant")
    assert ran.code == 0
    assert "can be used" in ran.out


def test_every_fault_of_a_blueprint_has_its_line_and_the_way_out(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "assistant"
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder)
    file = folder / "blueprint.yaml"
    file.write_text(file.read_text().replace("attributes:", "atributes:", 1))
    ran = turnlog("blueprint", "check", folder)
    assert ran.code == 1
    assert "assistant/blueprint.yaml:6" in ran.out
    assert "write `attributes`" in ran.out
    faults = turnlog("blueprint", "check", folder, "-o", "json").json[str(folder)]
    assert {fault["line"] for fault in faults} >= {6}


def test_a_blueprint_that_is_not_there_is_a_fault(turnlog: RunCommand, tmp_path: Path) -> None:
    ran = turnlog("blueprint", "check", tmp_path / "none")
    assert ran.code == 1
    assert "put a blueprint.yaml there" in ran.out


def test_a_service_with_a_ready_file_elsewhere_is_found_by_its_data_directory(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere.json"
    with run_blocking_turnlog_up(data, "--ready-file", str(elsewhere)) as up:
        assert json.loads(elsewhere.read_bytes())["http"] == up.http
        ran = turnlog("sessions", "--data-dir", data)
        assert ran.code == 0
    assert not elsewhere.exists()


def test_a_service_whose_terminal_is_closed_ends_in_good_order_and_leaves_no_server(
    tmp_path: Path,
) -> None:
    with run_blocking_turnlog_up(tmp_path / "data") as up:
        server = int((up.data_dir / "server.pid").read_text())
        up.process.send_signal(signal.SIGHUP)
        assert up.process.join_process(60) == 0
        assert not (up.data_dir / "ready.json").exists()
        with pytest.raises(ProcessLookupError):
            os.kill(server, 0)
