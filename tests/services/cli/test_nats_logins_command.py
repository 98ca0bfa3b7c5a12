"""`turnlog keys nats` and `turnlog provision`, with a server that has what the first one writes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose_processes import BIN
from tests.services.cli.conftest import RunCommand
from tests.support.processes.process_host import find_free_port

CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: 4MB
jetstream {{
  store_dir: {store}
}}
authorization {{
  include "users.conf"
}}
"""


def read_passwords(folder: Path) -> dict[str, str]:
    lines = (folder / "passwords.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_passwords_that_are_there_are_kept_and_nobody_else_reads_them(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "nats"
    assert turnlog("keys", "nats", folder).code == 0
    first = read_passwords(folder)
    assert len(set(first.values())) == len(first) == 6
    (folder / "passwords.env").write_text(f"NATS_PASSWORD={first['NATS_PASSWORD']}\nOWN=1\n")
    again = turnlog("keys", "nats", folder)
    assert "NATS_GATEWAY_PASSWORD" in again.out
    kept = read_passwords(folder)
    assert (kept["NATS_PASSWORD"], kept["OWN"]) == (first["NATS_PASSWORD"], "1")
    assert kept["NATS_WORKER_PASSWORD"] != first["NATS_WORKER_PASSWORD"]
    assert (folder / "passwords.env").stat().st_mode & 0o077 == 0
    assert turnlog("keys", "nats").out == (folder / "users.conf").read_text()


def test_streams_are_made_with_the_login_that_may_and_with_no_other(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turnlog("keys", "nats", tmp_path).code == 0
    port, passwords = find_free_port(), read_passwords(tmp_path)
    config = tmp_path / "nats.conf"
    config.write_text(CONFIG.format(port=port, store=json.dumps(str(tmp_path / "store"))))
    with subprocess.Popen(
        [BIN / "nats-server", "-c", config],
        env=os.environ | passwords,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as server:
        try:
            assert server.stderr is not None
            assert any(b"Server is ready" in line for line in server.stderr)
            login = f"provision:{passwords['NATS_PROVISION_PASSWORD']}"
            monkeypatch.setenv("TURNLOG_NATS_URL", f"nats://{login}@127.0.0.1:{port}")
            made = turnlog("provision")
            assert (made.code, made.err) == (0, "")
            assert made.out.startswith("ready: SESSIONS, LIBRARY,")
            assert turnlog("provision").code == 0
        finally:
            server.kill()
