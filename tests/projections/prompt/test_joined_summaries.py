"""Where a summary stands, by the version of the assembler that recorded the call."""

from __future__ import annotations

import pytest

from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import BlueprintTextSource
from turnlog.projections.blueprint.schema.call_specs import DEFAULT_MESSAGE_FORMAT, LAYER_SEPARATOR
from turnlog.projections.blueprint.token_counters import build_call_counter
from turnlog.projections.prompt.assembly_inputs import has_joined_summary
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.prompt_plan import PlannedMessage, PromptPlan
from turnlog.projections.prompt.render import render_plan
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.session.text_refs import TextRef

RULES, SUMMARY = "Be brief.", "They asked for the weather."


def build_plan() -> PromptPlan:
    """Return a plan of one system message and a history of nothing but a summary."""
    form = DEFAULT_MESSAGE_FORMAT
    piece = LayerPiece(source=BlueprintTextSource(text=RULES), full_text=RULES, rule="always")
    block = LayerBlock(
        layer="rules",
        component="rules",
        keep=True,
        form=form,
        pieces=(include_text(piece, RULES, form),),
    )
    ref = TextRef(
        sequence=7,
        place=7,
        field="text",
        digest=compute_digest(SUMMARY),
        characters=len(SUMMARY),
        at="2026-11-27T12:00:00Z",
    )
    summary = SummaryMessage(text_ref=ref, text=SUMMARY, tokens=6)
    history = PlannedHistory(view="dialogue", exchanges=(), left_out=(), summary=summary)
    return (PlannedMessage(role="system", form=form, blocks=(block,)), history)


@pytest.mark.parametrize(
    ("assembler", "contents"),
    [(4, [RULES, SUMMARY]), (5, [RULES + LAYER_SEPARATOR + SUMMARY])],
)
def test_summary_of_a_call_on_record_stands_where_its_version_put_it(
    assembler: int, contents: list[str]
) -> None:
    messages, parts = render_plan(
        build_plan(),
        build_call_counter(None, {}, ""),
        dialect=PLAIN_DIALECT,
        joins_summaries=has_joined_summary(assembler),
        joins_omissions=False,
    )
    assert [(each.role, each.content) for each in messages] == [
        ("system", each) for each in contents
    ]
    assert [part.message for part in parts] == [0, len(contents) - 1]
    assert sum(part.characters for part in parts) == sum(map(len, contents))
