"""Writes the JSON Schema of `blueprint.yaml`, which editors use for completion and help.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.strict_model import StrictModel
from turnlog.services.api.published_events.field_docstrings import add_field_descriptions

TARGET = Path(__file__).parents[1] / "reference" / "blueprint.schema.json"


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema, each field described by the string below it in the source."""
    made = Blueprint.model_json_schema(by_alias=True)
    for kind in _iterate_models(StrictModel):
        place = made if kind is Blueprint else made["$defs"].get(kind.__name__)
        if place:
            add_field_descriptions(place, kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _iterate_models(kind: type[StrictModel]) -> Iterator[type[StrictModel]]:
    for below in kind.__subclasses__():
        yield below
        yield from _iterate_models(below)


def format_reference() -> str:
    """Return the text of the file."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(format_reference())
    print(TARGET)
