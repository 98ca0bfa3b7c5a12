"""Accounts: an address with its key, which goes nowhere else."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up

ROOT_KEY = "the-root-key-of-a-service-under-test"


@pytest.fixture
def accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a command line without accounts will have."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config/turnlog/accounts.json"


@pytest.fixture(scope="module")
def locked_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service that asks for keys."""
    folder = tmp_path_factory.mktemp("locked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_ROOT_KEY", ROOT_KEY)
        with run_blocking_turnlog_up(folder):
            yield str(json.loads((folder / "ready.json").read_bytes())["http"])


@pytest.mark.slow("a service, and commands that each have a new connection")
def test_key_of_a_account_goes_to_its_address_only(
    turnlog: RunCommand, locked_url: str, accounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(name: str, key: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{key}\n"))
        return turnlog("accounts", "add", name, "--url", f"{locked_url}/").code

    assert add("work", "a wrong key") == 1
    assert not accounts.exists()
    assert add("work", ROOT_KEY) == 0
    assert accounts.stat().st_mode & 0o777 == 0o600
    assert turnlog("sessions", "--url", locked_url).code == 1
    monkeypatch.setenv("TURNLOG_ACCOUNT", "work")
    assert turnlog("sessions").code == 0
    assert turnlog("sessions", "--url", locked_url).code == 0
    listed = turnlog("accounts", "list")
    assert (ROOT_KEY in listed.out, "in use" in listed.out) == (False, True)
    elsewhere = turnlog("sessions", "--url", locked_url.replace("127.0.0.1", "localhost"))
    assert (elsewhere.code, "not-signed-in" in elsewhere.err) == (1, True)
    assert turnlog("accounts", "remove", "work").code == 0
    gone = turnlog("sessions")
    assert (gone.code, "unknown-account" in gone.err) == (3, True)


def test_named_directory_and_variable_come_before_a_account(
    turnlog: RunCommand, accounts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.parent.mkdir(parents=True)
    accounts.touch(0o600)
    accounts.write_text(json.dumps({"work": {"url": "http://127.0.0.1:1", "key": "k"}}))
    monkeypatch.setenv("TURNLOG_ACCOUNT", "work")
    named = turnlog("sessions", "--data-dir", str(tmp_path / "none"))
    assert "unknown-data-dir" in named.err
    assert "127.0.0.1:1" in turnlog("sessions").err
    assert "127.0.0.1:2" in turnlog("sessions", "--url", "http://127.0.0.1:2").err


@pytest.mark.parametrize(
    ("content", "mode", "named"),
    [
        ("{}", 0o640, "chmod 600"),
        ("{", 0o600, "mend the file"),
        ('{"work": {"key": "k"}}', 0o600, "work.url"),
        ('{"work": {"url": "http://127.0.0.1:1", "kye": "k"}}', 0o600, "work.kye"),
    ],
)
def test_unusable_file_is_refused_with_the_fix(
    turnlog: RunCommand,
    accounts: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    mode: int,
    named: str,
) -> None:
    accounts.parent.mkdir(parents=True)
    accounts.write_text(content)
    accounts.chmod(mode)
    monkeypatch.setenv("TURNLOG_ACCOUNT", "work")
    refused = turnlog("sessions")
    assert (refused.code, "bad-accounts" in refused.err, named in refused.err) == (1, True, True)
    assert "kye" not in refused.err or named == "work.kye"
