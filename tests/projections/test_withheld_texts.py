"""No event repeats a text of a turn whose reply is withheld, but the texts of its user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.support.generators.event_samples import build_samples
from tests.support.sessions.published_schemas import list_event_faults
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import PromptPart, ResolutionSource
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import record_events
from turnlog.projections.session_views.withheld_events import RedactedTurns

KEPT_TYPES = {TurnSubmitted.type, TurnQueued.type, ReplyRedacted.type, TextRedacted.type}
"""Types of events that hold what a user asked, and of the replacement itself."""

SAMPLES: dict[str, KnownEvent] = {
    name: event
    for name, event in build_samples().items()
    if getattr(event, "turn", None) and event.type not in KEPT_TYPES
}


def iterate_texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - a field of any event
    """Yield every recorded text in an event."""
    match value:
        case PlainText(text=text):
            yield text
        case BaseModel():
            yield from chain.from_iterable(map(iterate_texts, vars(value).values()))
        case list() | tuple():
            yield from chain.from_iterable(map(iterate_texts, cast("Sequence[Any]", value)))
        case _:
            pass


TEXTS = {name: [*iterate_texts(event)] for name, event in SAMPLES.items()}


@pytest.mark.parametrize("name", [name for name, texts in TEXTS.items() if any(texts)])
def test_text_of_an_event_is_withheld_with_the_reply_of_its_turn(name: str) -> None:
    event = SAMPLES[name]
    # A summary is about other turns than the one in which it was made.
    turn = event.turns[0].first if isinstance(event, HistorySummarised) else vars(event)["turn"]
    redaction = ReplyRedacted(
        turn=turn, reason="it matches", rule="a-rule", replacement=PlainText(text="Withheld.")
    )
    recorded, redacted = record_events(event, redaction)
    turns = RedactedTurns()
    turns.apply_event(redacted)
    shown = turns.format_for_reader(recorded).decode()
    assert [text for text in TEXTS[name] if text and text in shown] == []


def test_pictures_of_a_result_are_withheld_with_the_reply_of_its_turn() -> None:
    event = SAMPLES["tool-returned-parts"]
    assert isinstance(event, ToolReturned)
    redaction = ReplyRedacted(
        turn=event.turn, reason="it matches", rule="a-rule", replacement=PlainText(text="Withheld.")
    )
    recorded, redacted = record_events(event, redaction)
    turns = RedactedTurns()
    assert event.parts[0].digest in turns.format_for_reader(recorded).decode()
    turns.apply_event(redacted)
    shown = turns.format_for_reader(recorded).decode()
    assert [each for each in event.parts if each.digest in shown or str(each.name) in shown] == []


def test_what_a_resolver_found_for_a_withheld_reply_is_not_in_its_first_prompt() -> None:
    sample = SAMPLES["context-assembled"]
    assert isinstance(sample, ContextAssembled)
    source = ResolutionSource(resolution=1, lines={"results": "a secret"})
    part = PromptPart(layer="found", component="system_prompt", source=source, role="system")
    manifest = sample.manifest.model_copy(update={"parts": (part,)})
    event = sample.model_copy(update={"call": f"{sample.turn}.1", "manifest": manifest})
    redaction = ReplyRedacted(
        turn=event.turn, reason="it matches", rule="a-rule", replacement=PlainText(text="Withheld.")
    )
    recorded, redacted = record_events(event, redaction)
    turns = RedactedTurns()
    assert "a secret" in turns.format_for_reader(recorded).decode()
    turns.apply_event(redacted)
    assert "a secret" not in turns.format_for_reader(recorded).decode()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("withheld", [None, f"sha256:{'a' * 64}"])
def test_event_without_its_withheld_texts_matches_the_published_schema(
    name: str, withheld: str | None
) -> None:
    redaction = ReplyRedacted(
        turn=vars(SAMPLES[name])["turn"],
        reason="it matches",
        rule="a-rule",
        replacement=PlainText(text="Withheld."),
        withheld=withheld,
    )
    events = record_events(SAMPLES[name], redaction)
    turns = RedactedTurns()
    turns.apply_event(events[-1])
    for each in events:
        assert list_event_faults(json.loads(turns.format_for_reader(each))) == []
