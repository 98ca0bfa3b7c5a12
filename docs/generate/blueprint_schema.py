"""Writes the JSON Schema of `blueprint.yaml`, which editors use for completion and help.

`make docs` runs it, and a test fails when the committed file differs from its output.
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

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.strict_model import StrictModel

TARGET = Path(__file__).parents[1] / "reference" / "blueprint.schema.json"


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema, each field described by the string below it in the source."""
    made = Blueprint.model_json_schema(by_alias=True)
    for kind in _iterate_models(StrictModel):
        place = made if kind is Blueprint else made["$defs"].get(kind.__name__)
        if place:
            _add_descriptions(place, kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _iterate_models(kind: type[StrictModel]) -> Iterator[type[StrictModel]]:
    for below in kind.__subclasses__():
        yield below
        yield from _iterate_models(below)


def _add_descriptions(place: dict[str, Any], kind: type[StrictModel]) -> None:
    for name, field in kind.model_fields.items():
        said = next(
            (texts[name] for texts in map(_read_descriptions, kind.__mro__) if name in texts), None
        )
        if said:
            place["properties"][field.alias or name]["description"] = said


def _read_descriptions(kind: type) -> dict[str, str]:
    """Return the strings below the fields of one class, by field name."""
    if not issubclass(kind, StrictModel) or kind is StrictModel:
        return {}
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    lines = written.body if isinstance(written, ast.ClassDef) else []
    return dict(
        pair for before, after in pairwise(lines) for pair in _match_description(before, after)
    )


def _match_description(before: ast.stmt, after: ast.stmt) -> Iterator[tuple[str, str]]:
    match before, after:
        case (
            ast.AnnAssign(target=ast.Name(id=word)),
            ast.Expr(value=ast.Constant(value=str(said))),
        ):
            yield word, " ".join(said.split())
        case _:
            pass


def format_reference() -> str:
    """Return the text of the file."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(format_reference())
    print(TARGET)
