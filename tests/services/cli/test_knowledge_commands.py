"""Knowledge commands against a running service, with the shipped example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

SHIPPED = SHIPPED_BLUEPRINTS / "uderia/knowledge"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with run_blocking_turnlog_up(tmp_path_factory.mktemp("knowledge") / "data") as up:
        yield "--data-dir", str(up.data_dir)


def test_the_shipped_example_is_imported_found_and_removed(
    turnlog: RunCommand, here: tuple[str, str]
) -> None:
    first = turnlog("knowledge", "import", "harbour", SHIPPED, *here)
    assert (first.code, "9 entries: 9 added" in first.out) == (0, True)
    again = turnlog("knowledge", "import", "harbour", SHIPPED, *here)
    assert "9 entries: as it was" in again.out
    question = "How many ships left late yesterday?"
    found = turnlog("knowledge", "search", question, "-c", "harbour", "-o", "json", *here).json
    assert found["hits"][0]["id"] == "late-sailings"
    assert found["hits"][0]["confidence"] > 0.5
    listed = turnlog("knowledge", "list", *here).out
    assert "harbour" in listed
    added = turnlog(
        "knowledge", "add", "harbour", "Gulls.", "--id", "gulls", "--kind", "case", *here
    )
    assert "harbour/gulls  1 added" in added.out
    assert "gulls" in turnlog("knowledge", "list", "harbour", *here).out
    assert turnlog("knowledge", "remove", "harbour", "gulls", *here).code == 0
    assert turnlog("knowledge", "remove", "harbour", *here).code == 2
    assert "9 removed" in turnlog("knowledge", "remove", "harbour", "--all", *here).out
    gone = turnlog("knowledge", "search", question, "-c", "harbour", *here)
    assert gone.code == 3
    assert "turnlog knowledge list" in gone.err


def test_import_with_a_faulty_file_changes_nothing_in_the_collection(
    turnlog: RunCommand, here: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "good.md").write_text("# Good\nText.\n")
    (tmp_path / "bad.csv").write_text("text,title\nx,y\nz\n")
    ran = turnlog("knowledge", "import", "faulty", tmp_path, "-o", "json", *here)
    assert (ran.code, ran.json[0]["line"]) == (1, 3)
    assert turnlog("knowledge", "list", "faulty", *here).code == 3
    (tmp_path / "bad.csv").write_text("text,title\nx,y\n")
    assert "2 entries: 2 added" in turnlog("knowledge", "import", "faulty", tmp_path, *here).out
    (tmp_path / "good.md").write_text("# Good\nOther.\n# Second\nText.\n")
    (tmp_path / "bad.csv").unlink()
    edited = turnlog("knowledge", "import", "faulty", tmp_path, *here).out
    assert "2 entries: 1 added, 1 edited" in edited
