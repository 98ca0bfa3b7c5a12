"""Segment commands, against a running service and against stored data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up

pytestmark = pytest.mark.slow("commands run against a service of their own")

ROWS = """\
- {id: 1, scope: core, content: You lead a game.}
- {id: 2, scope: npc, ref: npc.a, content: He nods., metadata: {tier: 1, type: npc_cue}}
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with run_blocking_turnlog_up(tmp_path_factory.mktemp("segments") / "data") as up:
        yield "--data-dir", str(up.data_dir)


def test_segments_are_imported_edited_and_shown(
    turnlog: RunCommand, here: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text(ROWS)
    assert "2 rows: 2 added, 0 edited" in turnlog("segments", "import", file, *here).out
    assert "2 rows: 0 added, 0 edited" in turnlog("segments", "import", file, *here).out
    added = turnlog("segments", "add", "npc", "She waves.", "--ref", "npc.b", "--tier", "2", *here)
    assert (added.code, added.out.strip()) == (0, "segment 3 version 1 added")
    edited = turnlog("segments", "edit", "2", "He shrugs.", "-o", "json", *here).json
    assert (edited["segment"], edited["version"]) == (2, 2)
    assert turnlog("segments", "deactivate", "3", *here).code == 0
    output = turnlog("segments", "show", "2", *here).out
    for known in ("npc/npc.a", "He nods.", "He shrugs.", "version 2, variant a, tier 1, npc_cue"):
        assert known in output


def test_faulty_segment_file_is_reported_by_line_and_not_imported(
    turnlog: RunCommand, here: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text("- {scope: core, content: New., id: 90}\n- {scope: Core, content: x}\n")
    ran = turnlog("segments", "import", file, *here)
    assert ran.code == 1
    assert f"{file.name}:2 scope" in ran.out.replace("\n", "")
    file.write_text("- {scope: core, content: New., id: 90}\n\n- {scope: npc, content: x, id: 1}\n")
    ran = turnlog("segments", "import", file, "-o", "json", *here)
    assert (ran.code, ran.json[0]["line"], ran.json[0]["path"]) == (1, 3, "id")
    assert turnlog("segments", "show", "90", *here).code == 3


def test_editing_a_segment_that_changed_meanwhile_is_a_conflict(
    turnlog: RunCommand, here: tuple[str, str]
) -> None:
    number = str(turnlog("segments", "add", "world", "Mist.", "-o", "json", *here).json["segment"])
    turnlog("segments", "edit", number, "Rain.", "--seen", "1", *here)
    ran = turnlog("segments", "edit", number, "Snow.", "--seen", "1", *here)
    assert ran.code == 4
    assert "segment-moved" in ran.err
    assert turnlog("segments", "edit", "999", "x", *here).code == 3
    assert turnlog("segments", "add", "World!", "x", *here).code == 2


def test_segments_are_listed_without_a_service_and_edits_require_one(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    with run_blocking_turnlog_up(tmp_path / "data") as up:
        target = ("--data-dir", str(up.data_dir))
        for number in range(3):
            added = turnlog("segments", "add", "core", f"Rule {number}.", *target)
            assert added.code == 0, added.err
        assert turnlog("segments", "deactivate", "2", *target).code == 0
    listed = turnlog("segments", "list", "-o", "json", *target).json["segments"]
    assert [(each["id"], each["content"], each["active"]) for each in listed] == [
        (1, "Rule 0.", True),
        (2, "Rule 1.", False),
        (3, "Rule 2.", True),
    ]
    assert "Rule 2." in turnlog("segments", "list", "-q", "rule 2", "--active", *target).out
    ran = turnlog("segments", "add", "core", "x", *target)
    assert ran.code != 0
    assert "turnlog up" in ran.err
    assert turnlog("rebuild", *target).code == 0
    assert turnlog("segments", "list", "-o", "json", *target).json["segments"] == listed


PRUNED_ROWS = """\
- {scope: prune, content: One.}
- {scope: prune, content: Two.}
- {scope: prune, content: Three., id: 700}
"""


def test_import_with_prune_switches_off_what_the_files_no_longer_have(
    turnlog: RunCommand, here: tuple[str, str], tmp_path: Path
) -> None:
    def list_active(scope: str) -> list[str]:
        options = ("--scope", scope, "--active", "-o", "json")
        rows = turnlog("segments", "list", *options, *here).json["segments"]
        return [row["content"] for row in rows]

    file = tmp_path / "rows.yaml"
    file.write_text(PRUNED_ROWS)
    turnlog("segments", "add", "elsewhere", "Of another scope.", *here)
    command = ("segments", "import", file, "--prune")
    assert "3 rows: 3 added, 0 edited\n" in turnlog(*command, *here).out
    file.write_text(PRUNED_ROWS.replace("Two.", "Two now.").replace("Three.", "Three now."))
    shown = turnlog(*command, "--dry-run", *here).out
    assert shown.startswith("1 text would be switched off")
    assert "Two." in shown
    plan = turnlog(*command, "--dry-run", "-o", "json", *here).json
    assert [each["variant"] for each in plan["would_deactivate"]] == ["a"]
    assert sorted(list_active("prune")) == ["One.", "Three.", "Two."]
    done = turnlog(*command, *here)
    assert "3 rows: 1 added, 1 edited, 1 switched off" in done.out
    again = turnlog(*command, "-o", "json", *here).json
    assert (again["added"], again["edited"], again["deactivated"]) == ([], [], [])
    assert sorted(list_active("prune")) == ["One.", "Three now.", "Two now."]
    assert list_active("elsewhere") == ["Of another scope."]
