"""Verification in several processes reports the same as in one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.services.what_if.two_versions import (
    CONVERSATION,
    FIRST_VERSION,
    run_conversation,
    write_blueprint_folder,
)
from tests.support.sessions.reproduction_checks import get_verification_means
from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.errors import Unavailable
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import ALERT_HISTORY, READ_HISTORY
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.audit.chain_scan import VerifyProgress
from turnlog.services.audit.verify_pool import (
    IN_PROCESS_EVENT_LIMIT,
    OpenVerifier,
    ThreadVerifier,
    open_best_verifier,
    start_process_verifier,
)
from turnlog.services.audit.verify_service import VerifyOutcome, VerifyService, VerifyStep

SESSIONS = 5


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ReadModelStore]:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    await prepare_schema(store)
    yield store
    await store.close()


@pytest.fixture
async def house(tmp_path: Path) -> SessionHarness:
    """A harness with some sessions."""
    house, library = (
        SessionHarness(),
        write_blueprint_folder(tmp_path, FIRST_VERSION, persona_md="You are a clerk."),
    )
    for number in range(SESSIONS):
        await run_conversation(house, library, f"s-{number}", CONVERSATION[: number + 2])
    return house


def build_verify_service(
    house: SessionHarness, store: ReadModelStore, verifiers: OpenVerifier
) -> VerifyService:
    return VerifyService(
        tenant=TENANT,
        command_handler=house.sessions,
        library_log=house.segments,
        alerts_log=MemoryLog(kind=ALERT_HISTORY),
        reads_log=MemoryLog(kind=READ_HISTORY),
        store=store,
        means=get_verification_means(),
        open_verifier=verifiers,
    )


async def list_verify_steps(auditing: VerifyService) -> list[VerifyStep]:
    return [
        step async for step in auditing.verify_log(None) if not isinstance(step, VerifyProgress)
    ]


async def verify_while_killing(auditing: VerifyService, others: Collection[BaseProcess]) -> None:
    """Verify a log while every process that is started for it is killed."""
    async for _ in auditing.verify_log(None):
        for process in active_children():
            if process not in others:
                process.kill()


def alter_event(log: list[RawEvent | None], session: str, was: bytes, now: bytes) -> None:
    """Alter the first event of a session that has these bytes."""
    at, raw = next(
        (at, raw)
        for at, raw in enumerate(log)
        if raw and f".{session}." in raw.subject and was in raw.stored
    )
    log[at] = replace(raw, stored=raw.stored.replace(was, now))


@pytest.mark.slow("processes of a pool start")
@pytest.mark.tampers
async def test_process_pool_reports_the_same_faults_as_one_process_and_then_ends(
    house: SessionHarness, store: ReadModelStore
) -> None:
    before = active_children()
    alter_event(house.log.stored, "s-1", b"And the pen?", b"And the hen?")
    alter_event(house.log.stored, "s-2", b'"manifest"', b'"manifold"')
    alter_event(house.log.stored, "s-3", b'{"specversion"', b'["specversion"')
    found = await list_verify_steps(
        build_verify_service(house, store, lambda _events, _means: start_process_verifier(2))
    )
    assert found == await list_verify_steps(build_verify_service(house, store, open_best_verifier))
    over = found[-1]
    assert isinstance(over, VerifyOutcome)
    assert {session for _, session in over.tally.unsound} == {"s-1", "s-2", "s-3"}
    assert over.tally.sessions == SESSIONS
    assert active_children() == before


async def test_verification_raises_unavailable_when_a_pool_process_dies(
    house: SessionHarness, store: ReadModelStore
) -> None:
    before = active_children()
    shared = build_verify_service(house, store, lambda _events, _means: start_process_verifier(1))
    with pytest.raises(Unavailable, match="ended unexpectedly"):
        await verify_while_killing(shared, before)
    assert active_children() == before


def test_short_log_is_verified_in_the_calling_process() -> None:
    verifier = open_best_verifier(IN_PROCESS_EVENT_LIMIT - 1, get_verification_means())
    assert isinstance(verifier, nullcontext)
    with verifier as alone:
        assert isinstance(alone, ThreadVerifier)
