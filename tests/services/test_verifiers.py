"""Verification in several processes reports the same as in one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.parts.house import TENANT, House
from tests.parts.reproduction import means
from tests.services.whatif.twice import CONVERSATION, FIRST, folder_of, led
from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Raw
from turnlog.projections.store.engine import Store, open_store
from turnlog.projections.store.schema import prepare
from turnlog.services.runtime.auditing import Auditing, Over, Progress, Step
from turnlog.services.runtime.verifiers import FEW, Here, Verifiers, as_many_as_help, beside

SESSIONS = 5


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    await prepare(store)
    yield store
    await store.close()


@pytest.fixture
async def house(tmp_path: Path) -> House:
    """A harness with some sessions."""
    house, library = House(), folder_of(tmp_path, FIRST, persona_md="You are a clerk.")
    for number in range(SESSIONS):
        await led(house, library, f"s-{number}", CONVERSATION[: number + 2])
    return house


def auditing(house: House, store: Store, verifiers: Verifiers) -> Auditing:
    return Auditing(TENANT, house.sessions, house.segments, store, means(), verifiers)


async def steps(auditing: Auditing) -> list[Step]:
    return [step async for step in auditing.whole(None) if not isinstance(step, Progress)]


async def ended_early(auditing: Auditing, others: Collection[BaseProcess]) -> None:
    """Verify a log while every process started for it is killed."""
    async for _ in auditing.whole(None):
        for process in active_children():
            if process not in others:
                process.kill()


def altered(log: list[Raw | None], session: str, was: bytes, now: bytes) -> None:
    """Replace bytes in the first event of a session that has them."""
    at, raw = next(
        (at, raw)
        for at, raw in enumerate(log)
        if raw and f".{session}." in raw.subject and was in raw.stored
    )
    log[at] = replace(raw, stored=raw.stored.replace(was, now))


@pytest.mark.tampers
async def test_processes_find_what_one_alone_finds_and_are_gone_when_all_is_said(
    house: House, store: Store
) -> None:
    before = active_children()
    altered(house.log.stored, "s-1", b"And the pen?", b"And the hen?")
    altered(house.log.stored, "s-2", b'"manifest"', b'"manifold"')
    altered(house.log.stored, "s-3", b'{"specversion"', b'["specversion"')
    found = await steps(auditing(house, store, lambda _events, _means: beside(2)))
    assert found == await steps(auditing(house, store, as_many_as_help))
    over = found[-1]
    assert isinstance(over, Over)
    assert {session for _, session in over.tally.unsound} == {"s-1", "s-2", "s-3"}
    assert over.tally.sessions == SESSIONS
    assert active_children() == before


async def test_where_a_process_is_lost_nothing_is_said_to_be_sound(
    house: House, store: Store
) -> None:
    before = active_children()
    shared = auditing(house, store, lambda _events, _means: beside(1))
    with pytest.raises(Unavailable, match="was lost"):
        await ended_early(shared, before)
    assert active_children() == before


def test_a_short_log_is_verified_without_another_process() -> None:
    few = as_many_as_help(FEW - 1, means())
    assert isinstance(few, nullcontext)
    with few as alone:
        assert isinstance(alone, Here)
