"""The rows of a session on either database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Row

from tests.projections.store.row_fold import (
    ensure_live_position,
    fold_log,
    read_rows,
    read_turn_rows,
)
from tests.projections.store.session_histories import (
    SAMPLE_DIGEST,
    StoredSession,
    append_raw,
    build_assembled,
    build_completed,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from tests.support.generators.event_samples import build_samples
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.retrieval_events import EntryFeedbackGiven, FeedbackGiven
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnFailed,
    TurnQueued,
    TurnReleased,
)
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read import session_queries
from turnlog.projections.store.read.row_types import (
    ListedCall,
    ListedSession,
    UsageTotal,
)


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


async def read_turns(store: ReadModelStore, story: StoredSession) -> Sequence[Row[Any]]:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        return await read_turn_rows(connection, story.tenant, story.session)


async def read_calls(store: ReadModelStore, story: StoredSession) -> tuple[ListedCall, ...]:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        return await session_queries.list_calls(connection, story.tenant, story.session)


async def read_session(store: ReadModelStore, story: StoredSession) -> ListedSession:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        row = await session_queries.find_session(connection, story.tenant, story.session)
    assert row is not None
    return row


async def test_session_row_has_its_blueprint_attributes_title_and_progress(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened("trickster", language="de", level=3))
    await story.append_events(build_submitted(1, "Good  morning,\nwho are you?"))
    await story.append_events(build_completed(1, "A trickster."), build_submitted(2, "Really?"))
    row = await read_session(store, story)
    assert (row.blueprint, row.profile, row.attributes) == (
        "trickster",
        "chat",
        {"language": "de", "level": 3},
    )
    assert row.title == "Good morning, who are you?"
    assert (row.turns, row.sequence, row.closed_at) == (2, 4, None)
    assert row.opened_at == "2026-01-01T00:00:01.000000Z"
    assert row.last_at == "2026-01-01T00:00:03.000000Z"


async def test_title_is_one_line_of_at_most_120_characters(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "word\n" * 1000))
    title = (await read_session(store, story)).title
    assert title is not None
    assert len(title) == 120
    assert title.startswith("word word ")
    assert title.endswith("…")


async def test_closed_session_has_its_closing_time(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    await story.append_events(SessionClosed(reason="done"))
    assert (await read_session(store, story)).closed_at == "2026-01-01T00:00:02.000000Z"


async def test_a_turn_row_has_the_status_of_its_turn(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    withheld = ReplyRedacted(
        turn=5, reason="harm", rule="no-harm", replacement=PlainText(text="No.")
    )
    for events, status in (
        ([build_submitted(1, "one")], "open"),
        ([TurnQueued(turn=2, text=PlainText(text="two"))], "queued"),
        ([TurnQueued(turn=3, text=PlainText(text="three")), TurnReleased(turn=3)], "open"),
        ([build_submitted(4, "four"), build_completed(4, "reply")], "completed"),
        ([build_submitted(5, "five"), withheld], "completed"),
        (
            [
                build_submitted(6, "six"),
                TurnFailed(turn=6, code="rate_limited", detail="429", retryable=True),
            ],
            "failed",
        ),
        ([build_submitted(7, "seven"), TurnCancelled(turn=7, reason="interrupted")], "cancelled"),
    ):
        await story.append_events(*events)
        assert (await read_turns(store, story))[-1].status == status


async def test_a_session_with_a_redacted_reply_is_marked(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(build_completed(1, "the withheld words"))
    assert not (await read_session(store, story)).redacted
    await story.append_events(
        ReplyRedacted(
            turn=1, reason="privacy", rule="operator", replacement=PlainText(text="[withheld]")
        )
    )
    assert (await read_session(store, story)).redacted


async def test_a_session_is_titled_and_found_by_what_stands_of_its_first_text(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "Call me Zanzibar"))
    await story.append_events(build_completed(1, "Yes."))
    for turn, words in ((2, "Nothing of turn 1."), (1, "Call me [withheld]")):
        replacement = PlainText(text=words)
        await story.append_events(
            TextRedacted(turn=turn, reason="a name", rule="operator", replacement=replacement)
        )
    found = await read_session(store, story)
    assert (found.title, found.redacted) == ("Call me [withheld]", True)
    async with store.open_reader() as connection:
        searches = [
            await session_queries.list_sessions(
                connection, story.tenant, session_queries.SessionQuery(q=words)
            )
            for words in ("zanzibar", "call me [with")
        ]
    assert [len(each.sessions) for each in searches] == [0, 1]


async def test_events_of_later_releases_only_advance_the_sequence(
    store: ReadModelStore, story: StoredSession
) -> None:
    assert isinstance(story.log, MemoryLog)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    before = await read_turns(store, story)
    (later,) = await story.append_events(TurnCancelled(turn=1, reason="interrupted"))
    stored = later.stored.replace(b"turnlog.turn-cancelled.v1", b"turnlog.turn-cancelled.v9")
    story.log.stored.pop()
    append_raw(story.log, stored)
    assert await read_turns(store, story) == before
    assert (await read_session(store, story)).sequence == 3


async def test_call_row_has_its_prompt_figures_and_attempts(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"), build_started(1, 1))
    await story.append_events(
        build_assembled(1, "1.1", build_part("system", tokens=9), build_part("input", tokens=1))
    )
    await story.append_events(
        build_ended(1, 1, tokens=None, micro_dollars=None), build_started(1, 2)
    )
    await story.append_events(
        build_ended(1, 2, tokens=7, micro_dollars=21),
        CallCompleted(
            turn=1, call="1.1", attempt=2, finish="stop", digest=SAMPLE_DIGEST, characters=5
        ),
        build_completed(1, "first"),
    )
    (call,) = await read_calls(store, story)
    assert (call.tokens, call.budget, call.parts, call.kind) == (10, 1000, 2, "reply")
    assert (call.sequence, call.attempt, call.finish, call.characters) == (4, 2, "stop", 5)
    assert [attempt.outcome for attempt in call.attempts] == ["lost", "answered"]


async def test_cost_of_a_lost_attempt_is_unknown_and_not_zero(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"), build_started(1, 1))
    await story.append_events(
        build_assembled(1, "1.1"), build_ended(1, 1, tokens=None, micro_dollars=None)
    )
    (call,) = await read_calls(store, story)
    assert (call.micro_dollars, call.output_tokens, call.known) == (None, None, "unknown")
    await story.append_events(build_started(1, 2), build_ended(1, 2, tokens=7, micro_dollars=21))
    (call,) = await read_calls(store, story)
    assert (call.micro_dollars, call.output_tokens, call.known) == (21, 7, "unknown")


async def test_usage_reported_by_the_worker_replaces_the_recorded_loss_of_its_attempt(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(
        build_opened(), build_submitted(1, "one"), build_started(1, 1), build_assembled(1, "1.1")
    )
    await story.append_events(build_ended(1, 1, tokens=None, micro_dollars=None))
    await story.append_events(build_ended(1, 1, tokens=7, micro_dollars=21))
    (call,) = await read_calls(store, story)
    assert (call.known, call.micro_dollars) == ("reported", 21)


async def test_attempt_has_the_tokens_from_a_cache_apart_from_those_put_into_it(
    store: ReadModelStore, story: StoredSession
) -> None:
    ended = build_ended(1, 1, tokens=900, micro_dollars=21)
    figures = {"cached_tokens": 300, "cache_write_tokens": 500}
    ended = ended.model_copy(update={"usage": ended.usage.model_copy(update=figures)})
    await story.append_events(
        build_opened(), build_submitted(1, "one"), build_started(1, 1), build_assembled(1, "1.1")
    )
    await story.append_events(ended)
    (call,) = await read_calls(store, story)
    (attempt,) = call.attempts
    assert attempt.input_tokens == 900
    assert (attempt.cached_tokens, attempt.cache_write_tokens) == (300, 500)


async def test_calls_are_listed_in_call_order(store: ReadModelStore, story: StoredSession) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    made = [f"1.{number}" for number in range(1, 12)]
    await story.append_events(
        *(build_assembled(1, call, build_part("input", tokens=1)) for call in made)
    )
    assert [call.call for call in await read_calls(store, story)] == made


async def test_session_usage_is_the_sum_of_its_attempts_and_counts_unknown_ones(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened("assistant"), build_submitted(1, "Hi"))
    assert (await read_session(store, story)).usage == UsageTotal()
    await story.append_events(
        build_started(1, 1), build_ended(1, 1, tokens=None, micro_dollars=None)
    )
    await story.append_events(build_started(1, 2), build_ended(1, 2, tokens=40, micro_dollars=7))
    await story.append_events(build_completed(1, "Hello"), build_submitted(2, "And?"))
    await story.append_events(build_started(2, 1), build_ended(2, 1, tokens=2, micro_dollars=1))
    cost = CostTotal(8, guessed=False, unpriced_calls=1)
    usage = UsageTotal(
        input_tokens=42,
        output_tokens=42,
        total_tokens=84,
        micro_dollars=8,
        unknown_attempts=1,
        cost=cost,
    )
    assert (await read_session(store, story)).usage == usage
    async with store.open_reader() as connection:
        page = await session_queries.list_sessions(
            connection, story.tenant, session_queries.SessionQuery()
        )
    assert [row.usage for row in page.sessions] == [usage]


async def test_last_votes_on_a_turn_and_on_its_retrieved_entries_are_stored(
    store: ReadModelStore, story: StoredSession
) -> None:
    retrieved = build_samples()["knowledge-retrieved"]
    opened = (build_opened(), build_submitted(3, "one"), retrieved, build_completed(3, "first"))
    await story.append_events(*opened)
    # Folded twice in one transaction, as a repeated retrieval never is
    await story.append_events(retrieved, FeedbackGiven(turn=3, vote="up"))
    await story.append_events(FeedbackGiven(turn=3, vote="down"))
    judged = EntryFeedbackGiven(turn=3, collection="champion", entry="c-1", revision=7, vote="up")
    # An entry that the turn did not take has no row, and gets none.
    await story.append_events(judged, judged.model_copy(update={"entry": "c-2"}))
    await fold_log(store, story.log)
    at = await ensure_live_position(store)
    rows = await read_rows(store, at.build)
    assert [row[-5:] for row in rows["retrieved_entries"]] == [("champion", "c-1", 1, 8, 8)]
    assert [row[-4:] for row in rows["turn_votes"]] == [(3, -1, 7, 7)]
