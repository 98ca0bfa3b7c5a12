"""Writes the JSON Schema of `blueprint.yaml`, by which editors complete and explain its words.

`make docs` runs it, and a test fails when what is committed is not what it would write.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.strict import Strict

TARGET = Path(__file__).parents[1] / "reference" / "blueprint.schema.json"


def schema() -> dict[str, Any]:
    """Give the schema, each word with the sentence that explains it in the source."""
    made = Blueprint.model_json_schema(by_alias=True)
    for kind in _kinds(Strict):
        place = made if kind is Blueprint else made["$defs"].get(kind.__name__)
        if place:
            _explain(place, kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _kinds(kind: type[Strict]) -> Iterator[type[Strict]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def _explain(place: dict[str, Any], kind: type[Strict]) -> None:
    for word, field in kind.model_fields.items():
        said = next((told[word] for told in map(_told, kind.__mro__) if word in told), None)
        if said:
            place["properties"][field.alias or word]["description"] = said


def _told(kind: type) -> dict[str, str]:
    """Read the sentences under the words of one class."""
    if not issubclass(kind, Strict) or kind is Strict:
        return {}
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    lines = written.body if isinstance(written, ast.ClassDef) else []
    return dict(pair for before, after in pairwise(lines) for pair in _pair(before, after))


def _pair(before: ast.stmt, after: ast.stmt) -> Iterator[tuple[str, str]]:
    match before, after:
        case (
            ast.AnnAssign(target=ast.Name(id=word)),
            ast.Expr(value=ast.Constant(value=str(said))),
        ):
            yield word, " ".join(said.split())
        case _:
            pass


def reference() -> str:
    """Give the whole file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference())
    print(TARGET)
