"""Every promise in docs/faults.md is shown by tests that name it, and the page names them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[2]

PAGE = HOUSE / "docs/faults.md"

ROW = re.compile(r"^\| (P\d+) \| ", re.MULTILINE)

MARK = "pytest.mark.promise"

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def iterate_promise_tests() -> Iterator[tuple[str, str, str]]:
    """Iterate over the promises with the file and the name of each test that shows them."""
    for file in (HOUSE / "tests").rglob("test_*.py"):
        source = file.read_bytes()
        if MARK.encode() not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for promise in iterate_promises(node):
                    yield promise, str(file.relative_to(HOUSE)), node.name


def iterate_promises(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
            for name in mark.args:
                assert isinstance(name, ast.Constant)
                yield str(name.value)


def test_every_promise_on_the_page_has_a_test_that_names_it() -> None:
    promised = set(ROW.findall(PAGE.read_text()))
    assert {f"P{number}" for number in (*range(1, 15), *range(18, 21))} <= promised
    assert promised == {promise for promise, _, _ in iterate_promise_tests()}


def test_every_test_on_the_page_exists_and_names_its_promise() -> None:
    promise_tests = set(iterate_promise_tests())
    for line in PAGE.read_text().splitlines():
        if row := ROW.match(line + "\n"):
            named = NAMED.findall(line)
            assert named, f"{row[1]} names no test"
            for file, test in named:
                assert (row[1], file, test) in promise_tests, (
                    f"{file}::{test} does not name {row[1]}"
                )
