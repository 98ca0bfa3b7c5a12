"""Texts stay on the log: rows hold at most a title."""

from __future__ import annotations

import pytest

from tests.projections.store.row_fold import ensure_live_position, fold_log, read_rows
from tests.projections.store.session_histories import (
    SAMPLE_DIGEST,
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from turnlog.events.content import ErasedText, PlainText, SealedText
from turnlog.events.model.session_events import SessionDescribed
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read import session_queries
from turnlog.projections.store.read.row_types import ListedSession


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


async def read_session(store: ReadModelStore, story: StoredSession) -> ListedSession:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        row = await session_queries.find_session(connection, story.tenant, story.session)
    assert row is not None
    return row


async def test_sealed_and_erased_texts_are_not_in_the_rows(
    store: ReadModelStore, story: StoredSession
) -> None:
    sealed = SealedText(sealed="c2VhbGVk", key="k", digest=SAMPLE_DIGEST, characters=6)
    erased = ErasedText(erased=True, digest=SAMPLE_DIGEST, characters=6)
    await story.append_events(build_opened(), TurnSubmitted(turn=1, text=sealed))
    await story.append_events(build_completed(1, "plain").model_copy(update={"text": erased}))
    assert (await read_session(store, story)).title is None
    await story.append_events(SessionDescribed(title=sealed), SessionDescribed(title=erased))
    assert (await read_session(store, story)).title is None
    rows = await read_rows(store, (await ensure_live_position(store)).build)
    assert len(rows["turns"]) == 1
    assert "c2VhbGVk" not in str(rows)


async def test_nul_in_a_text_becomes_the_replacement_character(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(name="a\0b"), build_submitted(1, "nul \0 here"))
    row = await read_session(store, story)
    assert row.title == "nul \ufffd here"
    assert row.attributes == {"name": "a\0b"}
    named = SessionDescribed(title=PlainText(text="a \0 title"), labels=("a\0b",))
    await story.append_events(named)
    row = await read_session(store, story)
    assert (row.title, row.labels) == ("a \ufffd title", ("a\0b",))


async def test_texts_of_turns_are_not_copied_into_the_rows(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(
        build_opened(), build_submitted(1, "title"), build_completed(1, "secret answer")
    )
    described = SessionDescribed(metadata={"note": "secret note"})
    await story.append_events(build_submitted(2, "secret question"), described)
    await fold_log(store, story.log)
    found = await read_rows(store, (await ensure_live_position(store)).build)
    assert "title" in str(found)
    assert "secret" not in str(found)
