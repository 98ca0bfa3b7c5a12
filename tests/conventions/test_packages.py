from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

HOUSE = Path(__file__).parents[2]

FOLDERS = (".", "events", "projections", "services", "client")


def read_project(folder: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((HOUSE / folder / "pyproject.toml").read_text())[
        "project"
    ]
    return table


def test_all_packages_have_one_version() -> None:
    assert len({read_project(folder)["version"] for folder in FOLDERS}) == 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_packages_pin_each_other_to_the_same_version(folder: str) -> None:
    version = read_project(folder)["version"]
    own = [name for name in read_project(folder)["dependencies"] if name.startswith("turnlog")]
    assert [name for name in own if not name.endswith(f"=={version}")] == []


def test_events_package_depends_on_pydantic_alone() -> None:
    assert [re.split(r"[<>=\[]", name)[0] for name in read_project("events")["dependencies"]] == [
        "pydantic"
    ]


@pytest.mark.parametrize("pins", sorted(path.name for path in HOUSE.glob("requirements*.txt")))
def test_every_requirement_is_pinned_with_a_hash_and_names_no_registry(pins: str) -> None:
    text = (HOUSE / pins).read_text().replace("\\\n", "")
    for requirement in text.splitlines():
        assert re.match(r"^[a-z0-9.-]+==\S+ .*--hash=sha256:", requirement), requirement
    assert "://" not in text
    assert "--index" not in text
