"""The web page and the command line describe every event by the same sentence."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

from tests.services.gateway.sentence_samples import list_sentences
from turnlog.events.registry import (
    EVENT_NAMES,
    EVENT_TYPES,
    KnownEvent,
    LibraryEvent,
    format_event_name,
)
from turnlog.services.api.event_sentences import (
    EVENT_FAMILIES,
    EVENT_TEMPLATES,
    Placeholder,
    parse_template,
)

NODE = shutil.which("node")

STATIC = Path(str(resources.files("turnlog.services.gateway"))) / "static"

GENERATOR = Path(__file__).parents[3] / "docs" / "generate" / "event_catalogue.py"

PROGRAM = """
import { readFileSync } from "node:fs";
import { describeEvent, formatEventName, getEventFamily } from "./events/event_sentences.js";
const envelopes = JSON.parse(readFileSync(0, "utf8"));
const described = envelopes.map((envelope) =>
  [getEventFamily(formatEventName(envelope.type)), describeEvent(envelope)]);
console.log(JSON.stringify(described));
"""


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    """Return a copy of the page whose scripts node loads as modules."""
    folder = tmp_path / "page"
    shutil.copytree(STATIC, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "describe.js").write_text(PROGRAM)
    return folder


@pytest.mark.skipif(NODE is None, reason="no `node` on PATH")
def test_web_page_and_command_line_describe_every_event_alike(page_folder: Path) -> None:
    assert NODE
    samples = list_sentences()
    done = subprocess.run(
        [NODE, page_folder / "describe.js"],
        input=json.dumps([envelope for envelope, _ in samples]),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [
        [EVENT_FAMILIES[format_event_name(str(envelope["type"]))], sentence]
        for envelope, sentence in samples
    ]
    assert json.loads(done.stdout) == expected


def test_event_catalogue_of_the_web_page_is_up_to_date() -> None:
    generator = runpy.run_path(str(GENERATOR))
    written = (STATIC / "events" / "event_catalogue.js").read_text()
    assert generator["build_catalogue"]() == written, "it is stale: run `make docs`"


def test_every_event_has_a_template_and_the_family_of_its_class() -> None:
    assert set(EVENT_TEMPLATES) == set(EVENT_NAMES)
    families = {format_event_name(kind.type): kind.leaf for kind in EVENT_TYPES.values()}
    assert {name: EVENT_FAMILIES[name] for name in families} == {
        name: leaf.split(".")[0] for name, leaf in families.items()
    }
    library = {format_event_name(kind.type) for kind in get_args(LibraryEvent)}
    assert {EVENT_FAMILIES[name] for name in library} == {"prompt"}


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.type)
def test_templates_reference_only_fields_of_their_event(kind: type[KnownEvent]) -> None:
    template = parse_template(EVENT_TEMPLATES[format_event_name(kind.type)])
    items = [item for each in template for item in (each if isinstance(each, tuple) else (each,))]
    named = {item.path.split(".")[0] for item in items if isinstance(item, Placeholder)}
    assert named <= set(kind.model_fields)
