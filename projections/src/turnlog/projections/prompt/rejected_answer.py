"""The rejected answer of the attempt before, and what was wrong with it, at the end of a prompt.

Both are texts of the event that ended that attempt. So the prompt of the next attempt is another
one, which supersedes the recorded one, and is assembled again from the log like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from turnlog.events.model.manifest import EventTextSource, TextTruncation
from turnlog.projections.blueprint.schema.call_specs import DEFAULT_MESSAGE_FORMAT
from turnlog.projections.blueprint.schema.layer_specs import (
    CORRECTION_LAYER,
    OUTPUT_COMPONENT,
    REJECTED_LAYER,
)
from turnlog.projections.prompt.deferred_part import DeferredPart
from turnlog.projections.prompt.prompt_plan import PlannedMessage
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef

MAX_REJECTED_CHARACTERS: Final = 8_000
"""Most characters of a rejected answer that the next attempt is shown."""

REJECTED_RULE: Final = "the answer was rejected"
"""Rule that a manifest names for both parts."""


def plan_rejected_answer(
    material: SessionMaterial, state: SessionState, kind: str
) -> DeferredPart[tuple[PlannedMessage, ...]] | None:
    """Plan the two messages about the rejected answer of the current call; None without one."""
    opened = state.open
    if opened is None or opened.rejected is None or opened.summing is not None:
        return None
    if kind != material.find_call_kind(state):
        return None
    text_ref, correction_ref = opened.rejected.text, opened.rejected.correction

    def build(texts: Sequence[str]) -> tuple[PlannedMessage, ...]:
        text, correction = texts
        return (
            _build_message("assistant", REJECTED_LAYER, text_ref, text),
            _build_message("user", CORRECTION_LAYER, correction_ref, correction),
        )

    return DeferredPart((text_ref, correction_ref), build)


def _build_message(
    role: Literal["assistant", "user"], layer: str, ref: TextRef, text: str
) -> PlannedMessage:
    form = DEFAULT_MESSAGE_FORMAT
    source = EventTextSource(sequence=ref.sequence, field=ref.field)
    piece = LayerPiece(source=source, full_text=text, rule=REJECTED_RULE)
    shown = text[:MAX_REJECTED_CHARACTERS]
    if shown != text:
        piece = replace(piece, cut=TextTruncation(of=len(text), to=len(shown)))
    included = include_text(piece, shown, form)
    if included.cut:
        included = replace(included, treatment="trimmed")
    block = LayerBlock(
        layer=layer, component=OUTPUT_COMPONENT, keep=True, form=form, pieces=(included,)
    )
    return PlannedMessage(role=role, form=form, blocks=(block,))
