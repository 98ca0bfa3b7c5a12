"""Keys on a terminal, against a service that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up

ROOT_KEY = "the-root-key-of-a-service-under-test"


@pytest.fixture(scope="module")
def locked_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that asks for keys; yields the option that names its data directory."""
    folder = tmp_path_factory.mktemp("locked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_ROOT_KEY", ROOT_KEY)
        with run_blocking_turnlog_up(folder):
            yield "--data-dir", str(folder)


@pytest.mark.slow("a dozen commands, each with a new connection")
def test_key_is_created_used_rotated_and_revoked(
    turnlog: RunCommand, locked_here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = turnlog("sessions", *locked_here)
    assert (unknown.code, "not-signed-in" in unknown.err) == (1, True)
    assert "TURNLOG_KEY" in unknown.err
    monkeypatch.setenv("TURNLOG_KEY", ROOT_KEY)
    assert "there is no key" in turnlog("keys", "list", *locked_here).out
    roles = ("--role", "caller", "--role", "watcher")
    created = turnlog("keys", "create", "desk", *roles, "--days", "30", *locked_here)
    assert created.code == 0, created.err
    (key,) = (each for each in created.out.split() if each.startswith("tlk_"))
    listed = turnlog("keys", "list", *locked_here).out
    assert (key in listed, "caller, watcher" in listed, "active" in listed) == (False, True, True)
    monkeypatch.setenv("TURNLOG_KEY", key)
    whoami = turnlog("keys", "whoami", *locked_here)
    assert "key:desk" in whoami.out
    assert "sessions:write" in whoami.out
    lacking = turnlog("keys", "list", *locked_here)
    assert (lacking.code, "`administrator`" in lacking.err) == (1, True)
    monkeypatch.setenv("TURNLOG_KEY", ROOT_KEY)
    rotated = turnlog("keys", "rotate", "desk", *locked_here)
    assert (rotated.code, key in rotated.out) == (0, False)
    assert "desk revoked" in turnlog("keys", "revoke", "desk", *locked_here).out
    assert "revoked" in turnlog("keys", "list", *locked_here).out
    gone = turnlog("keys", "revoke", "desk", *locked_here)
    assert (gone.code, "unknown-key" in gone.err) == (3, True)
    faulty = turnlog("keys", "create", "x", "--role", "king", *locked_here)
    assert (faulty.code, "roles" in faulty.err) == (2, True)


@pytest.mark.slow("a dozen commands, each with a new connection")
def test_tenant_is_set_shown_and_listed_by_the_root_key_alone(
    turnlog: RunCommand, locked_here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_KEY", ROOT_KEY)
    done = turnlog("tenants", "set", "travel", "--model", "openai/*", *locked_here)
    assert (done.code, "openai/*" in done.out) == (0, True), done.err
    assert turnlog("tenants", "show", "travel", *locked_here, "-o", "json").json["tenant"][
        "models"
    ] == ["openai/*"]
    none = turnlog("tenants", "set", "travel", "--no-models", *locked_here)
    assert "none" in none.out
    freed = turnlog("tenants", "set", "travel", "--unset", "models", *locked_here)
    assert "all" in freed.out
    assert "travel" in turnlog("tenants", "list", *locked_here).out
    unknown = turnlog("tenants", "set", "travel", "--unset", "x", *locked_here)
    assert (unknown.code, "models" in unknown.err) == (2, True)
    created = turnlog("keys", "create", "boss", "--role", "administrator", *locked_here)
    (key,) = (each for each in created.out.split() if each.startswith("tlk_"))
    monkeypatch.setenv("TURNLOG_KEY", key)
    lacking = turnlog("tenants", "set", "default", "--no-models", *locked_here)
    assert (lacking.code, "root key" in lacking.err) == (1, True)
    foreign = turnlog("tenants", "show", "travel", *locked_here)
    assert (foreign.code, "unknown-tenant" in foreign.err) == (3, True)


def test_listening_beyond_this_machine_is_refused_without_any_sign_in(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNLOG_ROOT_KEY", raising=False)
    refused = turnlog("up", "--data-dir", str(tmp_path / "data"), "--http", "0.0.0.0:0")
    assert (refused.code, "unprotected" in refused.err) == (2, True)
    for way in ("TURNLOG_ROOT_KEY", "TURNLOG_ACTOR_PROXIES", "127.0.0.1"):
        assert way in refused.err
