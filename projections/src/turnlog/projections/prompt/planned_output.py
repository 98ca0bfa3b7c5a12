"""The form of a call's answer in its prompt: its schema, and what was wrong with the answer before.

The schema is a parameter, or stated in the first message. Either way it is one part of the
manifest, counted like any other. The schema that a model is asked for is that by which its answer
is validated, except for a plan, whose faults are repaired.

A rejected answer and what was wrong with it are at the end of the prompt. Both are texts of the
event that ended that attempt. So the prompt of the next attempt is another one, which supersedes
the recorded one, and is assembled again from the log like any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.model.manifest import (
    BlueprintTextSource,
    EventTextSource,
    PromptPart,
    TextTruncation,
)
from turnlog.projections.blueprint.schema.call_specs import (
    DEFAULT_MESSAGE_FORMAT,
    CallSpec,
    MessageFormat,
    OutputSpec,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    CORRECTION_LAYER,
    OUTPUT_COMPONENT,
    OUTPUT_LAYER,
    REJECTED_LAYER,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.deferred_part import DeferredPart
from turnlog.projections.prompt.prompt_plan import PlannedMessage, PromptPlan
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.structured_output.output_requests import (
    RESPONSE_FORMAT,
    OutputRequest,
    has_output_to_request,
)
from turnlog.projections.structured_output.schema_repair import JsonSchema
from turnlog.projections.structured_output.strict_schemas import is_strict_schema
from turnlog.projections.tools.parsed_plan import PLAN_OUTPUT_SCHEMA

SCHEMA_INSTRUCTION: Final = (
    "Your answer is one JSON value that matches this JSON Schema, with nothing before or after it:"
)


def get_requested_schema(spec: OutputSpec) -> JsonSchema:
    """Return the schema that a model is asked for; a schema file has been loaded by then."""
    return spec.schema_ if isinstance(spec.schema_, dict) else PLAN_OUTPUT_SCHEMA


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """The schema of a call's answer, and how it is asked for."""

    kind: str
    """The blueprint's name of the call."""
    schema: JsonSchema
    request: OutputRequest

    @property
    def schema_text(self) -> str:
        """The schema as JSON, its words in the order of their author."""
        return json.dumps(self.schema, ensure_ascii=False)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The parameters of the request, beside those of the blueprint."""
        if self.request.by != RESPONSE_FORMAT:
            return {}
        named: JsonSchema = {
            "name": self.kind[:64],
            "schema": self.schema,
            "strict": is_strict_schema(self.schema),
        }
        return {RESPONSE_FORMAT: {"type": "json_schema", "json_schema": named}}

    def list_parts(self, counting: TokenCounter) -> tuple[PromptPart, ...]:
        """Return the part of a schema that is sent beside the messages; none if one states it."""
        if self.request.by != RESPONSE_FORMAT:
            return ()
        text = self.schema_text
        part = PromptPart(
            layer=OUTPUT_LAYER,
            component=OUTPUT_COMPONENT,
            source=BlueprintTextSource(text=text),
            role=RESPONSE_FORMAT,
            characters=len(text),
            tokens=counting.count_tokens(text),
            rule=self.request.because,
        )
        return (part,)

    def add_to(self, plan: PromptPlan) -> PromptPlan:
        """Return a plan whose first system message states the schema, if a message does."""
        if self.request.by == RESPONSE_FORMAT:
            return plan
        for place, slot in enumerate(plan):
            if isinstance(slot, PlannedMessage) and slot.role == "system":
                blocks = (*slot.blocks, self._build_block(slot.form))
                return (*plan[:place], replace(slot, blocks=blocks), *plan[place + 1 :])
        form = DEFAULT_MESSAGE_FORMAT
        return (PlannedMessage(role="system", form=form, blocks=(self._build_block(form),)), *plan)

    def _build_block(self, form: MessageFormat) -> LayerBlock:
        text = f"{SCHEMA_INSTRUCTION}\n{self.schema_text}"
        piece = LayerPiece(
            source=BlueprintTextSource(text=text), full_text=text, rule=self.request.because
        )
        pieces = (include_text(piece, text, form),)
        return LayerBlock(
            layer=OUTPUT_LAYER, component=OUTPUT_COMPONENT, keep=True, form=form, pieces=pieces
        )


def plan_output(kind: str, spec: CallSpec, request: OutputRequest | None) -> PlannedOutput | None:
    """Plan how a call asks for the form of its answer; None if it asks for none."""
    if spec.output is None or request is None or not has_output_to_request(spec):
        return None
    return PlannedOutput(kind, get_requested_schema(spec.output), request)


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
