"""What a blueprint says of cuts that last: `to` of the steps that can have it, and of no others."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.ladder_words import describe_ladders
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import encode_blueprint
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """\
blueprint: agent
version: 1
layers:
  note: {text: Water is wet.}
calls:
  reply: {messages: [{system: [note]}, {history: chat}, {user: [input]}], budget: window}
history: {chat: {}}
budget:
  window:
    tokens: 8000
    ladder: [STEP]
profiles: {chat: {default: true, call: reply}}
"""

NO_SHARE = "is no share of the limit; write a percentage from `1%` to `99%`"

NO_LASTING_CUT = (
    "only a step that leaves out the oldest of a history makes a lasting cut; "
    "leave `to` out, or give it to `drop_oldest_pairs` or `drop_images`"
)


NO_FORM = (
    "only a step that leaves out the oldest of a history makes a lasting cut; "
    "write what the results are replaced by, such as `digest`"
)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{drop_oldest_pairs: {to: 80%}}", "drop the oldest turns down to 80%"),
        (
            "{drop_oldest_pairs: {history: chat, keep_messages: 4, to: 5%}}",
            "drop the oldest turns of chat but the last 4 messages down to 5%",
        ),
        ("{drop_images: {to: 99%}}", "drop the oldest pictures down to 99%"),
        ("{drop_images: oldest}", "drop the oldest pictures"),
    ],
)
def test_share_of_a_step_is_described(step: str, words: str) -> None:
    blueprint = load_blueprint_source(TEXT.replace("STEP", step)).blueprint
    (line,) = describe_ladders(blueprint)
    assert line.endswith(f"tokens: {words}, then refuse the call")


def test_blueprint_without_a_share_is_encoded_as_before() -> None:
    text = TEXT.replace("STEP", "{drop_images: oldest}, {drop_oldest_pairs: {history: chat}}")
    assert (
        b'"ladder":[{"drop_images":"oldest"},{"drop_oldest_pairs":{"history":"chat"}}]'
        in encode_blueprint(load_blueprint_source(text).blueprint)
    )


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("{drop_oldest_pairs: {to: 80}}", f"drop_oldest_pairs.to: `80` {NO_SHARE}"),
        ("{drop_oldest_pairs: {to: 0.8}}", f"drop_oldest_pairs.to: `0.8` {NO_SHARE}"),
        ("{drop_oldest_pairs: {to: 100%}}", f"drop_oldest_pairs.to: `100%` {NO_SHARE}"),
        ("{drop_oldest_pairs: {to: 0%}}", f"drop_oldest_pairs.to: `0%` {NO_SHARE}"),
        ("{drop_images: {to: 8.5%}}", f"drop_images.to: `8.5%` {NO_SHARE}"),
        ("{drop_images: newest}", "drop_images: `newest` means nothing here; use one of: oldest"),
        *(
            (f"{{{step}: {{{fields}to: 80%}}}}", f"{step}.to: {NO_LASTING_CUT}")
            for step, fields in {
                "trim": "layer: note, chars: [8], ",
                "compress": "layer: note, chars: 8, ",
                "lower_tier": "layer: note, ",
                "drop_lowest": "layer: note, ",
                "replace": "layer: note, with: {type: cue}, ",
                "drop": "layer: note, ",
                "condense_tools": "",
                "limit_hits": "k: 2, ",
                "condense_repeats": "",
                "summarise": "",
                "registered": "name: x, layer: note, ",
            }.items()
        ),
        ("{condense_results: {layer: note, to: 80%}}", f"condense_results.to: {NO_FORM}"),
    ],
)
def test_step_that_cannot_have_the_share_is_refused_with_the_field_and_the_fix(
    step: str, fault: str
) -> None:
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(TEXT.replace("STEP", step))
    (found,) = refused.value.faults
    assert str(found) == f"blueprint.yaml:11: budget.window.ladder.0.{fault}"
