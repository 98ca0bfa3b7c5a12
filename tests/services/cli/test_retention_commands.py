"""Policies and holds on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.contract.installation.retention_payloads import DueSessions, DueSessionView
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.retention.retention_view import render_due_sessions


@pytest.fixture(scope="module")
def service_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service; yields the option that names its data directory."""
    folder = tmp_path_factory.mktemp("retention") / "data"
    with run_blocking_turnlog_up(folder):
        yield "--data-dir", str(folder)


def test_policies_are_set_listed_and_removed(
    turnlog: RunCommand, service_here: tuple[str, str]
) -> None:
    assert "no policy, and no hold" in turnlog("retention", "list", *service_here).out
    kept = ("--keep-for", "3650d", "--law", "Commercial Code")
    done = turnlog("retention", "set", "invoices", "--label", "invoice", *kept, *service_here)
    assert done.code == 0, done.err
    assert "invoices · labels invoice · kept for 3650d: Commercial Code" in done.out
    assert "for 0 sessions now" in done.out
    turnlog("retention", "set", "rest", "--all-sessions", "--erase-after", "90d", *service_here)
    listed = turnlog("retention", "list", *service_here).out
    assert "rest · all sessions · erased after 90d" in listed
    for command in ("due", "run"):
        assert "nothing is due" in turnlog("retention", command, *service_here).out
    assert "rest removed" in turnlog("retention", "remove", "rest", *service_here).out
    faulty = turnlog(
        "retention", "set", "x", "--all-sessions", "--erase-after", "0d", *service_here
    )
    assert (faulty.code, "erase_after" in faulty.err) == (1, True)
    empty = turnlog("retention", "set", "x", "--erase-after", "9d", *service_here)
    assert (empty.code, "all_sessions" in empty.err) == (1, True)


def test_holds_are_placed_listed_and_released(
    turnlog: RunCommand, service_here: tuple[str, str]
) -> None:
    why = ("--reason", "case 4711")
    placed = turnlog("hold", "place", "case", "--user", "ann", *why, *service_here)
    assert placed.code == 0, placed.err
    assert "hold case · user ann · case 4711 · by" in placed.out
    assert "hold case" in turnlog("retention", "list", *service_here).out
    over = turnlog("hold", "release", "case", "--reason", "closed", *service_here)
    assert "closed" in over.out
    missing = turnlog("hold", "release", "case", "--reason", "closed", *service_here)
    assert (missing.code, "unknown-hold" in missing.err) == (3, True)


def test_what_keeps_a_due_session_is_shown_without_codes_of_terminals() -> None:
    found = DueSessions(
        at="2026-03-01T00:00:00.000000Z",
        examined=7,
        complete=False,
        erased=0,
        due=1,
        waiting=0,
        held=2,
        retained=0,
        not_sealed=0,
        sessions=(
            DueSessionView(
                session="s",
                policy="rest",
                due="2026-02-01T00:00:00.000000Z",
                outcome="held",
                detail="case \x1b[31m",
            ),
        ),
    )
    console = create_output_console()
    with console.capture() as shown:
        console.print(render_due_sessions(found))
    text = shown.get()
    assert "1 due, 2 held of 7 sessions · there are more" in text
    assert "\x1b" not in text
