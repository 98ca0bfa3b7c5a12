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
from tests.services.gateway import listed_routes
from turnlog.contract import api_paths

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


PATHS_MODULE = "turnlog.contract.api_paths"


def iterate_written_paths() -> Iterator[str]:
    """Yield the places of texts that begin with a path, whether or not its fields are filled in.

    Those that begin otherwise are sentences, and addresses to copy from a terminal.
    """
    for module, file in load_modules().items():
        tree = ast.parse(file.read_text())
        parts = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in node.values[1:]
        }
        constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        for node in constants:
            text = node.value if id(node) not in parts else None
            if isinstance(text, str) and text.startswith("/v1/"):
                yield f"{module}:{node.lineno}"


WITHOUT_CONTRACT = "turnlog.projections.session_views.withheld_events"
"""It names where stored bytes are; projections install no package of HTTP."""


def test_paths_are_written_in_the_contract_alone() -> None:
    modules = {place.partition(":")[0] for place in iterate_written_paths()}
    assert modules == {PATHS_MODULE, WITHOUT_CONTRACT}


def test_paths_of_the_contract_are_those_of_the_routes() -> None:
    texts = [value for value in vars(api_paths).values() if isinstance(value, str)]
    paths = sorted(text for text in texts if text.startswith("/v1/"))
    assert paths == sorted({path for _, path in listed_routes.iterate_routes()})


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
