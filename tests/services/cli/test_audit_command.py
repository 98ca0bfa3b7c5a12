"""The log of reads on a terminal, against a service that asks for keys."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up

ROOT_KEY = "the-root-key-of-a-service-under-test"


@pytest.fixture(scope="module")
def reasoned_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that asks for keys and for reasons; yields the option of its data directory."""
    folder = tmp_path_factory.mktemp("reasoned") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_ROOT_KEY", ROOT_KEY)
        patch.setenv("TURNLOG_REQUIRE_REASON", "on")
        with run_blocking_turnlog_up(folder):
            yield "--data-dir", str(folder)


@pytest.mark.slow("half a dozen commands, each with a new connection")
def test_looks_of_commands_are_listed_with_their_reasons(
    turnlog: RunCommand, reasoned_here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_KEY", ROOT_KEY)
    assert "sign_in" not in turnlog("sessions", *reasoned_here).out, "no reason is needed"
    assemble = ("assemble", "assistant", "--text", "Hi")
    refused = turnlog(*assemble, *reasoned_here)
    assert (refused.code, "reason-missing" in refused.err, "--reason" in refused.err) == (
        *(1, True),
        True,
    )
    assert turnlog(*assemble, "--reason", "ticket 4711, \u5ba2\u8bc9", *reasoned_here).code == 0
    listed = turnlog("audit", "--reason", "a look", "-o", "json", *reasoned_here)
    (found,) = json.loads(listed.out)["reads"]
    assert (found["what"], found["actor"], found["sign_in"]) == (
        *("assembly", "key:root"),
        "root-key",
    )
    assert (found["reason"], found["address"]) == ("ticket 4711, \u5ba2\u8bc9", "127.0.0.1")
    table = turnlog("audit", "--limit", "1", "--reason", "again", *reasoned_here).out
    assert ("a look" in table, "4711" in table, "--before" in table) == (True, False, True)
    only = turnlog("audit", "--what", "assembly", "--reason", "x", *reasoned_here).out
    assert ("4711" in only, "a look" in only) == (True, False)
    faulty = turnlog(*assemble, "--reason", "a\nb", *reasoned_here)
    assert (faulty.code, "printable" in faulty.err) == (2, True)
    none = turnlog("audit", "--actor", "user:eve", "--reason", "x", *reasoned_here).out
    assert "nobody looked" in none
