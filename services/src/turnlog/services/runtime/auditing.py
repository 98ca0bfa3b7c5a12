"""Verification of one session, or of a tenant's whole log with its library.

A whole log is read twice. The first pass goes in stream order, reads only the chain links of the
stored bytes and keeps one small record for each session. The second pass verifies session by
session, a few megabytes at a time: sessions that ran at the same time lie close together in the
stream, and reading each one by itself would make the server scan the stream for each of them. A
long log is divided among processes. So memory depends on the number of sessions and on the longest
session, not on the length of the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from turnlog.events.codec import rfc3339
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.log.library import LibraryLog
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.chain import Chains, Key, Noted, key_of
from turnlog.projections.audit.checkpoint import Checkpoint, heads
from turnlog.projections.audit.findings import Finding
from turnlog.projections.audit.prompts import Means
from turnlog.projections.audit.report import Report
from turnlog.projections.audit.retelling import blobs_named
from turnlog.projections.audit.tally import Tally
from turnlog.projections.audit.totals import Totals
from turnlog.projections.audit.verify import verify
from turnlog.projections.store.engine import Store
from turnlog.projections.store.totals import totals_of
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.bulk import seldom_collected
from turnlog.services.runtime.installed import installed
from turnlog.services.runtime.records import Records, nothing_kept
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.stretches import Ends, stretches
from turnlog.services.runtime.tasks import stopped
from turnlog.services.runtime.texts import TextCache
from turnlog.services.runtime.verifiers import Here, Verifier, Verifiers, as_many_as_help


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the verification has come."""

    stage: Literal["chain", "sessions"]
    done: int
    """Events so far."""
    goal: int
    """Events in all, or stream positions in the first stage."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A finding, and the log and the session or library that it concerns."""

    log: Literal["sessions", "library"]
    key: Key
    finding: Finding


@dataclass(frozen=True, slots=True)
class Over:
    """The overall result."""

    tally: Tally
    events: int


Step = Progress | Wrong | Over


