"""Finding sessions among many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_completed,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import (
    PhaseEntered,
    ProfileSwitched,
    SessionDescribed,
    ShareChanged,
)
from turnlog.events.model.turn_events import TurnFailed, TurnSubmitted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read import session_queries
from turnlog.projections.store.read.row_types import SessionPageMark
from turnlog.projections.store.read.session_orders import (
    SessionOrder,
    format_page_mark,
    parse_page_mark,
)
from turnlog.projections.store.read.session_queries import SessionQuery


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def list_sessions(
    store: ReadModelStore, log: MemoryLog, query: SessionQuery, tenant: str = "t"
) -> Sequence[str]:
    await fold_log(store, log)
    async with store.open_reader() as connection:
        page = await session_queries.list_sessions(connection, tenant, query)
    return [row.session for row in page.sessions]


async def test_newest_sessions_are_listed_first(store: ReadModelStore, log: MemoryLog) -> None:
    for session in ("one", "two", "three"):
        await StoredSession(log=log, session=session).append_events(build_opened())
    assert await list_sessions(store, log, SessionQuery()) == ["three", "two", "one"]


async def test_pages_neither_repeat_nor_skip_a_session_while_others_are_opened(
    store: ReadModelStore, log: MemoryLog
) -> None:
    for number in range(5):
        await StoredSession(log=log, session=f"s{number}").append_events(build_opened())
    await fold_log(store, log)
    seen: list[str] = []
    before: SessionPageMark | None = None
    for opening in ("new1", "new2", "new3"):
        async with store.open_reader() as connection:
            page = await session_queries.list_sessions(
                connection, "t", SessionQuery(), limit=2, before=before
            )
        seen += [row.session for row in page.sessions]
        before = page.before
        await StoredSession(log=log, session=opening).append_events(build_opened())
        await fold_log(store, log)
    assert seen == ["s4", "s3", "s2", "s1", "s0"]
    assert before is None


async def fill_ranked_sessions(log: MemoryLog) -> None:
    """Store four sessions, of which the first and the last have equal ranks but in time."""
    figures = {"plain": (0, 0, 0), "dear": (400, 90, 0), "full": (990, 5, 1), "calm": (0, 0, 0)}
    for number, (name, (tokens, cost, failures)) in enumerate(figures.items()):
        stored = StoredSession(log=log, session=name)
        stored.at += timedelta(minutes=-number)
        await stored.append_events(build_opened())
        if tokens:
            await stored.append_events(
                build_submitted(1, "one"),
                build_started(1, 1),
                build_assembled(1, "1.1", build_part("system", tokens=tokens)),
                build_ended(1, 1, tokens=tokens, micro_dollars=cost),
                *[TurnFailed(turn=1, code="bug", detail="-", retryable=False)] * failures,
            )


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("opened", ["calm", "full", "dear", "plain"]),
        ("last", ["plain", "dear", "full", "calm"]),
        ("near", ["full", "dear", "calm", "plain"]),
        ("cost", ["dear", "full", "calm", "plain"]),
        ("failed", ["full", "calm", "dear", "plain"]),
    ],
)
async def test_pages_of_every_order_list_each_session_once(
    store: ReadModelStore, log: MemoryLog, order: SessionOrder, names: list[str]
) -> None:
    await fill_ranked_sessions(log)
    await fold_log(store, log)
    seen: list[str] = []
    mark: str | None = None
    for _ in names:
        before = parse_page_mark(mark, order) if mark else None
        async with store.open_reader() as connection:
            page = await session_queries.list_sessions(
                connection, "t", SessionQuery(), order=order, limit=1, before=before
            )
        seen += [row.session for row in page.sessions]
        mark = format_page_mark(page.before, order) if page.before else None
    assert (seen, mark) == (names, None)


@pytest.mark.parametrize(
    ("mark", "order"),
    [
        ("7", "near"),
        ("7.5", "opened"),
        ("7.x", "cost"),
        ("0.1", "near"),
        ("", "last"),
        ("7.", "last"),
    ],
)
def test_place_of_another_order_is_refused(mark: str, order: SessionOrder) -> None:
    with pytest.raises(Refused) as refused:
        parse_page_mark(mark, order)
    assert refused.value.field == "before"


async def test_sessions_near_their_budget_are_found(store: ReadModelStore, log: MemoryLog) -> None:
    await fill_ranked_sessions(log)
    assert await list_sessions(store, log, SessionQuery(near=90)) == ["full"]
    assert await list_sessions(store, log, SessionQuery(near=40)) == ["full", "dear"]
    async with store.open_reader() as connection:
        page = await session_queries.list_sessions(connection, "t", SessionQuery())
    shares = {row.session: row.budget_share for row in page.sessions}
    assert shares == {"calm": None, "full": 0.99, "dear": 0.4, "plain": None}


async def test_search_matches_title_and_id_case_insensitively(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await StoredSession(log=log, session="a").append_events(
        build_opened(), build_submitted(1, "Éclair au CHOCOLAT, Hauptstraße 1")
    )
    await StoredSession(log=log, session="b-chocolate").append_events(
        build_opened(), build_submitted(1, "something else")
    )
    await StoredSession(log=log, session="c").append_events(
        build_opened(), build_submitted(1, "first"), build_submitted(2, "chocolat")
    )
    assert await list_sessions(store, log, SessionQuery(q="chocolat")) == ["b-chocolate", "a"]
    assert await list_sessions(store, log, SessionQuery(q="éCLAIR")) == ["a"]
    assert await list_sessions(store, log, SessionQuery(q="STRASSE")) == ["a"]


async def test_search_matches_the_given_title_beside_the_first_turn(
    store: ReadModelStore, log: MemoryLog
) -> None:
    opened = build_opened().model_copy(update={"title": PlainText(text="Reise nach ÄLVSBORG")})
    story = StoredSession(log=log, session="a")
    await story.append_events(opened, build_submitted(1, "Where is the harbour?"))
    assert await list_sessions(store, log, SessionQuery(q="älvsborg")) == ["a"]
    assert await list_sessions(store, log, SessionQuery(q="HARBOUR")) == ["a"]
    await story.append_events(SessionDescribed(title=PlainText(text="Holm")))
    assert await list_sessions(store, log, SessionQuery(q="älvsborg")) == []
    assert await list_sessions(store, log, SessionQuery(q="holm")) == ["a"]
    await story.append_events(SessionDescribed(title=PlainText(text="")))
    assert await list_sessions(store, log, SessionQuery(q="holm")) == []
    assert await list_sessions(store, log, SessionQuery(q="harbour")) == ["a"]


async def test_a_user_reaches_own_and_shared_sessions(
    store: ReadModelStore, log: MemoryLog
) -> None:
    for session, owner in (("a", "ada"), ("b", "bo"), ("c", "ada"), ("d", "ada"), ("e", None)):
        story = StoredSession(log=log, session=session)
        await story.append_events(build_opened().model_copy(update={"owner": owner}))
        if session in {"c", "d"}:
            await story.append_events(ShareChanged(user="bo", access="read"))
        if session == "d":
            await story.append_events(ShareChanged(user="bo", access="none"))
    assert await list_sessions(store, log, SessionQuery(reached_by="bo")) == ["c", "b"]
    of_ada = SessionQuery(reached_by="bo", owner="ada")
    assert await list_sessions(store, log, of_ada) == ["c"]
    assert await list_sessions(store, log, SessionQuery(reached_by="ada")) == ["d", "c", "a"]


async def test_sessions_are_found_by_the_labels_that_they_have_now(
    store: ReadModelStore, log: MemoryLog
) -> None:
    labelled = build_opened().model_copy(update={"labels": ("one", "Büro, Nord")})
    for session in ("a", "b"):
        await StoredSession(log=log, session=session).append_events(labelled)
    other = StoredSession(log=log, session="c")
    await other.append_events(build_opened())
    assert await list_sessions(store, log, SessionQuery(label="Büro, Nord")) == ["b", "a"]
    relabelled = SessionDescribed(labels=("two", "one"))
    await other.append_events(relabelled, SessionDescribed(labels=()))
    story = StoredSession(log=log, session="d")
    await story.append_events(labelled, relabelled, SessionDescribed(title=PlainText(text="t")))
    assert await list_sessions(store, log, SessionQuery(label="two")) == ["d"]
    assert await list_sessions(store, log, SessionQuery(label="one")) == ["d", "b", "a"]
    assert await list_sessions(store, log, SessionQuery(label="ONE")) == []
    assert await list_sessions(store, log, SessionQuery(label="\0")) == []
    async with store.open_reader() as connection:
        page = await session_queries.list_sessions(connection, "t", SessionQuery())
    labels = [row.labels for row in page.sessions]
    assert labels == [("two", "one"), (), ("one", "Büro, Nord"), ("one", "Büro, Nord")]


@pytest.mark.parametrize("q", ["100%", "a_b", "\\", "'"])
async def test_search_treats_its_text_literally(
    store: ReadModelStore, log: MemoryLog, q: str
) -> None:
    await StoredSession(log=log, session="has").append_events(
        build_opened(), build_submitted(1, f"see {q} there")
    )
    await StoredSession(log=log, session="hasnot").append_events(
        build_opened(), build_submitted(1, "see 100x aXb there")
    )
    assert await list_sessions(store, log, SessionQuery(q=q)) == ["has"]


async def test_search_for_nul_returns_no_sessions(store: ReadModelStore, log: MemoryLog) -> None:
    await StoredSession(log=log, session="a").append_events(
        build_opened(), build_submitted(1, "plain")
    )
    assert (
        await list_sessions(
            store, log, SessionQuery(q="\0", blueprint="\0", attributes={"\0": "\0"})
        )
        == []
    )


async def test_filters_by_blueprint_and_attributes_combine(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await StoredSession(log=log, session="a").append_events(
        build_opened("trickster", language="de", level=3, loud=True)
    )
    await StoredSession(log=log, session="b").append_events(
        build_opened("trickster", language="fr", level=3)
    )
    await StoredSession(log=log, session="c").append_events(
        build_opened("assistant", language="de", level=3)
    )
    assert await list_sessions(store, log, SessionQuery(blueprint="trickster")) == ["b", "a"]
    assert await list_sessions(store, log, SessionQuery(attributes={"language": "de"})) == [
        "c",
        "a",
    ]
    both = SessionQuery(blueprint="trickster", attributes={"language": "de", "level": 3})
    assert await list_sessions(store, log, both) == ["a"]


async def test_attribute_filter_matches_the_spelling_of_a_query_string(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await StoredSession(log=log, session="a").append_events(build_opened(level=3, loud=True))
    assert await list_sessions(
        store, log, SessionQuery(attributes={"level": "3", "loud": "true"})
    ) == ["a"]
    assert await list_sessions(store, log, SessionQuery(attributes={"level": "30"})) == []


async def test_since_finds_sessions_with_events_from_that_time(
    store: ReadModelStore, log: MemoryLog
) -> None:
    old, busy = StoredSession(log=log, session="old"), StoredSession(log=log, session="busy")
    await old.append_events(build_opened())
    await busy.append_events(build_opened())
    await busy.append_events(build_submitted(1, "later"))
    assert await list_sessions(
        store, log, SessionQuery(since=datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC))
    ) == ["busy"]


async def test_until_finds_sessions_that_were_opened_before_that_time(
    store: ReadModelStore, log: MemoryLog
) -> None:
    session = StoredSession(log=log, session="busy")
    await session.append_events(build_opened())
    await session.append_events(build_submitted(1, "later"))
    opened_at = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    just_after = opened_at + timedelta(microseconds=1)
    assert await list_sessions(store, log, SessionQuery(until=opened_at)) == []
    assert await list_sessions(store, log, SessionQuery(until=just_after)) == ["busy"]


async def test_user_finds_sessions_with_a_turn_of_that_user(
    store: ReadModelStore, log: MemoryLog
) -> None:
    for session, users in (("both", ("ann", "bob")), ("one", ("ann",)), ("none", (None,))):
        turns = (
            TurnSubmitted(turn=turn, text=PlainText(text="Hi"), user=user)
            for turn, user in enumerate(users, 1)
        )
        await StoredSession(log=log, session=session).append_events(build_opened(), *turns)
    assert await list_sessions(store, log, SessionQuery(user="ann")) == ["one", "both"]
    assert await list_sessions(store, log, SessionQuery(user="bob")) == ["both"]
    assert await list_sessions(store, log, SessionQuery(user="eve")) == []


async def test_sessions_can_be_filtered_by_redaction(store: ReadModelStore, log: MemoryLog) -> None:
    await StoredSession(log=log, session="kept").append_events(
        build_opened(), build_submitted(1, "one"), build_completed(1, "first")
    )
    await StoredSession(log=log, session="redacted").append_events(
        build_opened(),
        build_submitted(1, "one"),
        build_completed(1, "first"),
        ReplyRedacted(turn=1, reason="r", rule="operator", replacement=PlainText(text="-")),
    )
    assert await list_sessions(store, log, SessionQuery(redacted=True)) == ["redacted"]
    assert await list_sessions(store, log, SessionQuery(redacted=False)) == ["kept"]


async def test_profile_phase_and_failed_turns_are_filters(
    store: ReadModelStore, log: MemoryLog
) -> None:
    def enter(phase: str, before: str | None = None) -> PhaseEntered:
        return PhaseEntered(phase=phase, before=before)

    await StoredSession(log=log, session="calm").append_events(
        build_opened(), enter("one"), build_submitted(1, "Hi"), build_completed(1, "Hello.")
    )
    await StoredSession(log=log, session="failed").append_events(
        build_opened(),
        enter("one"),
        enter("two", "one"),
        build_submitted(1, "Hi"),
        TurnFailed(turn=1, code="bad_request", detail="no", retryable=False),
        ProfileSwitched(profile="agent", before="chat", reason="asked"),
    )
    await StoredSession(log=log, session="plain").append_events(build_opened())
    for query, found in (
        (SessionQuery(failed=True), ["failed"]),
        (SessionQuery(failed=False), ["plain", "calm"]),
        (SessionQuery(failure="bad_request"), ["failed"]),
        (SessionQuery(failure="timeout"), []),
        (SessionQuery(phase="one"), ["calm"]),
        (SessionQuery(phase="two"), ["failed"]),
        (SessionQuery(profile="agent"), ["failed"]),
        (SessionQuery(profile="agent", failed=False), []),
    ):
        assert await list_sessions(store, log, query) == found, query


async def test_tenant_does_not_see_sessions_of_another_tenant(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await StoredSession(log=log, session="same", tenant="a").append_events(
        build_opened(), build_submitted(1, "of a")
    )
    await StoredSession(log=log, session="same", tenant="b").append_events(
        build_opened(), build_submitted(1, "of b")
    )
    assert await list_sessions(store, log, SessionQuery(q="of a"), tenant="a") == ["same"]
    assert await list_sessions(store, log, SessionQuery(q="of a"), tenant="b") == []
