"""The descriptions of models and their fields, as the strings below them in the source.

Pydantic reads them while it builds a class, once for each class, which would slow down every start.
A published schema is built once, so its descriptions are read then.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise


def read_field_descriptions(kind: type) -> dict[str, str]:
    """Return the description of each field that has one, by field name; own before inherited."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("turnlog."):
            found |= _read_module_descriptions(each.__module__).get(each.__qualname__, {})
    return found


@cache
def _read_module_descriptions(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the strings below the fields of each class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    return {each.name: dict(_iterate_descriptions(each)) for each in classes}


def _iterate_descriptions(written: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(written.body):
        match before, after:
            case (
                ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield field, " ".join(text.split())
            case _:
                pass
