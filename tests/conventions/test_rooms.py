"""Folders stay small, nothing imports in a circle, and files and functions stay readable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.conventions.source_tree import (
    MEMBERS,
    iterate_functions,
    load_allowed,
    load_imports,
    load_modules,
)

MAX_FILES = 18
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60


def find_cycle(edges: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def list_packages() -> list[str]:
    packages = {module.rpartition(".")[0] for module in load_modules()} - {"", "turnlog"}
    return sorted(packages)


def build_floor(package: str) -> Mapping[str, set[str]]:
    """Return the imports among the modules and packages directly in a package."""
    depth = package.count(".") + 2
    edges = defaultdict[str, set[str]](set)
    for module, imported in load_imports().items():
        for other in imported:
            if module.startswith(f"{package}.") and other.startswith(f"{package}."):
                ends = (".".join(each.split(".")[:depth]) for each in (module, other))
                before, after = ends
                edges[before] |= {after} - {before}
    return edges


@pytest.mark.parametrize("package", list_packages())
def test_modules_and_packages_of_a_package_do_not_import_in_a_cycle(package: str) -> None:
    assert find_cycle(build_floor(package)) == [], package


def test_modules_do_not_import_in_a_cycle() -> None:
    assert find_cycle({module: set(found) for module, found in load_imports().items()}) == []


def test_folder_has_at_most_eighteen_files() -> None:
    folders = defaultdict[str, int](int)
    for path in load_modules().values():
        folders[str(path.parent)] += path.name != "__init__.py"
    assert {folder: count for folder, count in folders.items() if count > MAX_FILES} == {}


def test_file_does_not_exceed_the_line_limit() -> None:
    lines = {module: path.read_text().count("\n") for module, path in load_modules().items()}
    assert {module: count for module, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_function_does_not_exceed_the_line_limit() -> None:
    long = {each.place for each in iterate_functions() if each.length > MAX_FUNCTION_LINES}
    assert long == load_allowed("function-length")


def test_each_member_is_a_namespace_package_of_its_own() -> None:
    roots = {module.split(".")[1] for module in load_modules() if module.count(".") > 0}
    assert roots == {*MEMBERS, "contract"}, "the client and the services share the contract"
