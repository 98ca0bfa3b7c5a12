from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import httpx
import pytest

from tests.services.cli.conftest import RecordedSession, RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.forked_program import get_forked_program
from tests.support.processes.turnlog_process import fork_turnlog
from turnlog.services.audit.checkpoint_signatures import KEY_FILE, load_or_create_key
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli.doctor import machine_checks, setup_checks
from turnlog.services.cli.doctor.check_findings import CheckFinding, report_good
from turnlog.services.cli.doctor.doctor_run import run_named_checks
from turnlog.services.platform.process_settings import AllInOneSettings


def test_doctor_reports_good_on_a_complete_machine_and_writes_no_files(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    ran = turnlog("doctor", "--data-dir", tmp_path, "-o", "json")
    found = {each["what"]: each["verdict"] for each in ran.json}
    assert found["nats-server"] == found["JetStream"] == found["acknowledgement"] == "good"
    assert found["data directory"] == found["litellm"] == "good"
    assert "fsync-acked" in turnlog("doctor", "--data-dir", tmp_path).out
    assert list(tmp_path.iterdir()) == [], "looking changes nothing"


def test_doctor_checks_configured_roles_instead_of_the_data_directory(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats_url: str
) -> None:
    rows = tmp_path / "rows.db"
    monkeypatch.setenv("TURNLOG_NATS_URL", nats_url)
    monkeypatch.setenv("TURNLOG_DATABASE_URL", f"sqlite:///{rows}")
    monkeypatch.setenv("TURNLOG_HTTP", "127.0.0.1:0")
    ran = turnlog("doctor", "--data-dir", tmp_path, "-o", "json")
    found = {each["what"]: (each["verdict"], each["said"]) for each in ran.json}
    assert found["set-up"] == (
        "good",
        "roles of their own, because of TURNLOG_NATS_URL, TURNLOG_DATABASE_URL",
    )
    assert found["NATS"][0] == "wary", "only the server can say that it syncs"
    assert urlsplit(nats_url).hostname in found["NATS"][1]
    assert found["read models"][0] == "good"
    assert str(rows) in found["read models"][1]
    assert found["snapshot key"][0] == "wary"
    assert "data directory" not in found
    assert (ran.code, list(tmp_path.iterdir())) == (0, []), "looking changes nothing"


@pytest.mark.slow("commands run against a service of their own")
def test_doctor_reports_unreachable_servers_without_their_passwords(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_NATS_URL", "nats://me:hunter2@127.0.0.1:9")
    monkeypatch.setenv("TURNLOG_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:9/turnlog")
    ran = turnlog("doctor", "-o", "json")
    found = {each["what"]: each for each in ran.json}
    assert ran.code == 1
    for what in ("NATS", "read models"):
        assert found[what]["verdict"] == "bad"
        assert "127.0.0.1:9" in found[what]["said"]
    assert "hunter2" not in ran.out + ran.err


class UnsyncedMonitor(BaseHTTPRequestHandler):
    """The monitoring page of a nats-server that acknowledges before fsync."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"jetstream": {"config": {"sync_always": False}}}).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as its base
        """Print nothing."""


@pytest.mark.slow("commands run against a service of their own")
def test_address_as_a_host_of_postgres_gives_it_is_examined(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_NATS_URL", "nats://127.0.0.1:9")
    address = "postgres://ann:hidden@127.0.0.1:9/db?sslmode=require&channel_binding=require"
    monkeypatch.setenv("TURNLOG_DATABASE_URL", address)
    ran = turnlog("doctor", "-o", "json")
    found = {each["what"]: each for each in json.loads(ran.out)}
    assert "Connect call failed" in found["read models"]["said"]
    assert "hidden" not in ran.out + ran.err


async def test_check_that_raises_is_a_finding_and_the_others_are_made() -> None:
    def check_nothing() -> CheckFinding:
        raise TypeError("hidden")

    checks = (("this", check_nothing), ("that", lambda: report_good("that", "well")))
    crashed, good = await run_named_checks(*checks)
    assert (crashed.what, crashed.verdict, good.verdict) == ("this", "bad", "good")
    assert "TypeError at test_admin_commands.py:" in crashed.said
    assert "hidden" not in crashed.said


def test_doctor_and_start_name_the_setting_for_a_server_without_fsync(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, nats_url: str, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), UnsyncedMonitor) as monitor:
        Thread(target=monitor.serve_forever, daemon=True).start()
        monkeypatch.setenv("TURNLOG_NATS_URL", nats_url)
        monkeypatch.setenv("TURNLOG_NATS_MONITOR", f"http://127.0.0.1:{monitor.server_port}")
        examined = turnlog("doctor", "-o", "json")
        started = subprocess.run(
            [get_forked_program(), "run", "projector"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        monitor.shutdown()
    (found,) = (each for each in examined.json if each["what"] == "NATS")
    assert (examined.code, found["verdict"]) == (1, "bad")
    assert "`sync_interval: always` into the `jetstream` block" in found["fix"]
    assert started.returncode == 2, "the set-up is at fault, not the record"
    assert "sync_interval: always" in started.stderr
    assert "turnlog verify" not in started.stderr


def test_doctor_checks_configured_files_and_folders(tmp_path: Path) -> None:
    def build_up(**settings: object) -> AllInOneSettings:
        return AllInOneSettings.model_validate({"data_dir": tmp_path} | settings)

    plain, nowhere = build_up(), tmp_path / "nowhere"
    script = {"model": "scripted/nobody"}
    assert [
        setup_checks.check_blueprints(plain).verdict,
        setup_checks.check_tools(plain.tools, {}).verdict,
        setup_checks.check_prices(plain.prices).verdict,
        setup_checks.check_model(plain, {}).verdict,
        setup_checks.check_directory_key(plain).verdict,
    ] == ["good"] * 5
    assert [
        setup_checks.check_blueprints(build_up(blueprints=(nowhere,))).verdict,
        setup_checks.check_tools(nowhere, {}).verdict,
        setup_checks.check_prices(nowhere).verdict,
        setup_checks.check_model(build_up(**script), {}).verdict,
        setup_checks.check_model(build_up(model="anthropic/claude"), {}).verdict,
    ] == ["wary", "bad", "bad", "bad", "wary"]
    keyed = setup_checks.check_model(
        build_up(model="anthropic/claude"), {"ANTHROPIC_API_KEY": "sk-hunter2"}
    )
    assert (keyed.verdict, "hunter2" in keyed.said) == ("good", False)
    folder = tmp_path / "own/mine"
    folder.mkdir(parents=True)
    (folder / "blueprint.yaml").write_text("blueprint: mine\n")
    faulty = setup_checks.check_blueprints(build_up(blueprints=(tmp_path / "own",)))
    assert (faulty.verdict, "mine" in faulty.said) == ("wary", True)


def test_doctor_reports_a_port_in_use_with_a_fix(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("TURNLOG_HTTP", address)
        ran = turnlog("doctor", "--data-dir", tmp_path)
    assert ran.code == 1
    assert address in ran.out
    assert "--http 127.0.0.1:0" in ran.out


def test_doctor_accepts_a_port_used_by_the_running_service(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("doctor", *played.here)
    assert ran.code == 0
    assert f"{played.up.http} answers" in ran.out


def test_doctor_reports_an_unwritable_data_directory(tmp_path: Path) -> None:
    # Not by its mode: the suite may run as root, whom no mode stops.
    file = tmp_path / "file"
    file.touch()
    found = machine_checks.check_data_dir(file)
    assert (found.verdict, found.fix != "") == ("bad", True)


def test_doctor_reports_a_log_without_signed_checkpoint_and_names_the_command(
    tmp_path: Path,
) -> None:
    assert setup_checks.check_checkpoints(tmp_path).verdict == "good", "there is nothing to sign"
    (tmp_path / "jetstream").mkdir()
    found = setup_checks.check_checkpoints(tmp_path)
    assert (found.verdict, "turnlog checkpoint FILE" in found.fix) == ("wary", True)
    load_or_create_key(tmp_path / KEY_FILE)
    assert setup_checks.check_checkpoints(tmp_path).verdict == "good"


def test_doctor_says_when_the_last_checkpoint_of_the_configured_folder_was_taken(
    tmp_path: Path,
) -> None:
    found = setup_checks.check_checkpoint_folder(tmp_path)
    assert (found.verdict, "checkpoint --every" in found.fix) == ("wary", True)
    taken = datetime.now(UTC) - timedelta(hours=2, minutes=5, seconds=9)
    (tmp_path / f"checkpoint-{taken:%Y%m%dT%H%M%S}.000Z.json").touch()
    found = setup_checks.check_checkpoint_folder(tmp_path)
    assert (found.verdict, "the last 2 h 5 min ago" in found.said) == ("good", True)


def test_doctor_reports_a_clock_behind_the_timestamps_of_files(tmp_path: Path) -> None:
    (tmp_path / "server.log").touch()
    os.utime(tmp_path / "server.log", (4e9, 4e9))
    assert machine_checks.check_clock(tmp_path).verdict == "wary"


async def test_doctor_reports_read_models_of_another_release(tmp_path: Path) -> None:
    file = tmp_path / "read-models.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        database.commit()
        later = await setup_checks.check_database(f"sqlite:///{file}")
        database.execute("UPDATE alembic_version SET version_num = '0011'")
        database.commit()
        earlier = await setup_checks.check_database(f"sqlite:///{file}")
    assert (later.verdict, "schema 9999" in later.said) == ("bad", True)
    assert (earlier.verdict, "the next start makes it" in earlier.said) == ("good", True)


def test_a_shipped_blueprint_has_no_faults(turnlog: RunCommand) -> None:
    ran = turnlog("blueprint", "check", SHIPPED_BLUEPRINTS / "assistant")
    assert ran.code == 0
    assert "can be used" in ran.out


def test_blueprint_check_prints_each_fault_with_line_and_fix(
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


def test_blueprint_check_of_a_missing_folder_fails_with_a_fix(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    ran = turnlog("blueprint", "check", tmp_path / "none")
    assert ran.code == 1
    assert "put a blueprint.yaml there" in ran.out


def test_service_with_another_ready_file_is_found_by_its_data_directory(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere.json"
    with run_blocking_turnlog_up(data, "--ready-file", str(elsewhere)) as up:
        assert json.loads(elsewhere.read_bytes())["http"] == up.http
        ran = turnlog("sessions", "--data-dir", data)
        assert ran.code == 0
    assert not elsewhere.exists()


def test_sighup_shuts_the_service_down_cleanly_with_its_nats_server(
    tmp_path: Path,
) -> None:
    with run_blocking_turnlog_up(tmp_path / "data") as up:
        server = int((up.data_dir / "server.pid").read_text())
        up.process.send_signal(signal.SIGHUP)
        assert up.process.join_process(60) == 0
        assert not (up.data_dir / "ready.json").exists()
        with pytest.raises(ProcessLookupError):
            os.kill(server, 0)


def test_ready_file_of_a_killed_service_is_not_believed(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    words, here = ("up", "--http", "127.0.0.1:0"), ("--data-dir", data)
    addresses: list[str] = []
    for _ in range(2):
        process = fork_turnlog([*words, *map(str, here)], dict(os.environ), None)
        addresses.append(turnlog("ready", *here).out)
        assert httpx.get(f"{addresses[-1].strip()}/healthz").is_success
        process.kill_process()
        process.join_process(60)
        assert (data / "ready.json").exists()
        ran = turnlog("ready", *here, "--seconds", "0")
        assert (ran.code, "no service accepted work within 0 s" in ran.err) == (1, True)
    assert len(set(addresses)) == 2


def test_start_that_fails_removes_the_ready_file_of_a_killed_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    ready = data / "ready.json"
    ready.write_text('{"http": "http://127.0.0.1:9", "nats": "", "data_dir": ""}')
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ("up", "--data-dir", str(data), "--http", address)
        process = fork_turnlog(words, dict(os.environ), None)
        assert process.join_process(60) == 2, process.describe_output()
    assert not ready.exists()
