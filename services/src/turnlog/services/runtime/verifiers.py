"""Verifiers: processes that verify sessions, since one alone has no more than one processor.

Each is handed the stored bytes of one session after the other, names the blobs it needs, and says
what it found. It reads no log, writes nothing, and gives way to whoever serves. Where one is lost,
so is what it was about to find, and the whole is ended with it.
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
"""Events that are verified sooner than processes are started."""
MOST: Final = 6
"""Processes that one which reads the log for them keeps busy."""
AHEAD: Final = 4
"""Sessions for each of them to do while the next stretch is read."""
_COURTESY: Final = 5
"""How much less urgent than serving it is."""

Fetch = Callable[[Sequence[Digest]], Awaitable[Mapping[Digest, str]]]
"""Gives the blobs there are of these."""


class Verifier(Protocol):
    """Verifies sessions."""

    @property
    def at_once(self) -> int:
        """How many it should be given at a time."""
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
        """See `Verifier.report`."""
        events, unread = await aside(lambda: decoded(stored))
        blobs = await fetch(blobs_named(events))
        return await aside(lambda: verify(events, blobs, self.means, noted, unread))


@dataclass(frozen=True, slots=True)
class Beside:
    """Verifies in whichever process is free."""

    free: asyncio.Queue[Connection]
    at_once: int

    async def report(self, stored: Sequence[Raw], fetch: Fetch) -> Report:
        """See `Verifier.report`."""
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
"""Gives who verifies so many events, until the body is over."""


def as_many_as_help(events: int, means: Means) -> AbstractContextManager[Verifier]:
    """See `Verifiers`: processes only for a long log, and where there are processors for them."""
    processors = min(os.cpu_count() or 1, MOST)
    return nullcontext(Here(means)) if events < FEW or processors == 1 else beside(processors)


@contextmanager
def beside(processes: int) -> Generator[Verifier]:
    """Start so many processes, which are gone when the body is over."""
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
    its.close()  # so that the end of the process is the end of the pipe
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def _verifying(asked: Connection) -> None:
    """Verify what is handed in until whoever asks has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks is told, and says so
    os.nice(_COURTESY)
    means = Means(installed())
    with seldom_collected(), suppress(EOFError, BrokenPipeError):
        while True:
            stored = starmap(Raw, asked.recv())
            with uncollected():
                events, unread = decoded(stored)
                asked.send(blobs_named(events))
                asked.send(verify(events, asked.recv(), means, unread=unread))
