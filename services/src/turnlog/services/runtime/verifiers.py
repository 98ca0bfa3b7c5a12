"""Processes that verify sessions, because one Python process uses only one processor.

Each process receives the stored bytes of one session at a time, names the blobs that it needs and
returns a report. It does not read the log, writes nothing and runs at a lower priority than the
service. If a process is lost, its findings are unknown, so the whole run ends with an error.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import starmap
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from turnlog.events.content import Digest
from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.chain import Noted
from turnlog.projections.audit.prompts import Means
from turnlog.projections.audit.report import Report
from turnlog.projections.audit.retelling import blobs_named
from turnlog.projections.audit.unread import decoded
from turnlog.projections.audit.verify import verify
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.bulk import seldom_collected, uncollected
from turnlog.services.runtime.installed import installed

FEW: Final = 20_000
"""Events that are verified in less time than it takes to start processes."""
MOST: Final = 6
"""Processes that one reader of the log can keep busy."""
AHEAD: Final = 4
"""Sessions queued for each process while the next batch is read."""
_COURTESY: Final = 5
"""How much the niceness of a verifying process is raised."""

Fetch = Callable[[Sequence[Digest]], Awaitable[Mapping[Digest, str]]]
"""Return the blobs of these digests, as far as they exist."""


class Verifier(Protocol):
    """Verifies stored sessions."""

    @property
    def at_once(self) -> int:
        """How many sessions may be verified concurrently."""
        ...

    async def report(self, stored: Sequence[Raw], fetch: Fetch) -> Report:
        """Verify all stored events of a session."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """Verifies in a thread of this process."""

    means: Means
    at_once: Final = 1

    async def report(
        self, stored: Sequence[Raw], fetch: Fetch, noted: Noted | None = None
    ) -> Report:
        events, unread = await aside(lambda: decoded(stored))
        blobs = await fetch(blobs_named(events))
        return await aside(lambda: verify(events, blobs, self.means, noted, unread))


@dataclass(frozen=True, slots=True)
class Beside:
    """Verifies in the next idle process."""

    free: asyncio.Queue[Connection]
    at_once: int

    async def report(self, stored: Sequence[Raw], fetch: Fetch) -> Report:
        process = await self.free.get()
        plain = [(raw.subject, raw.stream_sequence, raw.stored) for raw in stored]
        named: tuple[Digest, ...] = await asyncio.to_thread(_asked, process, plain)
        report: Report = await asyncio.to_thread(_asked, process, await fetch(named))
        self.free.put_nowait(process)
        return report


def _asked(process: Connection, question: object) -> Any:  # noqa: ANN401 it answers two things
    try:
        process.send(question)
        return process.recv()
    except (EOFError, OSError):
        detail = "a process that verified sessions was lost"
        raise Unavailable("verifying", detail) from None


Verifiers = Callable[[int, Means], AbstractContextManager[Verifier]]
"""Return a context manager of a verifier that suits the number of events."""


def as_many_as_help(events: int, means: Means) -> AbstractContextManager[Verifier]:
    """Open processes for a long log on a machine with several processors, else a thread."""
    processors = min(os.cpu_count() or 1, MOST)
    return nullcontext(Here(means)) if events < FEW or processors == 1 else beside(processors)


@contextmanager
def beside(processes: int) -> Generator[Verifier]:
    """Start a number of processes, which are killed when the body ends."""
    with ExitStack() as started:
        free = asyncio.Queue[Connection]()
        for _ in range(processes):
            free.put_nowait(started.enter_context(_process()))
        yield Beside(free, AHEAD * processes)


@contextmanager
def _process() -> Generator[Connection]:
    spawning = get_context("spawn")
    ours, its = spawning.Pipe()
    process = spawning.Process(target=_verifying, args=(its,), daemon=True)
    process.start()
    its.close()  # Otherwise the pipe would stay open when the process has ended.
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def _verifying(asked: Connection) -> None:
    """Verify the sessions received on a pipe until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process.
    os.nice(_COURTESY)
    means = Means(installed())
    with seldom_collected(), suppress(EOFError, BrokenPipeError):
        while True:
            stored = starmap(Raw, asked.recv())
            with uncollected():
                events, unread = decoded(stored)
                asked.send(blobs_named(events))
                asked.send(verify(events, asked.recv(), means, unread=unread))
