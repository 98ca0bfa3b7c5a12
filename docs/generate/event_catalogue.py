"""Writes the event catalogue of the web page: family and sentence template of every event type.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from turnlog.services.api.event_sentences import (
    EVENT_FAMILIES,
    EVENT_TEMPLATES,
    UNKNOWN_EVENT_TEMPLATE,
    Placeholder,
    TemplateGroup,
    TemplateItem,
    parse_template,
)

PAGE_FOLDER = Path(str(resources.files("turnlog.services.gateway"))) / "static"
TARGET = PAGE_FOLDER / "events" / "event_catalogue.js"
HEAD = """\
// Family and sentence template by event name. `make docs` writes this file from
// services/api/event_sentences.py; do not edit it.
"""


def build_catalogue() -> str:
    """Return the whole JavaScript file."""
    families = {name: json.dumps(family) for name, family in EVENT_FAMILIES.items()}
    templates = {name: _build_template(template) for name, template in EVENT_TEMPLATES.items()}
    return "\n".join(
        (
            HEAD,
            _build_constant("EVENT_FAMILIES", families),
            _build_constant("EVENT_TEMPLATES", templates),
            f"export const UNKNOWN_EVENT_TEMPLATE = {_build_template(UNKNOWN_EVENT_TEMPLATE)};\n",
        )
    )


def _build_constant(constant: str, values: Mapping[str, str]) -> str:
    lines = "".join(f"  {json.dumps(name)}: {value},\n" for name, value in values.items())
    return f"export const {constant} = {{\n{lines}}};\n"


def _build_template(template: str) -> str:
    items = [_build_item(item) for item in parse_template(template)]
    return json.dumps(items, ensure_ascii=False)


def _build_item(item: TemplateItem | TemplateGroup) -> object:
    match item:
        case str():
            return item
        case Placeholder(path, filters):
            return {"path": path.split("."), "filters": [list(each) for each in filters]}
        case group:
            return [_build_item(each) for each in group]


if __name__ == "__main__":
    TARGET.write_text(build_catalogue())
