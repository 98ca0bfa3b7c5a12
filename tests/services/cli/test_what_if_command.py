"""What-if, pin and upgrade commands, against a service with a session."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.services.cli.conftest import RecordedSession, RunCommand
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS


def test_what_if_with_a_blueprint_folder_reports_all_sessions_of_that_blueprint(
    turnlog: RunCommand, played: RecordedSession, tmp_path: Path
) -> None:
    folder = tmp_path / "assistant"
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder)
    (folder / "persona.md").write_text("You are brief.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    report = tmp_path / "report.html"
    ran = turnlog("what-if", "--blueprint", folder, "--html", report, "-o", "json", *played.here)
    assert ran.code == 0, ran.err
    assert ran.json["blueprint"]["blueprint"] == "assistant"
    sessions = {each["session"]: each for each in ran.json["sessions"]}
    mine = sessions[played.session]
    assert (mine["calls"], mine["again"]) == (3, 3)
    assert [(one["layer"], one["how"]) for one in mine["altered"]] == [("persona", "changed")]
    assert mine["after"]["tokens"] < mine["before"]["tokens"]
    assert played.session in report.read_text()


def test_what_if_requires_a_change_and_a_valid_blueprint_folder(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("what-if", played.session, *played.here)
    assert (ran.code, "the request names no change" in ran.err) == (2, True)
    ran = turnlog("what-if", "--blueprint", played.up.data_dir, *played.here)
    assert (ran.code, "blueprint.yaml" in ran.err) == (3, True)


def test_what_if_changes_a_setting_of_a_ladder(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    change = ("--ladder", "drop_oldest_pairs.to=80%")
    ran = turnlog("what-if", played.session, *change, *played.here)
    assert ran.code == 0, ran.err
    assert "what if drop_oldest_pairs to 80%" in ran.out
    assert "3 of 3" in ran.out
    ran = turnlog("what-if", played.session, "--ladder", "to=80%", *played.here)
    assert (ran.code, "write it as STEP.SETTING=VALUE" in ran.err) == (2, True)


def test_pinned_and_move_commands_report_versions_and_outcome(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("blueprint", "pinned", "assistant", *played.here)
    assert ran.code == 0, ran.err
    assert "version 1" in ran.out
    assert "the same" in ran.out
    digest = next(line.strip() for line in ran.out.splitlines() if line.startswith("  sha256:"))
    ran = turnlog("sessions", "--open", "--digest", digest, "-o", "json", *played.here)
    assert played.session in {each["session"] for each in ran.json["sessions"]}
    ran = turnlog("blueprint", "move", played.session, *played.here)
    assert (ran.code, "already" in ran.out) == (0, True)
    ran = turnlog("blueprint", "move", played.session, "--to", "sha256:" + "0" * 64, *played.here)
    assert (ran.code, "read the blueprint" in ran.err) == (4, True)
