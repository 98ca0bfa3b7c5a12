"""Asynchronous fixtures yield values that are not formatted.

`asyncio.Runner.run` formats the result of its task, for `signal.getsignal` tries whether the handler
that names the task is a member of an enumeration. The generated `__repr__` of a service formats its
whole log, which took half of the processor time of `tests/agent_programs`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.conventions.source_tree import ROOT


@cache
def parse_tests() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(path.read_bytes()) for path in sorted((ROOT / "tests").rglob("*.py")))


def iterate_fixture_types() -> Iterator[str]:
    """Yield the name of every class that an asynchronous fixture names as its type."""
    for tree in parse_tests():
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef) and node.returns:
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                if "fixture" in decorators:
                    yield from re.findall(r"[A-Z]\w+", ast.unparse(node.returns))


def has_generated_repr(node: ast.ClassDef) -> bool:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    return any(each.startswith("dataclass") and "repr=False" not in each for each in decorators)


def test_the_value_of_an_asynchronous_fixture_has_no_generated_repr() -> None:
    types = set(iterate_fixture_types())
    classes = [
        node
        for tree in parse_tests()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in types
    ]
    assert classes
    assert [node.name for node in classes if has_generated_repr(node)] == []
