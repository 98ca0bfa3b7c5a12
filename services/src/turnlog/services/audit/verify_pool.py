"""Processes that verify sessions, because one Python process uses only one processor.

Each process receives the stored bytes of one session at a time, names the blobs that it needs and
returns a report. It does not read the log, writes nothing and runs at a lower priority than the
service. If a process is lost, its findings are unknown, so the whole run ends with an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import starmap
from multiprocessing.connection import Connection
from typing import Final, Protocol

from turnlog.events.content import Digest
from turnlog.events.store.ports import RawEvent
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.hash_chain import WitnessedHead, decode_events
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.projections.audit.verify.verification_report import VerificationReport
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.platform.concurrency import (
    run_in_thread,
    send_to_child,
    start_child_process,
)
from turnlog.services.platform.gc_control import pause_collection, reduce_collection

IN_PROCESS_EVENT_LIMIT: Final = 20_000
"""Events that are verified in less time than it takes to start processes."""

MAX_PROCESSES: Final = 6
"""Processes that one reader of the log can keep busy."""

SESSIONS_PER_PROCESS: Final = 4
"""Sessions queued for each process while the next batch is read."""

FetchBlobs = Callable[[Sequence[Digest]], Awaitable[Mapping[Digest, str]]]
"""Return the blobs of these digests, as far as they exist."""


class SessionVerifier(Protocol):
    """Verifies stored sessions."""

    @property
    def concurrency(self) -> int:
        """How many sessions may be verified concurrently."""
        ...

    async def verify_stored(
        self, stored: Sequence[RawEvent], fetch_blobs: FetchBlobs
    ) -> VerificationReport:
        """Verify all stored events of a session."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadVerifier:
    """Verifies in a thread of this process."""

    means: VerificationContext
    concurrency: Final = 1

    async def verify_stored(
        self,
        stored: Sequence[RawEvent],
        fetch_blobs: FetchBlobs,
        noted: WitnessedHead | None = None,
    ) -> VerificationReport:
        events, unread = await run_in_thread(lambda: decode_events(stored))
        blobs = await fetch_blobs(collect_blob_digests(events))
        return await run_in_thread(
            lambda: verify_session(
                events=events,
                blobs=blobs,
                context=self.means,
                witnessed_head=noted,
                undecodable=unread,
            )
        )


@dataclass(frozen=True, slots=True)
class ProcessVerifier:
    """Verifies in the next idle process."""

    idle_processes: asyncio.Queue[Connection]
    concurrency: int

    async def verify_stored(
        self, stored: Sequence[RawEvent], fetch_blobs: FetchBlobs
    ) -> VerificationReport:
        process = await self.idle_processes.get()
        plain = [(raw.subject, raw.stream_sequence, raw.stored) for raw in stored]
        named: tuple[Digest, ...] = await send_to_child(process, plain)
        report: VerificationReport = await send_to_child(process, await fetch_blobs(named))
        self.idle_processes.put_nowait(process)
        return report


OpenVerifier = Callable[[int, VerificationContext], AbstractContextManager[SessionVerifier]]
"""Return a context manager of a verifier that suits the number of events."""


def open_best_verifier(
    events: int, means: VerificationContext
) -> AbstractContextManager[SessionVerifier]:
    """Open processes for a long log on a machine with several processors, else a thread."""
    processors = min(os.cpu_count() or 1, MAX_PROCESSES)
    return (
        nullcontext(ThreadVerifier(means))
        if events < IN_PROCESS_EVENT_LIMIT or processors == 1
        else start_process_verifier(processors)
    )


@contextmanager
def start_process_verifier(processes: int) -> Generator[SessionVerifier]:
    """Start a number of processes, which are killed when the body ends."""
    with ExitStack() as started:
        free = asyncio.Queue[Connection]()
        for _ in range(processes):
            free.put_nowait(started.enter_context(start_child_process(_run_verify_process)))
        yield ProcessVerifier(free, SESSIONS_PER_PROCESS * processes)


def _run_verify_process(connection: Connection) -> None:
    """Verify the sessions received on a pipe until its other end is closed."""
    means = VerificationContext(collect_installed())
    with reduce_collection():
        while True:
            stored = starmap(RawEvent, connection.recv())
            with pause_collection():
                events, unread = decode_events(stored)
                connection.send(collect_blob_digests(events))
                connection.send(
                    verify_session(events, connection.recv(), means, undecodable=unread)
                )
