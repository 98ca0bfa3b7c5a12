"""Writes the AsyncAPI document, and JSON Schemas of single types of events.

`make docs` runs it, and a test fails when a committed file differs from its output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnlog.services.api.published_events.asyncapi_document import (
    build_asyncapi,
    build_single_schemas,
)

FOLDER = Path(__file__).parents[1] / "reference"
FILE = FOLDER / "asyncapi.json"
SCHEMAS = FOLDER / "schemas"


def format_document() -> str:
    """Return the text of the document."""
    return _format_json(build_asyncapi())


def format_schemas() -> dict[str, str]:
    """Return the text of each type's schema by the name of its file."""
    return {f"{name}.json": _format_json(each) for name, each in build_single_schemas().items()}


def _format_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(format_document())
    SCHEMAS.mkdir(exist_ok=True)
    texts = format_schemas()
    for stale in {each.name for each in SCHEMAS.iterdir()} - texts.keys():
        (SCHEMAS / stale).unlink()
    for name, text in texts.items():
        (SCHEMAS / name).write_text(text)
    print(FILE, SCHEMAS)
