"""What became of the provider's cache at each call, by figures that were computed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from turnlog.events.model.attempt_figures import CacheTerms
from turnlog.events.model.manifest import CachePrefix
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.cache_losses import list_cache_losses
from turnlog.projections.store.growth.token_ledger import GrowthFilter, list_call_growth
from turnlog.projections.store.read.row_types import CacheUse

STEPS = CacheTerms(minimum=1_024, step=128, lifetime=300, spared=2_000_000)
"""A token that is read costs two millionths of a dollar less."""

ALL_CALLS = GrowthFilter()

MARKS = CacheTerms(minimum=512, step=None, lifetime=300, spared=2_000_000)


@dataclass(frozen=True, kw_only=True)
class SentCall:
    """A call, in tokens as we count them, and as its provider does."""

    tokens: int
    sent: int | None = None
    """As the provider counts; as we do if None."""
    repeated: int | None = None
    """How many tokens of the prompt before it are repeated; all if None."""
    changed: str | None = None
    """The layer that changed."""
    cached: int = 0
    written: int = 0
    terms: CacheTerms | None = STEPS
    known: bool = True
    minutes: float = 0
    """How long after the call before."""
    model: str = "scripted/demo"


FIRST = SentCall(tokens=2_000)

LONGER = SentCall(tokens=2_300)
"""Of the first 2,000 tokens of it 1,920 can be cached, which are 1,024 and 7 steps."""


async def append_calls(story: StoredSession, *calls: SentCall) -> None:
    """Append the calls of a turn, each with an attempt that its provider answered."""
    if story.last_event is None:
        await story.append_events(build_opened(), build_submitted(1, "one"))
    before: SentCall | None = None
    for number, call in enumerate(calls, 1):
        story.at += timedelta(minutes=call.minutes)
        prefix = None
        if before:
            tokens = before.tokens if call.repeated is None else call.repeated
            prefix = CachePrefix(
                call=f"1.{number - 1}", messages=1, tokens=tokens, ended_by=call.changed
            )
        made = build_assembled(
            1, f"1.{number}", build_part("system", tokens=call.tokens), prefix=prefix
        )
        ended = build_ended(
            1,
            number,
            tokens=(call.sent or call.tokens) if call.known else None,
            micro_dollars=10,
            call=f"1.{number}",
            cached=call.cached,
            terms=call.terms,
        )
        usage = ended.usage.model_copy(update={"cache_write_tokens": call.written})
        await story.append_events(
            made.model_copy(update={"model": call.model}),
            build_started(1, number, f"1.{number}"),
            ended.model_copy(update={"usage": usage}),
        )
        before = call


async def read_uses(store: ReadModelStore, story: StoredSession) -> list[CacheUse]:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        calls = await list_call_growth(connection, "t", "s", GrowthFilter())
    return [call.cache for call in calls if call.cache]


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


@pytest.mark.parametrize(
    ("before", "call", "outcome", "cause", "lost"),
    [
        pytest.param(FIRST, SentCall(tokens=2_300, cached=1_920), "kept", None, 0, id="whole"),
        pytest.param(
            FIRST, SentCall(tokens=2_300, cached=1_792), "kept", None, 0, id="a step less"
        ),
        pytest.param(
            FIRST, SentCall(tokens=2_300, cached=1_664), "missed", "provider", 256, id="two steps"
        ),
        pytest.param(
            SentCall(tokens=20_000),
            SentCall(tokens=20_100, cached=19_600),
            *("kept", None, 0),
            id="two in a hundred less",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, minutes=6),
            *("missed", "expired", 1_920),
            id="after the time of the cache",
        ),
        pytest.param(
            FIRST, SentCall(tokens=2_300, minutes=4), "missed", "provider", 1_920, id="within it"
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, minutes=6, cached=1_920),
            *("kept", None, 0),
            id="kept for longer than promised",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, model="scripted/other"),
            *("missed", "model", 1_920),
            id="another model",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=1_500, changed="history", cached=1_408),
            *("broken", "history", 512),
            id="changed in its middle",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=1_500, changed="history", cached=1_280),
            *("broken", "history", 640),
            id="changed in its middle, and a step less of the rest",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=0, changed="persona"),
            *("broken", "persona", 1_920),
            id="changed at its begin",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=1_990, changed="input", cached=1_920),
            *("kept", None, 0),
            id="changed within the last step",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=1_500, changed="history", minutes=6),
            *("missed", "expired", 1_920),
            id="changed when all was gone",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=0, changed="persona", minutes=6),
            *("missed", "expired", 1_920),
            id="changed at its begin when all was gone",
        ),
        pytest.param(
            SentCall(tokens=1_000, sent=2_000),
            SentCall(tokens=1_300, sent=2_600, repeated=750, changed="history"),
            *("missed", "provider", 1_920),
            id="the rest was not read, as the provider counts",
        ),
        pytest.param(
            FIRST,
            SentCall(tokens=2_300, repeated=1_500, changed="history"),
            *("missed", "provider", 1_920),
            id="changed, and the rest was not read either",
        ),
        pytest.param(
            SentCall(tokens=1_000), SentCall(tokens=2_300), "small", None, 0, id="too short"
        ),
        pytest.param(
            SentCall(tokens=1_000, sent=2_000),
            SentCall(tokens=1_300, sent=2_600, cached=1_920),
            *("kept", None, 0),
            id="as the provider counts",
        ),
        pytest.param(
            SentCall(tokens=1_000, sent=2_000),
            SentCall(tokens=1_300, sent=2_600, repeated=750, changed="history", cached=1_408),
            *("broken", "history", 512),
            id="changed, as the provider counts",
        ),
        pytest.param(
            FIRST, SentCall(tokens=2_300, terms=None), "unknown", None, 0, id="terms unknown"
        ),
        pytest.param(
            FIRST, SentCall(tokens=2_300, known=False), "unknown", None, 0, id="not reported"
        ),
        pytest.param(
            SentCall(tokens=2_000, known=False),
            LONGER,
            *("unknown", None, 0),
            id="not reported before",
        ),
        pytest.param(
            SentCall(tokens=2_000, written=1_900, terms=MARKS),
            SentCall(tokens=2_300, cached=1_900, terms=MARKS),
            *("kept", None, 0),
            id="up to a mark",
        ),
        pytest.param(
            SentCall(tokens=2_000, cached=900, written=1_000, terms=MARKS),
            SentCall(tokens=2_300, repeated=1_500, changed="history", cached=900, terms=MARKS),
            *("broken", "history", 1_000),
            id="changed before a mark",
        ),
        pytest.param(
            SentCall(tokens=2_000, written=1_900, terms=MARKS),
            SentCall(tokens=2_300, terms=MARKS, minutes=6),
            *("missed", "expired", 1_900),
            id="marked, after the time of the cache",
        ),
        pytest.param(
            SentCall(tokens=2_000, terms=MARKS),
            SentCall(tokens=2_300, terms=MARKS),
            *("small", None, 0),
            id="nothing was marked",
        ),
    ],
)
async def test_outcome_follows_from_the_prefix_and_from_what_the_provider_reported(
    store: ReadModelStore,
    story: StoredSession,
    before: SentCall,
    call: SentCall,
    outcome: str,
    cause: str | None,
    lost: int,
) -> None:
    await append_calls(story, before, call)
    first, second = await read_uses(store, story)
    assert (first.outcome, first.cause, first.tokens) == ("first", None, 0)
    assert (second.outcome, second.cause, second.tokens) == (outcome, cause, lost)
    assert second.cost == CostTotal(2 * lost)


async def test_loss_at_an_unknown_price_is_counted_without_an_amount(
    store: ReadModelStore, story: StoredSession
) -> None:
    unpriced = CacheTerms(minimum=1_024, step=128, lifetime=300)
    await append_calls(story, FIRST, SentCall(tokens=2_300, terms=unpriced))
    _, second = await read_uses(store, story)
    assert second.tokens == 1_920
    assert second.cost == CostTotal(None, unpriced_calls=1)


async def test_first_attempt_that_the_provider_counted_decides(
    store: ReadModelStore, story: StoredSession
) -> None:
    await append_calls(story, FIRST)
    prefix = CachePrefix(call="1.1", messages=1, tokens=2_000)
    await story.append_events(
        build_assembled(1, "1.2", build_part("system", tokens=2_300), prefix=prefix),
        build_started(1, 2, "1.2"),
        build_ended(1, 2, tokens=None, micro_dollars=None, call="1.2"),
        build_started(1, 3, "1.2"),
        build_ended(1, 3, tokens=2_300, micro_dollars=1, call="1.2", terms=STEPS),
        build_started(1, 4, "1.2"),
        build_ended(1, 4, tokens=2_300, micro_dollars=1, call="1.2", cached=2_176, terms=STEPS),
    )
    _, second = await read_uses(store, story)
    assert (second.outcome, second.tokens) == ("missed", 1_920)


async def test_losses_are_listed_by_version_and_cause_with_the_call_that_lost_most(
    store: ReadModelStore, story: StoredSession
) -> None:
    small = SentCall(tokens=2_300, repeated=1_500, changed="history", cached=1_408)
    large = SentCall(tokens=4_300, repeated=1_500, changed="history", cached=1_408)
    late = SentCall(tokens=4_500, minutes=6)
    await append_calls(story, FIRST, small, large, late)
    other = StoredSession(log=story.log, session="other")
    await append_calls(other, FIRST, small)
    await fold_log(store, story.log)

    async def list_losses(
        sought: GrowthFilter = ALL_CALLS, limit: int = 10
    ) -> list[tuple[object, ...]]:
        async with store.open_reader() as connection:
            found = await list_cache_losses(connection, "t", sought, limit)
        return [
            (
                *(each.blueprint, each.version, each.lost.outcome, each.lost.cause),
                *(each.lost.calls, each.lost.tokens, each.lost.cost.micro_dollars),
                *(each.session, each.call, each.prefix_call, each.tokens),
            )
            for each in found
        ]

    # 4,300 tokens: 1,024 and 25 steps can be cached; 2,300 of them: 1,024 and 9 steps.
    expired = ("assistant", 1, "missed", "expired", 1, 4_224, 8_448, "s", "1.4", "1.3", 4_224)
    broken = (
        "assistant",
        1,
        "broken",
        "history",
        3,
        512 + 768 + 512,
        3_584,
        "s",
        "1.3",
        "1.2",
        768,
    )
    assert await list_losses() == [expired, broken]
    assert await list_losses(limit=1) == [expired]
    (of_other,) = await list_losses(GrowthFilter(session="other"))
    assert of_other[4:7] == (1, 512, 1_024)
    assert await list_losses(GrowthFilter(blueprint="desk")) == []
