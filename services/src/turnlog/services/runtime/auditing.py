"""Verifying records: one session, or the whole log of a tenant with its library.

A whole log is gone through twice. First in stream order, where only the links of the stored bytes
are read and one small end a session is held; then session by session, a handful of megabytes at
a time, since sessions that were led at the same time lie close together. So memory depends on
how many sessions there are and on the longest of them, and not on how long the log is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from turnlog.events.codec import rfc3339
from turnlog.events.errors import Corrupt
from turnlog.events.log.library import LibraryLog
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.chain import Chains, End, Key, Noted, key_of
from turnlog.projections.audit.checkpoint import Checkpoint, heads
from turnlog.projections.audit.findings import Finding
from turnlog.projections.audit.report import Report
from turnlog.projections.audit.retelling import blobs_named
from turnlog.projections.audit.tally import Tally
from turnlog.projections.audit.totals import Totals
from turnlog.projections.audit.verify import Means, decoded, verify
from turnlog.projections.store.engine import Store
from turnlog.projections.store.totals import totals_of
from turnlog.services.runtime.bulk import seldom_collected
from turnlog.services.runtime.installed import installed
from turnlog.services.runtime.records import Records
from turnlog.services.runtime.sessions import Sessions

HELD: Final = 16_000_000
"""Stored bytes that are held at a time, unless one session alone has more."""
MOST_SESSIONS: Final = 500
"""Sessions that are held at a time; a database is asked for all of them at once."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come."""

    stage: Literal["chain", "sessions"]
    done: int
    """Events."""
    goal: int
    """Events, or in the first stage places of the stream."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that is wrong."""

    log: Literal["sessions", "library"]
    key: Key
    finding: Finding


@dataclass(frozen=True, slots=True)
class Over:
    """What it all came to."""

    tally: Tally
    events: int


Step = Progress | Wrong | Over
Ends = Mapping[Key, End]


@dataclass(frozen=True, slots=True)
class Auditing:
    """Verifies what one tenant has; nothing is written."""

    tenant: str
    sessions: Sessions
    library: LibraryLog
    store: Store
    means: Means = field(default_factory=lambda: Means(installed()))

    async def session(self, session: str, noted: Noted | None) -> Report:
        """Verify one session; refuses an unknown one."""
        try:
            events = await self.sessions.events(self.tenant, session)
        except Corrupt:
            # It cannot be read the short way; what can be told of it is read from the whole log.
            stored = await self._stored(session)
            return await self._examined(stored, None, noted)
        blobs = await Records(self.sessions).blobs(self.tenant, blobs_named(events))
        report = await asyncio.to_thread(verify, events, blobs, self.means, noted)
        return report.beside((await self._rows((session,))).get(session))

    async def _stored(self, session: str) -> list[Raw]:
        key, found = (self.tenant, session), list[Raw]()
        async with aclosing(self.sessions.log.follow(self.tenant, 0, live=False)) as bulks:
            async for bulk in bulks:
                found += [raw for raw in bulk if key_of(raw.subject) == key]
        return found

    async def _examined(
        self, stored: Sequence[Raw], rows: Totals | None, noted: Noted | None = None
    ) -> Report:
        events, junk = await asyncio.to_thread(decoded, stored)
        blobs = await Records(self.sessions).blobs(self.tenant, blobs_named(events))
        report = await asyncio.to_thread(verify, events, blobs, self.means, noted)
        return report.after(junk).beside(rows)

    async def _rows(self, sessions: Sequence[str]) -> Mapping[str, Totals]:
        async with self.store.reading() as connection:
            return await totals_of(connection, self.tenant, sessions)

    async def whole(self, witness: Checkpoint | None) -> AsyncGenerator[Step]:
        """Verify everything, and a checkpoint taken earlier; the last step says what came of it."""
        with seldom_collected():
            async with aclosing(self._through(witness)) as steps:
                async for step in steps:
                    yield step

    async def _through(self, witness: Checkpoint | None) -> AsyncGenerator[Step]:
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
        async for key, report in self._each(chains.ends):
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

    async def _each(self, ends: Ends) -> AsyncGenerator[tuple[Key, Report]]:
        for group in groups(ends):
            rows = await self._rows([session for _, session in group])
            held = await self._held({key: ends[key] for key in group})
            for key in group:
                yield key, await self._examined(held.pop(key), rows.get(key[1]))

    async def _held(self, ends: Ends) -> dict[Key, list[Raw]]:
        """Read the stretch of the log in which these sessions lie."""
        held: dict[Key, list[Raw]] = {key: [] for key in ends}
        first = min(end.first for end in ends.values())
        last = max(end.place for end in ends.values())
        follow = self.sessions.log.follow(self.tenant, first - 1, live=False)
        async with aclosing(follow) as bulks:
            async for bulk in bulks:
                for raw in bulk:
                    key = key_of(raw.subject)
                    if key in held and raw.stream_sequence <= ends[key].place:
                        held[key].append(raw)
                if bulk[-1].stream_sequence >= last:
                    return held
        return held

    async def checkpoint(self) -> Checkpoint:
        """Take a checkpoint; raises `Corrupt` where the chain of anything is broken."""
        identity = await self.sessions.log.identity(self.tenant)
        chains, shelves = Chains(), Chains()
        at, end = rfc3339(self.sessions.clock()), await self.sessions.log.end(self.tenant)
        async for step in self._chained(chains, shelves):
            if isinstance(step, Wrong):
                where = f"{step.log} {step.key[1]}, event {step.finding.sequence}"
                raise Corrupt(where, step.finding.detail)
        return Checkpoint(
            at=at,
            tenant=self.tenant,
            stream=identity.stream,
            created=identity.created,
            end=end,
            sessions=heads(chains.ends),
            library=heads(shelves.ends),
        )


def groups(ends: Ends) -> Iterable[Sequence[Key]]:
    """Split sessions into those that are held together, in the order they were begun."""
    group, size = list[Key](), 0
    for key, end in sorted(ends.items(), key=lambda item: item[1].first):
        if group and (size + end.size > HELD or len(group) == MOST_SESSIONS):
            yield group
            group, size = [], 0
        group.append(key)
        size += end.size
    if group:
        yield group
