"""Knowledge commands against a running service, with the shipped example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
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


def test_import_with_prune_removes_what_the_folder_no_longer_has(
    turnlog: RunCommand, here: tuple[str, str], tmp_path: Path
) -> None:
    for name in ("kept", "deleted"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\nText.\n# Second\nText.\n")
    command = ("knowledge", "import", "pruned", tmp_path)

    def run_import(*options: str) -> tuple[int, int, int]:
        """Import the folder, wait until lists show it, and return what it did."""
        done = turnlog(*command, *options, "-o", "json", *here).json
        wait_for_rows(here, done["sequence"])
        return done["added"], done["edited"], done["removed"]

    def list_sources() -> list[str | None]:
        page = turnlog("knowledge", "list", "pruned", "-o", "json", *here).json
        return sorted((each["source"] for each in page["entries"]), key=str)

    assert turnlog(*command, "--prune", "--dry-run", *here).out.startswith("pruned has nothing")
    assert run_import("--prune") == (4, 0, 0)
    turnlog("knowledge", "add", "pruned", "By hand.", "--id", "by-hand", *here)
    (tmp_path / "deleted.md").unlink()
    (tmp_path / "kept.md").write_text("# kept\nText.\n")
    assert run_import() == (0, 0, 1), "of a file that is still there"
    assert list_sources() == [None, "deleted.md", "deleted.md", "kept.md"]
    shown = turnlog(*command, "--prune", "--dry-run", *here).out
    assert shown.splitlines() == ["pruned: 2 entries would be removed", "  deleted.md  2 entries"]
    plan = turnlog(*command, "--prune", "--dry-run", "-o", "json", *here).json
    assert {each["source"] for each in plan["would_remove"]} == {"deleted.md"}
    assert run_import("--prune") == (0, 0, 2)
    assert list_sources() == [None, "kept.md"]
    assert turnlog(*command, "--dry-run", *here).code == 2


def wait_for_rows(here: tuple[str, str], sequence: int) -> None:
    address = json.loads((Path(here[1]) / "ready.json").read_bytes())["http"]
    path = f"{address}/v1/knowledge/collections"
    httpx.get(path, params={"min_sequence": sequence}, timeout=100).raise_for_status()
