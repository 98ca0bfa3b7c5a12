"""Values of five fields and more are made with keywords, and so are calls of five arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from tests.conventions.source_tree import iterate_functions, load_modules, parse_module

LIMIT = 5
"""From this many on a reader can no longer tell positional arguments apart."""


def _iterate_dataclasses() -> Iterator[tuple[str, ast.ClassDef, str]]:
    """Yield module, class and decorator of every dataclass."""
    for module in load_modules():
        for node in ast.walk(parse_module(module)):
            if isinstance(node, ast.ClassDef):
                for decorator in map(ast.unparse, node.decorator_list):
                    if decorator.startswith("dataclass"):
                        yield module, node, decorator


def _count_fields(node: ast.ClassDef) -> int:
    """Count the fields that may be given by position if the class as a whole does not forbid it."""
    fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]
    positional = list(takewhile(lambda field: not field.endswith(": KW_ONLY"), fields))
    return sum("ClassVar[" not in field and "init=False" not in field for field in positional)


def test_dataclasses_of_five_fields_are_keyword_only() -> None:
    positional = [
        f"{module}:{node.name}"
        for module, node, decorator in _iterate_dataclasses()
        if _count_fields(node) >= LIMIT and "kw_only=True" not in decorator
    ]
    assert positional == []


def _count_own_parameters() -> dict[str, int]:
    """Return by name how many arguments a function or class of ours can take by position."""
    accepted = dict[str, int]()
    for each in iterate_functions():
        if each.node.args.vararg is None:
            count = len(each.node.args.posonlyargs) + len(each.node.args.args)
            accepted[each.node.name] = max(count, accepted.get(each.node.name, 0))
    for _, node, _ in _iterate_dataclasses():
        accepted[node.name] = _count_fields(node)
    return accepted


def test_calls_of_own_functions_name_five_arguments() -> None:
    own = _count_own_parameters()
    positional = [
        f"{module}:{call.lineno}: {ast.unparse(call.func)}"
        for module in load_modules()
        for call in ast.walk(parse_module(module))
        if isinstance(call, ast.Call)
        and not any(isinstance(each, ast.Starred) for each in call.args)
        # What takes more than any of ours of that name is of a library, such as `Table.add_row`.
        and LIMIT <= len(call.args) <= own.get(ast.unparse(call.func).rpartition(".")[2], 0)
    ]
    assert positional == []
