"""No event that ordinary readers get has what a person withdrew, or a digest of it."""

from __future__ import annotations

import json

import pytest

from tests.support.generators.event_samples import build_samples
from tests.support.sessions.published_schemas import list_event_faults
from turnlog.events import codec
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import (
    BlueprintTextSource,
    EventTextSource,
    PromptPart,
    ResolutionSource,
)
from turnlog.events.model.memory_events import HistorySummarised, SummaryUndone, TurnRange
from turnlog.events.model.redaction_events import RedactedSpan, ReplyRedacted, TextRedacted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved, RetrievalLimits
from turnlog.events.model.turn_events import (
    InheritableReference,
    ReferenceUpdated,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnQueued,
    TurnResolved,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import SESSION, TENANT, make_draft, record_events
from turnlog.projections.session_views.withheld_events import RedactedTurns

WORD = "Zanzibar"

SAID = PlainText(text=WORD)

DIGEST = compute_digest(WORD)

VALUES = {"place": WORD}


def build_submission(kind: type[TurnSubmitted | TurnQueued]) -> KnownEvent:
    return kind(turn=2, text=SAID, inputs=dict(VALUES), references=dict(VALUES), meta=dict(VALUES))


def build_prompt(turn: int, part: PromptPart) -> ContextAssembled:
    sample = build_samples()["context-assembled"]
    assert isinstance(sample, ContextAssembled)
    manifest = sample.manifest.model_copy(update={"digest": DIGEST, "parts": (part,)})
    update = {"turn": turn, "call": f"{turn}.1", "manifest": manifest, "body_digest": DIGEST}
    return sample.model_copy(update=update)


def build_part(source: EventTextSource | BlueprintTextSource | ResolutionSource) -> PromptPart:
    return PromptPart(
        layer="input", component="query", source=source, role="user", message=0, digest=DIGEST
    )


def build_summary() -> HistorySummarised:
    sample = build_samples()["history-summarised"]
    assert isinstance(sample, HistorySummarised)
    summary = PlainText(text=f"They spoke of {WORD}.")
    ranges = (TurnRange(first=1, last=3),)
    return sample.model_copy(update={"summary": summary, "turns": ranges, "inputs": DIGEST})


EVENTS: dict[str, KnownEvent] = {
    "submitted": build_submission(TurnSubmitted),
    "queued": build_submission(TurnQueued),
    "resolved": TurnResolved(
        turn=2,
        resolver="r",
        identifiers=dict(VALUES),
        meta=dict(VALUES),
        reason="in-text",
        results=PlainText(text="{}"),
        answer=PlainText(text="A town."),
    ),
    "displayed": TurnDisplayed(turn=2, text=PlainText(text=f"<b>{WORD}</b>")),
    "completed": TurnCompleted(
        turn=2,
        text=PlainText(text="Yes."),
        reference=InheritableReference(identifiers=dict(VALUES)),
    ),
    "reference": ReferenceUpdated(turn=2, identifiers=dict(VALUES)),
    "retrieved": KnowledgeRetrieved(
        turn=2,
        call="2.1",
        retrieval="cases",
        query=SAID,
        more_queries=(SAID,),
        collections=("cases",),
        limits=RetrievalLimits(k=3),
    ),
    "summarised": build_summary(),
    "own prompt": build_prompt(2, build_part(EventTextSource(sequence=1, field="text"))),
    "later prompt": build_prompt(3, build_part(EventTextSource(sequence=1, field="text"))),
    "literal input": build_prompt(
        2, build_part(BlueprintTextSource(text=f"Of {WORD}.", of=("inputs.place",)))
    ),
    "literal resolution": build_prompt(
        2, build_part(ResolutionSource(resolution=1, lines={"identifiers": WORD}))
    ),
    "earlier redaction": TextRedacted(
        turn=2,
        reason="a number",
        rule="operator",
        replacement=PlainText(text=f"{WORD} [withheld]"),
        spans=(RedactedSpan(begin=9, end=12),),
    ),
}
"""Events of turn 2, or about it, that have the word or a digest of it."""

REDACTION = TextRedacted(
    turn=2, reason="a name", rule="operator", replacement=PlainText(text="(taken back)")
)


def format_for_reader(*events: KnownEvent) -> tuple[str, tuple[RecordedEvent, ...]]:
    """Return the first event as a reader gets it after all of them, and how they are recorded."""
    recorded = record_events(*events)
    turns = RedactedTurns()
    for each in recorded:
        turns.apply_event(each)
    return turns.format_for_reader(recorded[0]).decode(), recorded


@pytest.mark.parametrize("name", EVENTS)
def test_event_has_the_word_before_the_redaction_and_neither_it_nor_a_digest_after(
    name: str,
) -> None:
    stored = format_for_reader(EVENTS[name])[0]
    assert WORD in stored or DIGEST in stored
    shown, recorded = format_for_reader(EVENTS[name], REDACTION)
    assert WORD not in shown
    assert DIGEST not in shown
    assert json.loads(shown)["withheldby"] == recorded[1].sequence
    assert list_event_faults(json.loads(shown)) == []


def test_what_was_recorded_after_the_redaction_is_as_it_is_stored() -> None:
    recorded = record_events(REDACTION, EVENTS["later prompt"], EVENTS["summarised"])
    turns = RedactedTurns()
    for each in recorded:
        turns.apply_event(each)
    assert [turns.format_for_reader(each) for each in recorded] == [e.stored for e in recorded]


def test_other_turns_and_what_a_model_wrote_are_as_they_are_stored() -> None:
    query = EVENTS["retrieved"]
    assert isinstance(query, KnowledgeRetrieved)
    kept = (
        TurnSubmitted(turn=1, text=SAID),
        TurnCompleted(turn=2, text=PlainText(text=f"{WORD}, you say.")),
        query.model_copy(update={"origin": "call"}),
        build_prompt(1, build_part(EventTextSource(sequence=1, field="text"))),
    )
    for event in kept:
        shown, recorded = format_for_reader(event, REDACTION)
        assert shown.encode() == recorded[0].stored


@pytest.mark.parametrize(
    "event",
    [
        TurnCancelled(turn=1, reason="interrupted"),
        ReplyRedacted(
            turn=2, reason="a name", rule="operator", replacement=PlainText(text="(withheld)")
        ),
        SummaryUndone(sequence=1, view="recent", cause="redacted", turn=2),
        REDACTION,
    ],
)
def test_digest_of_the_command_that_had_the_words_is_on_none_of_its_events(
    event: KnownEvent,
) -> None:
    draft = make_draft(event, command=codec.CommandRef("key", DIGEST))
    (message,) = codec.encode_batch(TENANT, SESSION, None, [draft]).messages
    recorded = codec.decode_event(message.payload, message.sequence)
    (redacted,) = record_events(REDACTION)
    turns = RedactedTurns()
    turns.apply_event(redacted)
    assert DIGEST in recorded.stored.decode()
    assert DIGEST not in turns.format_for_reader(recorded).decode()
