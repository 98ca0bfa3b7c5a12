"""Events and the sentences of the command line for them, to compare with those of the web page."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from tests.support.generators.event_samples import build_samples
from turnlog.events.content import ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.model.attempt_figures import AttemptCost, AttemptTimings, TokenUsage
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled
from turnlog.events.model.memory_events import (
    SummaryBegun,
    SummaryTrigger,
    SummaryUndone,
    TurnRange,
)
from turnlog.events.model.session_events import BlueprintRef, ProfileSwitched, SessionOpened
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.events.model.turn_events import TurnDisplayed, TurnQueued, TurnResolved
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import record_events
from turnlog.projections.session_views.withheld_words import WITHHELD_DIGEST
from turnlog.services.cli.views.event_view import describe_event


def list_sentences() -> list[tuple[dict[str, JsonValue], str]]:
    """Return the stored envelope of each event and its sentence on the command line."""
    recorded = record_events(*build_samples().values(), *_iterate_variants())
    return [(json.loads(each.stored), describe_event(each.event)) for each in recorded]


def _iterate_variants() -> Iterator[KnownEvent]:
    """Yield events whose sentences take other branches than those of the samples."""
    digest = compute_digest("a text")
    cost = AttemptCost(price="unknown", table="none")
    unknown = TokenUsage(known="unknown")
    estimated = TokenUsage(known="estimated", input_tokens=12_345)
    for usage, milliseconds in ((unknown, 1250), (estimated, 1150), (estimated, 999)):
        yield AttemptEnded(
            turn=1,
            call="1.1",
            attempt=1,
            outcome="answered",
            usage=usage,
            cost=cost,
            timings=AttemptTimings(total=milliseconds),
        )
    yield AttemptEnded(turn=1, call="1.1", attempt=1, outcome="lost", usage=unknown, cost=cost)
    trigger = SummaryTrigger(of="component", tokens=4_310, limit=4_000)
    ranges = (TurnRange(first=2, last=2),)
    yield SummaryBegun(turn=3, view="chat", turns=ranges, characters=1)
    yield SummaryBegun(turn=3, view="chat", turns=ranges, characters=1, trigger=trigger)
    yield SummaryUndone(sequence=4, view="chat")
    yield ProfileSwitched(profile="agent", before="agent", reason="asked")
    yield ToolsSnapshotted(profile="agent", digest=digest, tools={}, full=digest, names=digest)
    withheld = build_samples()["context-assembled"]
    assert isinstance(withheld, ContextAssembled)
    manifest = withheld.manifest.model_copy(update={"digest": WITHHELD_DIGEST})
    yield withheld.model_copy(update={"manifest": manifest})
    yield ToolReturned(
        turn=1,
        call="1.1",
        id="a",
        tool="look",
        outcome="answered",
        characters=1,
        treatment="condensed",
    )
    yield TurnDisplayed(turn=2, reply=PlainText(text="<p>Here.</p>"))
    yield TurnResolved(
        turn=2,
        resolver="orders",
        used=False,
        reason="none",
        results=PlainText(text="[]"),
        answer=PlainText(text="nothing"),
    )
    for text in (
        PlainText(text=" \x1f a\x85b\ufeff\u3000\x00\x7f c\u200b\n"),
        SealedText(sealed="eA==", key="k", digest=digest, characters=1234),
        ErasedText(erased=True, digest=digest, characters=1),
    ):
        yield TurnQueued(turn=1_234_567, text=text)
    yield SessionOpened(
        blueprint=BlueprintRef(name="assistant", version=1, digest=digest),
        profile="chat",
        attributes={"none": None, "rate": 1.0, "on": True, "text": "a  b", "list": [1, "b"]},
        reach=1,
    )
