"""The descriptions of models and their fields, as the strings below them in the source.

Pydantic could read them while it creates each class (`use_attribute_docstrings`), which would slow
down every start. A published schema is built once, so its descriptions are read then.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final, get_args, get_type_hints

from pydantic import BaseModel

_NONE_REGEX: Final = re.compile(r"\bNone\b")


def collect_classes(annotations: Iterable[object]) -> set[type]:
    """Return the models and dataclasses of annotations, and all that these contain."""
    found: set[type] = set()
    pending = list(annotations)
    while pending:
        each = pending.pop()
        if not isinstance(each, type):
            pending += get_args(each)
        elif each not in found:
            found.add(each)
            pending += _iterate_field_types(each)
    return found


def _iterate_field_types(kind: type[object]) -> Iterator[object]:
    if issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            yield field.annotation
    elif is_dataclass(kind):
        yield from get_type_hints(kind).values()


def add_field_descriptions(schema: dict[str, Any], kind: type[object]) -> None:
    """Add the description of each field that has one to the JSON Schema of its class.

    What Python calls None is null in JSON.
    """
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    for name, text in read_field_descriptions(kind).items():
        alias = fields[name].alias if name in fields else None
        key = alias or name
        if key in schema.get("properties", {}):
            published = _NONE_REGEX.sub("null", text)
            schema["properties"][key].setdefault("description", published)


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
