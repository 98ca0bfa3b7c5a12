"""Whole tutor prompts for people to read, one file a variant.

The test writes a missing file and then fails: read the file and commit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from tests.parts.windows import drawn
from tests.tutor.classroom import DRAW, SHARE
from tests.tutor.lessons import Lesson, opened, shipped, shipped_files
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.chat_request import encode_canonical
from turnlog.projections.prompt.session_material import SessionMaterial

GOLDEN = Path(__file__).with_name("golden")

PERSONA = "You are the Trickster."
LEAST: Final[dict[str, JsonValue]] = {
    "safety": {"content_boundaries": ["weapons"], "intensity_ceiling": "low"},
    "phases": {
        "start": "talk",
        "talk": {
            "kind": "freeform", "min_exchanges": 1, "ai_transitions": {"on_success": "debrief"},
        },
        "debrief": {"kind": "debrief"},
    },
}  # fmt: skip
"""The smallest valid cartridge."""
SPARSE: Final[dict[str, JsonValue]] = {
    **LEAST,
    "ai_config": {"persona_mode": ""},
    "evaluation": {
        "patterns_embedded": ["false urgency"],
        "checklist": [],
        "pass_conditions": None,
    },
}


def full() -> Lesson:
    """A session with every layer: a choice, provider-specific text and a withheld reply."""
    files = {**shipped_files(SHARE), "provider": shipped_files(DRAW)["provider"]}
    lesson = opened(shipped(SHARE), files).chosen("share")
    lesson = lesson.asked("Have you read it?").answered("No need! Everybody shares it already.")
    return lesson.asked("Who says so?").answered("Ask trick@example.org.", unsafe=True)


def sparse() -> Lesson:
    """One file, one filled field, no choices."""
    material = SessionMaterial(shipped(SHARE).blueprint, SPARSE)
    return opened(material, {"persona": PERSONA}, locale="fr").asked("Why?").answered("Because.")


def empty() -> Lesson:
    """No file, no field, and nothing is said."""
    return opened(SessionMaterial(shipped(SHARE).blueprint, LEAST), {}).asked("").answered("")


def withheld_at_last() -> Lesson:
    """A session whose dialogue ends by the exchange limit after a withheld reply."""
    lesson = opened(shipped(DRAW), shipped_files(DRAW))
    for number in range(3):
        lesson = lesson.asked(f"Why {number}?").answered(f"Because {number}.")
    return lesson.asked("Why 3?").answered("Ask trick@example.org.", unsafe=True)


VARIANTS: dict[str, Callable[[], Lesson]] = {
    "dialogue full": lambda: full().asked("And why now?"),
    "dialogue sparse": lambda: sparse().asked("Why not?"),
    "dialogue empty": lambda: empty().asked(""),
    "dialogue first": lambda: opened(shipped(DRAW), shipped_files(DRAW)).asked("Labas"),
    "debrief full": lambda: full().asked("I see.").answered("You do.", signal="understood"),
    "debrief sparse": lambda: sparse().asked("I see.").answered("Oh.", signal="understood"),
    "debrief empty": lambda: empty().asked("").answered("", signal="understood"),
    "debrief after a withheld reply": withheld_at_last,
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_prompt_is_as_it_was(variant: str) -> None:
    file = GOLDEN / f"{variant.replace(' ', '-')}.txt"
    found = text(VARIANTS[variant]().assembled)
    if not file.exists():
        file.write_text(found)
        pytest.fail(f"{file.name} is new: read it, and commit it")
    assert found == file.read_text()


def test_no_golden_file_is_left_that_nobody_draws() -> None:
    drawn_files = {f"{variant.replace(' ', '-')}.txt" for variant in VARIANTS}
    assert {file.name for file in GOLDEN.iterdir()} == drawn_files


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_layer_that_is_absent_leaves_no_gap(variant: str) -> None:
    system = VARIANTS[variant]().assembled.request.messages[0].content
    assert system == system.strip("\n")
    assert "\n\n\n" not in system


def text(found: AssembledPrompt) -> str:
    """Draw a prompt with its tools, what was left out of it, and its digest."""
    tools = "".join(f"──── tool ────\n{encode_canonical(tool)}\n" for tool in found.request.tools)
    parts = [part for part in found.manifest.parts if not part.is_included]
    absent = "".join(f"{part.layer}: {part.treatment}, {part.rule}\n" for part in parts)
    account = f"════ {found.manifest.kind}\n{absent}{found.manifest.digest}\n"
    return drawn(found.request) + tools + account
