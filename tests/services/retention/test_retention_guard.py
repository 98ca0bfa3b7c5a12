"""What is asked of policies and holds before keys are removed, on a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.gateway.gateway_service import (
    MemoryBackend,
    build_command_handler,
    build_library_parts,
)
from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import HoldPlaced, RetentionScope
from turnlog.events.model.redaction_events import ErasureBegun
from turnlog.events.model.session_events import SessionDescribed, SessionOrigin
from turnlog.projections.store.engine import open_store
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.retention.retention_guard import RetentionGuard
from turnlog.services.retention.retention_service import RetentionService

CALLER = Caller(tenant="t", metadata=CommandMetadata("key:dora"))

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest_asyncio.fixture
async def guard(backend: MemoryBackend) -> AsyncIterator[RetentionGuard]:
    store = open_store("sqlite:///:memory:")
    yield RetentionGuard(
        build_command_handler(backend, store, "/test"),
        RetentionService(build_library_parts(backend, "/test")),
    )
    await store.close()


async def open_sealed(backend: MemoryBackend, session: str, **values: object) -> StoredSession:
    stored = StoredSession(log=backend.log, session=session)
    opened = build_opened().model_copy(update={"sealed_under": 1, **values})
    await stored.append_events(opened)
    return stored


async def place_hold(guard: RetentionGuard, **where: object) -> None:
    scope = RetentionScope.model_validate(where)
    await guard.service.place_hold(CALLER, HoldPlaced(name="h", where=scope, reason="case 1"))


async def is_held(guard: RetentionGuard, session: str) -> bool:
    try:
        await guard.require_unheld("t", [session])
    except Refused as refused:
        return refused.code == "held"
    return False


async def test_child_of_a_session_that_is_held_is_held_and_not_the_other_way_round(
    backend: MemoryBackend, guard: RetentionGuard
) -> None:
    await open_sealed(backend, "p", labels=("case",))
    origin = SessionOrigin(kind="parent", session="p", sequence=1)
    await open_sealed(backend, "c", origin=origin)
    fork = SessionOrigin(kind="fork", session="p", sequence=1)
    await open_sealed(backend, "f", origin=fork)
    await place_hold(guard, labels=("case",))
    held = [each for each in ("p", "c", "f") if await is_held(guard, each)]
    assert held == ["p", "c"]
    await guard.service.release_hold(CALLER, "h", "over")
    await place_hold(guard, session="c")
    held = [each for each in ("p", "c", "f") if await is_held(guard, each)]
    assert held == ["c"]


async def test_labels_and_users_count_once_the_erasure_of_the_session_has_begun(
    backend: MemoryBackend, guard: RetentionGuard
) -> None:
    stored = await open_sealed(backend, "s", labels=("old",))
    asked = build_submitted(1, "Hi").model_copy(update={"user": "ann"})
    await stored.append_events(asked)
    await stored.append_events(build_completed(1, "Hello"))
    await stored.append_events(SessionDescribed(labels=("case",)))
    await stored.append_events(
        ErasureBegun(leaves="s:0-", turns=(), reason="request", reached=(), with_replies=False)
    )
    for where, expected in (
        ({"labels": ("case",)}, True),
        ({"labels": ("old",)}, False),
        ({"user": "ann"}, True),
        ({"user": "bob"}, False),
    ):
        await place_hold(guard, **where)
        assert await is_held(guard, "s") == expected, where
        await guard.service.release_hold(CALLER, "h", "over")


async def test_age_counts_from_the_last_turn_and_not_from_what_is_done_about_a_session(
    backend: MemoryBackend, guard: RetentionGuard
) -> None:
    stored = await open_sealed(backend, "s")
    (facts,) = await guard.load_protected("t", "s")
    assert facts.used_at == BEGIN + timedelta(seconds=1)
    await stored.append_events(build_submitted(1, "Hi"))
    await stored.append_events(build_completed(1, "Hello"))
    await stored.append_events(SessionDescribed(labels=("case",)))
    (facts,) = await guard.load_protected("t", "s")
    assert facts.used_at == BEGIN + timedelta(seconds=3)
    assert set(facts.labels) == {"case"}


async def test_hold_that_another_process_placed_counts_at_once(
    backend: MemoryBackend, guard: RetentionGuard
) -> None:
    await open_sealed(backend, "s")
    await place_hold(guard, session="another")
    assert not await is_held(guard, "s")
    other = RetentionService(build_library_parts(backend, "/other"))
    hold = HoldPlaced(name="other", where=RetentionScope(session="s"), reason="case 1")
    await other.place_hold(CALLER, hold)
    assert await is_held(guard, "s")
