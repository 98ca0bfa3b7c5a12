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
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import format_rfc3339
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.ids import validate_id
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.hash_chain import (
    ChainEnd,
    ChainKey,
    ChainVerifier,
    WitnessedHead,
    parse_chain_key,
)
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    VerificationTally,
    verify_session,
)
from turnlog.projections.audit.verify.signed_checkpoints import (
    AuditCheckpoint,
    build_checkpoint_heads,
)
from turnlog.projections.audit.verify.verification_report import (
    AuditFinding,
    SessionTotals,
    VerificationReport,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.session_queries import compute_totals
from turnlog.services.auditing.session_record import SessionRecordLoader, create_blob_cache
from turnlog.services.auditing.verify_pool import (
    OpenVerifier,
    SessionVerifier,
    ThreadVerifier,
    open_best_verifier,
)
from turnlog.services.blueprints.plugins import collect_installed
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.gc_control import reduce_collection
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.text_cache import TextCache


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """How far the verification has come."""

    stage: Literal["chain", "sessions"]
    done: int
    """Events so far."""
    goal: int
    """Events in all, or stream positions in the first stage."""


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding, and the log and the session or library that it concerns."""

    log: Literal["sessions", "library"]
    key: ChainKey
    finding: AuditFinding


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """The overall result."""

    tally: VerificationTally
    events: int


VerifyStep = VerifyProgress | LocatedFinding | VerifyOutcome


@dataclass(frozen=True, slots=True)
class VerifyService:
    """Verifies one tenant's records; one instance for each run. It writes nothing."""

    tenant: str
    command_handler: CommandHandler
    library_log: EventLog
    store: ReadModelStore
    means: VerificationContext = field(
        default_factory=lambda: VerificationContext(collect_installed())
    )
    open_verifier: OpenVerifier = open_best_verifier
    blob_cache: TextCache[tuple[str, Digest]] = field(default_factory=create_blob_cache)
    """Blobs that were read from the store in this run."""

    async def verify_session(self, session: str, noted: WitnessedHead | None) -> VerificationReport:
        """Verify one session; refuse one that is unknown and has no noted head."""
        validate_id(session, "session")
        try:
            events = await self._load_events(session, noted)
        except Corrupt:
            # The session cannot be read directly, so the whole log is scanned for its stored
            # events.
            stored = await self._scan_session(session)
            return await ThreadVerifier(self.means).verify_stored(stored, self._load_blobs, noted)
        blobs = await self._load_blobs(collect_blob_digests(events))
        report = await run_in_thread(lambda: verify_session(events, blobs, self.means, noted))
        return report.compare_rows((await self._load_recorded_totals((session,))).get(session))

    async def _load_events(
        self, session: str, noted: WitnessedHead | None
    ) -> Sequence[RecordedEvent]:
        """Return all events, at least up to the noted one; none if a noted session is gone."""
        least = noted.sequence if noted else 0
        try:
            last = await self.command_handler.load_last_event(self.tenant, session, least)
        except Refused:
            if noted is None:
                raise
            return ()
        return await self.command_handler.log.read_range(self.tenant, session, None, last)

    async def _load_blobs(self, digests: Sequence[Digest]) -> Mapping[Digest, str]:
        return await SessionRecordLoader(self.command_handler, self.blob_cache).load_blobs(
            self.tenant, digests
        )

    async def _scan_session(self, session: str) -> list[RawEvent]:
        key, found = (self.tenant, session), list[RawEvent]()
        async with aclosing(
            self.command_handler.log.stream_raw_events(self.tenant, 0, live=False)
        ) as bulks:
            async for bulk in bulks:
                found += [raw for raw in bulk if parse_chain_key(raw.subject) == key]
        return found

    async def _load_recorded_totals(self, sessions: Sequence[str]) -> Mapping[str, SessionTotals]:
        async with self.store.open_reader() as connection:
            return await compute_totals(connection, self.tenant, sessions)

    async def verify_log(self, witness: AuditCheckpoint | None) -> AsyncGenerator[VerifyStep]:
        """Verify everything, against a checkpoint if given; the last step is the result."""
        # The end of the log is an upper bound on its events; the processes start while pass one
        # runs.
        most = await self.command_handler.log.get_last_stream_sequence(self.tenant)
        with reduce_collection(), self.open_verifier(most, self.means) as by:
            async with aclosing(self._verify_in_two_passes(witness, by)) as steps:
                async for step in steps:
                    yield step

    async def _verify_in_two_passes(
        self, witness: AuditCheckpoint | None, verifier: SessionVerifier
    ) -> AsyncGenerator[VerifyStep]:
        tally, told = VerificationTally(witness is not None), set[tuple[ChainKey, AuditFinding]]()
        chains = ChainVerifier(witness.list_session_heads() if witness else {})
        shelves = ChainVerifier(witness.list_library_heads() if witness else {})
        async for step in self._check_chains(chains, shelves):
            if isinstance(step, LocatedFinding):
                told.add((step.key, step.finding))
                tally.add_finding(step.key, step.finding)
            yield step
        goal = sum(end.event_count for end in chains.ends.values())
        done = 0
        async with aclosing(self._verify_each_session(chains.ends, verifier)) as reports:
            async for key, report in reports:
                tally.add_report(report)
                for finding in report.findings:
                    if (key, finding) not in told:
                        tally.add_finding(key, finding)
                        yield LocatedFinding("sessions", key, finding)
                done += report.events
                yield VerifyProgress("sessions", done, goal)
        yield VerifyOutcome(tally, goal + sum(end.event_count for end in shelves.ends.values()))

    async def _check_chains(
        self, chains: ChainVerifier, library_chains: ChainVerifier
    ) -> AsyncGenerator[VerifyProgress | LocatedFinding]:
        goal, done = await self.command_handler.log.get_last_stream_sequence(self.tenant), 0
        async with aclosing(
            self.command_handler.log.stream_raw_events(self.tenant, 0, live=False)
        ) as bulks:
            async for bulk in bulks:
                for found in filter(None, map(chains.check_event, bulk)):
                    yield LocatedFinding("sessions", *found)
                done += len(bulk)
                yield VerifyProgress("chain", done, goal)
        async with aclosing(self.library_log.stream_raw_events(None, 0, live=False)) as bulks:
            async for bulk in bulks:
                ours = [raw for raw in bulk if parse_chain_key(raw.subject)[0] == self.tenant]
                for found in filter(None, map(library_chains.check_event, ours)):
                    yield LocatedFinding("library", *found)
        for key, finding in chains.find_missing():
            yield LocatedFinding("sessions", key, finding)
        for key, finding in library_chains.find_missing():
            yield LocatedFinding("library", key, finding)

    async def _verify_each_session(
        self, ends: ChainEnds, verifier: SessionVerifier
    ) -> AsyncGenerator[tuple[ChainKey, VerificationReport]]:
        """Yield the sessions' reports in the order they began, verifying several concurrently."""
        under_way = deque[tuple[ChainKey, asyncio.Task[VerificationReport]]]()
        read = read_session_batches(self.command_handler.log, self.tenant, ends)
        try:
            async with aclosing(read):
                async for stretch in read:
                    rows = await self._load_recorded_totals([session for _, session in stretch])
                    for key in tuple(stretch):
                        examined = self._verify_stored_session(
                            stretch.pop(key), rows.get(key[1]), verifier
                        )
                        under_way.append((key, asyncio.create_task(examined)))
                        if len(under_way) == verifier.concurrency:
                            first, task = under_way.popleft()
                            yield first, await task
            for key, task in under_way:
                yield key, await task
        finally:
            await cancel_tasks(*(task for _, task in under_way))

    async def _verify_stored_session(
        self, stored: Sequence[RawEvent], rows: SessionTotals | None, verifier: SessionVerifier
    ) -> VerificationReport:
        return (await verifier.verify_stored(stored, self._load_blobs)).compare_rows(rows)

    async def create_checkpoint(self) -> AuditCheckpoint:
        """Return a checkpoint of all heads; raise `Corrupt` where a chain is broken."""
        identity = await self.command_handler.log.get_identity(self.tenant)
        chains, shelves = ChainVerifier(), ChainVerifier()
        async for step in self._check_chains(chains, shelves):
            if isinstance(step, LocatedFinding):
                where = f"{step.log} {step.key[1]}, event {step.finding.sequence}"
                raise Corrupt(where, step.finding.detail)
        return AuditCheckpoint(
            at=format_rfc3339(self.command_handler.clock()),
            tenant=self.tenant,
            stream=identity.stream,
            created=identity.created,
            end=max((end.last_stream_sequence for end in chains.ends.values()), default=0),
            sessions=build_checkpoint_heads(chains.ends),
            library=build_checkpoint_heads(shelves.ends),
        )


MAX_BATCH_BYTES: Final = 16_000_000
"""Stored bytes that a batch may have, unless it is a single session."""

MAX_BATCH_SESSIONS: Final = 500
"""Sessions in a batch; the database is asked for all of them in one query."""

ChainEnds = Mapping[ChainKey, ChainEnd]

SessionBatch = dict[ChainKey, list[RawEvent]]
"""Sessions in the order they began, each with all its stored events."""


async def read_session_batches(
    log: EventLog, tenant: str, ends: ChainEnds
) -> AsyncGenerator[SessionBatch]:
    """Yield sessions up to their ends, one batch at a time."""
    for group in split_into_batches(ends):
        yield await _read_batch(log, tenant, {key: ends[key] for key in group})


def split_into_batches(ends: ChainEnds) -> Iterator[Sequence[ChainKey]]:
    """Split sessions into batches, in the order they began."""
    group, size = list[ChainKey](), 0
    for key, end in sorted(ends.items(), key=lambda item: item[1].first_stream_sequence):
        if group and (size + end.byte_count > MAX_BATCH_BYTES or len(group) == MAX_BATCH_SESSIONS):
            yield group
            group, size = [], 0
        group.append(key)
        size += end.byte_count
    if group:
        yield group


async def _read_batch(log: EventLog, tenant: str, ends: ChainEnds) -> SessionBatch:
    held: SessionBatch = {key: [] for key in ends}
    first = min(end.first_stream_sequence for end in ends.values())
    last = max(end.last_stream_sequence for end in ends.values())
    async with aclosing(log.stream_raw_events(tenant, first - 1, live=False)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                key = parse_chain_key(raw.subject)
                if key in held and raw.stream_sequence <= ends[key].last_stream_sequence:
                    held[key].append(raw)
            if bulk[-1].stream_sequence >= last:
                return held
    return held
