"""The audit: the chain of a log, prompts reproduced in both ways, and the memory it takes."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF
from typing import Final, NamedTuple

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_least, require_at_most
from benchmarks.support.full_window_sessions import (
    TENANT,
    TOKENS,
    TURNS,
    build_command_handler,
    build_full_session,
    copy_sessions,
    run_server_with_blobs,
)
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.verify.hash_chain import ChainVerifier
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.audit.verify_pool import MAX_PROCESSES
from turnlog.services.audit.verify_service import VerifyOutcome, VerifyService
from turnlog.services.platform.gc_control import reduce_collection

SHORT_SESSIONS: Final = 140
"""More sessions than are ever in memory at once, and enough for several processes."""
LONG_SESSIONS: Final = 925
"""Sessions that make a million events once the log has grown."""
GROWTH: Final = 3
"""Factor by which the log grows."""


class VerifyCost(NamedTuple):
    """What verifying a log cost."""

    by_clock: float
    """Calls a second."""
    by_processor: float
    """Calls a second of processor time, all processes together."""
    memory: float
    """Peak memory of all processes together, in kilobytes."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Fill a log with copies of one session and verify it; grow the log and verify again."""
    some, house = LONG_SESSIONS if terms.long else SHORT_SESSIONS, await build_full_session()
    async with run_server_with_blobs(terms.folder, house) as (url, on):
        await copy_sessions(on.log, house, range(some))
        chains = [await _measure_chain(on.log) for _ in range(terms.runs)]
        verified = [await _verify_in_process(url, terms.folder) for _ in range(terms.runs)]
        await copy_sessions(on.log, house, range(some, some * GROWTH))
        more = await _verify_in_process(url, terms.folder)
    events = round(chains[0][2])
    what = f"{some} sessions of {TURNS} turns, {events:,} events, from a nats-server"
    return (
        *_build_chain_figures(what, chains),
        *_build_verify_figures(what, verified),
        Figure(
            name="memory over a longer log",
            measured=f"the most memory that verifying took over {GROWTH * events:,} events, by"
            " that over "
            f"{events:,}, all of its processes taken together",
            unit="x",
            runs=tuple(more.memory / each.memory for each in verified),
            target=require_at_most(1.15),
        ),
    )


def _build_chain_figures(
    what: str, taken: Sequence[tuple[float, float, float]]
) -> Sequence[Figure]:
    description = f"{what}: delivered by callback, digested, and held against what continues them"
    return (
        Figure(
            name="chain",
            measured=description,
            unit="events/s",
            runs=tuple(each[0] for each in taken),
            target=require_at_least(40_000),
        ),
        Figure(
            name="chain, own time",
            measured="the same, by the processor time of the checking process alone",
            unit="events/s",
            runs=tuple(each[1] for each in taken),
        ),
    )


def _build_verify_figures(what: str, taken: Sequence[VerifyCost]) -> Sequence[Figure]:
    description = (
        f"{what}, windows of up to {TOKENS:,} tokens: chain, decoding, folding, and every prompt "
        "had again by its references and by assembling it"
    )
    clock, processor = zip(*((each.by_clock, each.by_processor) for each in taken), strict=True)
    return (
        Figure(
            name="verify",
            measured=description,
            unit="calls/s",
            runs=clock,
            target=require_at_least(4_000),
        ),
        Figure(
            name="verify, own time",
            measured="the same, by the processor time of the verifying processes together",
            unit="calls/s",
            runs=processor,
        ),
        Figure(
            name="memory of verifying",
            measured="the most memory of the process that reads, and as much for each beside"
            " it as the "
            "largest of them had",
            unit="MB",
            runs=tuple(each.memory / 1_000 for each in taken),
        ),
    )


async def _measure_chain(log: EventLog) -> tuple[float, float, float]:
    """Give events a second by the clock and by the time of this process, and how many there are."""
    began, own, count, chains = time.perf_counter(), time.process_time(), 0, ChainVerifier()
    with reduce_collection():
        async with aclosing(log.stream_raw_events(TENANT, 0, live=False)) as bulks:
            async for bulk in bulks:
                count += len(bulk)
                assert not any(map(chains.check_event, bulk))
    return count / (time.perf_counter() - began), count / (time.process_time() - own), count


async def _verify_in_process(url: str, folder: Path) -> VerifyCost:
    """Verify a log in a process of its own, and in those that it starts."""
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return await loop.run_in_executor(process, _run_verify, url, folder)


def _run_verify(url: str, folder: Path) -> VerifyCost:
    return asyncio.run(_measure_verify(url, folder))


async def _measure_verify(url: str, folder: Path) -> VerifyCost:
    store = open_store(f"sqlite:///{folder}/rows.db")
    async with open_client(url, Layout(replicas=1)) as on:
        await prepare_schema(store)
        auditing = VerifyService(
            tenant=TENANT,
            command_handler=build_command_handler(on),
            library_log=on.library,
            alerts_log=on.alerts,
            reads_log=on.reads,
            store=store,
        )
        began, own = time.perf_counter(), time.process_time()
        async with aclosing(auditing.verify_log(None)) as steps:
            over = [step async for step in steps if isinstance(step, VerifyOutcome)][-1]
        wall, processor_time = time.perf_counter() - began, time.process_time() - own
    await store.close()
    assert not over.tally.findings
    prompts = over.tally.prompts
    assert prompts.calls == prompts.assembly == prompts.reference
    alone, beside = (resource.getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    processor_time += beside.ru_utime + beside.ru_stime
    most = alone.ru_maxrss + beside.ru_maxrss * min(os.cpu_count() or 1, MAX_PROCESSES)
    return VerifyCost(prompts.calls / wall, prompts.calls / processor_time, most)
