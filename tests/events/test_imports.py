"""What a consumer of typed events installs and loads."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import turnlog.events
from tests.docs.doc_pages import ROOT
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import EVENT_TYPES

LOADED = """
import importlib, sys
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def normalize_distribution(requirement: str) -> str:
    """Return the name of a distribution that is required, in the form in which names compare."""
    return re.split(r"[^\w.-]", requirement)[0].replace("_", "-").lower()


def list_installed_packages(*distributions: str) -> set[str]:
    """Return the top-level packages of distributions and of all that they require."""
    found, new = set[str](), {*distributions}
    while new:
        found |= new
        lines = [line for name in new for line in metadata.requires(name) or ()]
        new = {normalize_distribution(line) for line in lines if ";" not in line} - found
    return {
        package
        for package, owners in metadata.packages_distributions().items()
        if found & set(map(normalize_distribution, owners))
    }


def list_loaded_packages(module: str) -> set[str]:
    """Return the top-level packages that an import loads, beyond those of the interpreter."""
    command = [sys.executable, "-c", LOADED, module]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    names = set(run.stdout.split())
    return {name for name in names - sys.stdlib_module_names if not name.startswith("_")}


@pytest.mark.parametrize(
    "module",
    [
        "turnlog.events",
        "turnlog.events.codec",
        "turnlog.events.registry",
        "turnlog.events.tokens",
        "turnlog.events.store.memory_log",
        "turnlog.events.testing",
    ],
)
def test_typed_events_import_pydantic_and_nothing_else(module: str) -> None:
    allowed = list_installed_packages("pydantic")
    assert list_loaded_packages(module) <= {"turnlog"} | allowed


def test_package_imports_nothing_until_a_name_is_used() -> None:
    assert list_loaded_packages("turnlog.events") == {"turnlog"}
    assert list_loaded_packages("turnlog.events.errors") == {"turnlog"}


DECODING = """
import sys
from pathlib import Path
from turnlog.events.codec import TypedEnvelope, decode_event
print(len(TypedEnvelope.__subclasses__()))
for _ in range(2):
    decode_event(Path(sys.argv[1]).read_bytes().strip(), 1)
    print([each.__name__ for each in TypedEnvelope.__subclasses__()])
"""


def test_codec_builds_the_envelope_of_a_type_on_first_use() -> None:
    golden = Path(__file__).parent / "golden" / "turn-submitted.v1.json"
    command = [sys.executable, "-c", DECODING, str(golden)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == ["0", *["['TurnSubmittedEnvelope']"] * 2]


def test_every_exported_name_exists_and_every_event_is_exported() -> None:
    named = {name: getattr(turnlog.events, name) for name in turnlog.events.__all__}
    assert set(EVENT_TYPES.values()) <= set(named.values())
    assert named["RecordedEvent"] is RecordedEvent
    assert not hasattr(turnlog.events, "Rumoured")


def test_package_is_what_its_generator_writes() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate/event_exports.py"))
    text = generator["PACKAGE"].read_text()
    assert generator["build_package"](text) == text
    lost = text.replace("        TurnQueued,\n", "").replace('    "TurnQueued",\n', "")
    assert generator["build_package"](lost) == text


def test_consumer_imports_the_nats_client_and_no_part_of_a_service() -> None:
    loaded = list_loaded_packages("turnlog.events.jetstream")
    assert "nats" in loaded
    assert loaded & {"fastapi", "faststream", "litellm", "opentelemetry", "sqlalchemy"} == set()
