"""Whole tutor prompts for people to read, one file a variant.

The test writes a missing file and then fails: read the file and commit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from tests.layered_prompts.tutor_service import DRAW, SHARE
from tests.layered_prompts.tutor_sessions import (
    TutorSession,
    load_shipped_material,
    open_tutor_session,
    read_shipped_files,
)
from tests.support.sessions.prompt_assembly import draw_prompt
from turnlog.events.content import encode_canonical
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.sources.session_material import SessionMaterial

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


def build_full_session() -> TutorSession:
    """A session with every layer: a choice, provider-specific text and a withheld reply."""
    files = {**read_shipped_files(SHARE), "provider": read_shipped_files(DRAW)["provider"]}
    lesson = open_tutor_session(load_shipped_material(SHARE), files).record_choice("share")
    lesson = lesson.submit_text("Have you read it?").answer_turn(
        "No need! Everybody shares it already."
    )
    return lesson.submit_text("Who says so?").answer_turn("Ask trick@example.org.", unsafe=True)


def build_sparse_session() -> TutorSession:
    """One file, one filled field, no choices."""
    material = SessionMaterial(blueprint=load_shipped_material(SHARE).blueprint, cartridge=SPARSE)
    return (
        open_tutor_session(material, {"persona": PERSONA}, locale="fr")
        .submit_text("Why?")
        .answer_turn("Because.")
    )


def build_empty_session() -> TutorSession:
    """No file, no field, and nothing is said."""
    return (
        open_tutor_session(
            SessionMaterial(blueprint=load_shipped_material(SHARE).blueprint, cartridge=LEAST), {}
        )
        .submit_text("")
        .answer_turn("")
    )


def build_withheld_session() -> TutorSession:
    """A session whose dialogue ends by the exchange limit after a withheld reply."""
    lesson = open_tutor_session(load_shipped_material(DRAW), read_shipped_files(DRAW))
    for number in range(3):
        lesson = lesson.submit_text(f"Why {number}?").answer_turn(f"Because {number}.")
    return lesson.submit_text("Why 3?").answer_turn("Ask trick@example.org.", unsafe=True)


VARIANTS: dict[str, Callable[[], TutorSession]] = {
    "dialogue full": lambda: build_full_session().submit_text("And why now?"),
    "dialogue sparse": lambda: build_sparse_session().submit_text("Why not?"),
    "dialogue empty": lambda: build_empty_session().submit_text(""),
    "dialogue first": lambda: open_tutor_session(
        load_shipped_material(DRAW), read_shipped_files(DRAW)
    ).submit_text("Labas"),
    "debrief full": lambda: (
        build_full_session().submit_text("I see.").answer_turn("You do.", signal="understood")
    ),
    "debrief sparse": lambda: (
        build_sparse_session().submit_text("I see.").answer_turn("Oh.", signal="understood")
    ),
    "debrief empty": lambda: (
        build_empty_session().submit_text("").answer_turn("", signal="understood")
    ),
    "debrief after a withheld reply": build_withheld_session,
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_prompt_matches_its_golden_file(variant: str) -> None:
    file = GOLDEN / f"{variant.replace(' ', '-')}.txt"
    found = format_prompt(VARIANTS[variant]().assembled)
    if not file.exists():
        file.write_text(found)
        pytest.fail(f"{file.name} is new: read it, and commit it")
    assert found == file.read_text()


def test_every_golden_file_belongs_to_a_test_case() -> None:
    drawn_files = {f"{variant.replace(' ', '-')}.txt" for variant in VARIANTS}
    assert {file.name for file in GOLDEN.iterdir()} == drawn_files


@pytest.mark.parametrize("variant", VARIANTS)
def test_absent_layer_leaves_no_blank_lines(variant: str) -> None:
    system = VARIANTS[variant]().assembled.request.messages[0].content
    assert system == system.strip("\n")
    assert "\n\n\n" not in system


def format_prompt(found: AssembledPrompt) -> str:
    """Draw a prompt with its tools, what was left out of it, and its digest."""
    tools = "".join(f"──── tool ────\n{encode_canonical(tool)}\n" for tool in found.request.tools)
    parts = [part for part in found.manifest.parts if not part.is_included]
    absent = "".join(f"{part.layer}: {part.treatment}, {part.rule}\n" for part in parts)
    account = f"════ {found.manifest.kind}\n{absent}{found.manifest.digest}\n"
    return draw_prompt(found.request) + tools + account
