"""A route is a few lines over a use case, and no route knows another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.conventions.source_tree import (
    SourceFunction,
    iterate_functions,
    load_imports,
    load_modules,
)

MAX_ROUTE_LINES = 17
"""Lines of a body without its docstring; the longest chooses between three forms of answer."""

METHODS = {"get", "post", "put", "patch", "delete"}


def list_route_modules() -> frozenset[str]:
    return frozenset(module for module in load_modules() if module.endswith("_routes"))


def iterate_routes() -> Iterator[SourceFunction]:
    for function in iterate_functions():
        if function.module in list_route_modules() and function.decorators & METHODS:
            yield function


def count_body_lines(function: SourceFunction) -> int:
    body = function.node.body
    if ast.get_docstring(function.node):
        body = body[1:]
    return sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in body)


def test_a_route_is_a_few_lines_over_a_use_case() -> None:
    lines = {route.place: count_body_lines(route) for route in iterate_routes()}
    assert len(lines) > 50
    assert {place: count for place, count in lines.items() if count > MAX_ROUTE_LINES} == {}


def test_no_module_of_routes_imports_another() -> None:
    routes, imports = list_route_modules(), load_imports()
    assert {module: found for module in routes if (found := imports[module] & routes)} == {}


def test_a_route_works_with_use_cases_and_no_part_behind_them() -> None:
    behind = ("turnlog.services.sessions", "turnlog.services.audit", "turnlog.services.bundle")
    imports = load_imports()
    assert {
        module: found
        for module in list_route_modules()
        if (found := [each for each in imports[module] if each.startswith(behind)])
    } == {}