@dataclass(frozen=True, slots=True)
class Auditing:
    """Verifies one tenant's records; one instance for each run. It writes nothing."""

    tenant: str
    sessions: Sessions
    library: LibraryLog
    store: Store
    means: Means = field(default_factory=lambda: Means(installed()))
    verifiers: Verifiers = as_many_as_help
    kept: TextCache[tuple[str, Digest]] = field(default_factory=nothing_kept)
    """Blobs that were read from the store in this run."""

    async def session(self, session: str, noted: Noted | None) -> Report:
        """Verify one session; refuse one that is unknown and has no noted head."""
        try:
            events = await self._events(session, noted)
        except Corrupt:
            # The session cannot be read directly, so the whole log is scanned for its stored
            # events.
            stored = await self._stored(session)
            return await Here(self.means).report(stored, self._blobs, noted)
        blobs = await self._blobs(blobs_named(events))
        report = await aside(lambda: verify(events, blobs, self.means, noted))
        return report.beside((await self._rows((session,))).get(session))

    async def _events(self, session: str, noted: Noted | None) -> Sequence[Recorded]:
        """Return all events, at least up to the noted one; none if a noted session is gone."""
        least = noted.sequence if noted else 0
        try:
            last = await self.sessions.last(self.tenant, session, least)
        except Refused:
            if noted is None:
                raise
            return ()
        return await self.sessions.log.between(self.tenant, session, None, last)

    async def _blobs(self, digests: Sequence[Digest]) -> Mapping[Digest, str]:
        return await Records(self.sessions, self.kept).blobs(self.tenant, digests)

    async def _stored(self, session: str) -> list[Raw]:
        key, found = (self.tenant, session), list[Raw]()
        async with aclosing(self.sessions.log.follow(self.tenant, 0, live=False)) as bulks:
            async for bulk in bulks:
                found += [raw for raw in bulk if key_of(raw.subject) == key]
        return found

    async def _rows(self, sessions: Sequence[str]) -> Mapping[str, Totals]:
        async with self.store.reading() as connection:
            return await totals_of(connection, self.tenant, sessions)

    async def whole(self, witness: Checkpoint | None) -> AsyncGenerator[Step]:
        """Verify everything, against a checkpoint if given; the last step is the result."""
        # The end of the log is an upper bound on its events; the processes start while pass one
        # runs.
        most = await self.sessions.log.end(self.tenant)
        with seldom_collected(), self.verifiers(most, self.means) as by:
            async with aclosing(self._through(witness, by)) as steps:
                async for step in steps:
                    yield step

    async def _through(self, witness: Checkpoint | None, by: Verifier) -> AsyncGenerator[Step]:
        tally, told = Tally(witness is not None), set[tuple[Key, Finding]]()
        chains = Chains(witness.noted() if witness else {})
        shelves = Chains(witness.noted_library() if witness else {})
        async for step in self._chained(chains, shelves):
            if isinstance(step, Wrong):
                told.add((step.key, step.finding))
                tally.found(step.key, step.finding)
            yield step
        goal = sum(end.events for end in chains.ends.values())
        done = 0
        async with aclosing(self._each(chains.ends, by)) as reports:
            async for key, report in reports:
                tally.take(report)
                for finding in report.findings:
                    if (key, finding) not in told:
                        tally.found(key, finding)
                        yield Wrong("sessions", key, finding)
                done += report.events
                yield Progress("sessions", done, goal)
        yield Over(tally, goal + sum(end.events for end in shelves.ends.values()))

    async def _chained(self, chains: Chains, shelves: Chains) -> AsyncGenerator[Progress | Wrong]:
        goal, done = await self.sessions.log.end(self.tenant), 0
        async with aclosing(self.sessions.log.follow(self.tenant, 0, live=False)) as bulks:
            async for bulk in bulks:
                for found in filter(None, map(chains.taken, bulk)):
                    yield Wrong("sessions", *found)
                done += len(bulk)
                yield Progress("chain", done, goal)
        async with aclosing(self.library.follow(0, live=False)) as bulks:
            async for bulk in bulks:
                ours = [raw for raw in bulk if key_of(raw.subject)[0] == self.tenant]
                for found in filter(None, map(shelves.taken, ours)):
                    yield Wrong("library", *found)
        for key, finding in chains.missing():
            yield Wrong("sessions", key, finding)
        for key, finding in shelves.missing():
            yield Wrong("library", key, finding)

    async def _each(self, ends: Ends, by: Verifier) -> AsyncGenerator[tuple[Key, Report]]:
        """Yield the sessions' reports in the order they began, verifying several concurrently."""
        under_way = deque[tuple[Key, asyncio.Task[Report]]]()
        read = stretches(self.sessions.log, self.tenant, ends)
        try:
            async with aclosing(read):
                async for stretch in read:
                    rows = await self._rows([session for _, session in stretch])
                    for key in tuple(stretch):
                        examined = self._examined(stretch.pop(key), rows.get(key[1]), by)
                        under_way.append((key, asyncio.create_task(examined)))
                        if len(under_way) == by.at_once:
                            first, task = under_way.popleft()
                            yield first, await task
            for key, task in under_way:
                yield key, await task
        finally:
            await stopped(*(task for _, task in under_way))

    async def _examined(self, stored: Sequence[Raw], rows: Totals | None, by: Verifier) -> Report:
        return (await by.report(stored, self._blobs)).beside(rows)

    async def checkpoint(self) -> Checkpoint:
        """Return a checkpoint of all heads; raise `Corrupt` where a chain is broken."""
        identity = await self.sessions.log.identity(self.tenant)
        chains, shelves = Chains(), Chains()
        async for step in self._chained(chains, shelves):
            if isinstance(step, Wrong):
                where = f"{step.log} {step.key[1]}, event {step.finding.sequence}"
                raise Corrupt(where, step.finding.detail)
        return Checkpoint(
            at=rfc3339(self.sessions.clock()),
            tenant=self.tenant,
            stream=identity.stream,
            created=identity.created,
            end=max((end.last for end in chains.ends.values()), default=0),
            sessions=heads(chains.ends),
            library=heads(shelves.ends),
        )
