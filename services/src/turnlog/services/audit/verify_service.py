"""Verification of one session, or of a tenant's whole log with its library, alerts and reads.

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
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import format_rfc3339
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import (
    AlteredBlob,
    Corrupt,
    KeysErased,
    LogRolledBack,
    Refused,
    StreamHole,
    Unavailable,
)
from turnlog.events.ids import validate_id
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.checkpoint_consistency import (
    ContinuedCheckpoint,
    build_consistency,
)
from turnlog.projections.audit.verify.child_checks import compare_child, find_lost_parents
from turnlog.projections.audit.verify.hash_chain import (
    ChainEnd,
    ChainKey,
    WitnessedHead,
    parse_chain_key,
)
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    VerificationTally,
    verify_session,
)
from turnlog.projections.audit.verify.signed_checkpoints import (
    ROOTED_FORMAT,
    AuditCheckpoint,
    build_checkpoint_heads,
)
from turnlog.projections.audit.verify.unopened_sessions import report_unopened
from turnlog.projections.audit.verify.verdicts import NO_REPRODUCTIONS
from turnlog.projections.audit.verify.verification_report import (
    ChildClaim,
    SessionTotals,
    VerificationReport,
    compare_totals,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.session_queries import compute_totals, list_last_sequences
from turnlog.services.audit.chain_scan import (
    ChainScan,
    LocatedFinding,
    RecordChains,
    VerifyProgress,
    count_events,
    locate_hole,
)
from turnlog.services.audit.media_verification import MediaVerification
from turnlog.services.audit.record_scan import describe_hole, scan_blobs, scan_log
from turnlog.services.audit.session_record import SessionRecordLoader, create_blob_cache
from turnlog.services.audit.source_closures import verify_closures
from turnlog.services.audit.verify_pool import (
    OpenVerifier,
    SessionVerifier,
    ThreadVerifier,
    open_best_verifier,
)
from turnlog.services.caches.text_cache import TextCache
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.integrity.folded_positions import read_folded_positions
from turnlog.services.integrity.row_rollback_check import FoldedPosition, verify_log
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.gc_control import reduce_collection
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """The overall result."""

    tally: VerificationTally
    events: int
    installation_events: int | None
    """How many of them are of the installation: its keys; None where they were not verified."""


VerifyStep = VerifyProgress | LocatedFinding | VerifyOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyService:
    """Verifies one tenant's records; one instance for each run. It writes nothing."""

    tenant: str
    command_handler: CommandHandler
    library_log: EventLog
    alerts_log: EventLog
    reads_log: EventLog
    store: ReadModelStore
    with_installation: bool = False
    """Whether the histories of the installation are verified too, which are no tenant's."""
    means: VerificationContext = field(
        default_factory=lambda: VerificationContext(collect_installed())
    )
    open_verifier: OpenVerifier = open_best_verifier
    blob_cache: TextCache[tuple[str, Digest]] = field(default_factory=create_blob_cache)
    """Blobs that were read from the store in this run."""
    media: MediaVerification = field(default_factory=MediaVerification)
    """The pictures, recordings and files that were read in this run."""

    async def verify_session(self, session: str, noted: WitnessedHead | None) -> VerificationReport:
        """Verify one session; refuse one that is unknown and has no noted head."""
        validate_id(session, "session")
        try:
            events = await self._load_events(session, noted)
        except Corrupt:
            # The session cannot be read directly, so the whole log is scanned for its stored
            # events.
            stored, holes = await self._scan_session(session)
            verifier = ThreadVerifier(self.means)
            report = await verifier.verify_stored(stored, self._load_blobs, noted)
            report = await self._verify_elsewhere(report)
            return replace(report, findings=(*report.findings, *holes))
        blobs = await self._load_blobs(collect_blob_digests(events))
        report = await run_in_thread(lambda: verify_session(events, blobs, self.means, noted))
        report = await self._verify_elsewhere(report)
        rows = (await self._load_recorded_totals((session,))).get(session)
        return await self._compare_rows(session, report, rows)

    async def verify_children(self, parent: VerificationReport) -> Mapping[str, VerificationReport]:
        """Verify the child sessions of a session and theirs, each against what its parent recorded.

        A child that was requested and never opened has nothing to verify.
        """
        reports = dict[str, VerificationReport]()
        pending = [parent.child_claims]
        while pending:
            claims = pending.pop(0)
            for child in dict.fromkeys(each.session for each in claims):
                if child in reports:
                    continue
                report = await self._verify_child(child)
                differences = tuple(compare_child(claims, child, report.child_turns))
                if report.events or differences:
                    findings = (*report.findings, *differences)
                    reports[child] = replace(report, findings=findings)
                    pending.append(report.child_claims)
        return reports

    async def _verify_child(self, session: str) -> VerificationReport:
        """Verify a child session; one that is not there has no events."""
        with suppress(Refused):
            return await self.verify_session(session, None)
        return VerificationReport(
            head=None,
            events=0,
            prompts=NO_REPRODUCTIONS,
            totals=SessionTotals(sequence=0),
            findings=(),
        )

    async def _load_events(
        self, session: str, noted: WitnessedHead | None
    ) -> Sequence[RecordedEvent]:
        """Return all events, at least up to the noted one.

        There are none if the session is gone, but was noted or has read models.
        """
        least = noted.sequence if noted else 0
        try:
            last = await self.command_handler.load_whole_end(self.tenant, session, least)
        except Refused:
            if noted is None and not await self._load_recorded_totals((session,)):
                raise
            return ()
        return await self.command_handler.log.read_range(self.tenant, session, None, last)

    async def _load_blobs(self, digests: Sequence[Digest]) -> Mapping[Digest, str]:
        loader = SessionRecordLoader(self.command_handler, self.blob_cache)
        found = await loader.load_blobs(self.tenant, digests)
        missing = [digest for digest in digests if digest not in found]
        altered = {digest: await self._read_altered_blob(digest) for digest in missing}
        return {**found, **{name: text for name, text in altered.items() if text is not None}}

    async def _read_altered_blob(self, digest: Digest) -> str | None:
        """Return the bytes that are stored under the digest instead of the blob, or None."""
        try:
            await self.command_handler.texts.blobs.get_blob(self.tenant, digest)
        except AlteredBlob as altered:
            return altered.data.decode(errors="replace")
        except KeysErased:
            return ""  # Nothing is wrong with it; what had the text is erased too.
        except Corrupt:
            pass
        return None

    async def _scan_session(self, session: str) -> tuple[list[RawEvent], list[AuditFinding]]:
        """Return the stored events of a session, and the holes of the log."""
        key, found, holes = (self.tenant, session), list[RawEvent](), list[AuditFinding]()
        async with aclosing(scan_log(self.command_handler.log, self.tenant)) as parts:
            async for part in parts:
                if isinstance(part, StreamHole):
                    holes.append(describe_hole(part))
                else:
                    found += [raw for raw in part if parse_chain_key(raw.subject) == key]
        return found, holes

    async def _verify_elsewhere(self, report: VerificationReport) -> VerificationReport:
        """Compare a report with what is stored elsewhere: media, and erasures in the library."""
        store = self.command_handler.texts.media.store
        report = await self.media.verify_media(store, self.tenant, report)
        return await verify_closures(self.library_log, self.tenant, report)

    async def _load_recorded_totals(self, sessions: Sequence[str]) -> Mapping[str, SessionTotals]:
        try:
            async with self.store.open_reader() as connection:
                return await compute_totals(connection, self.tenant, sessions)
        except Unavailable:
            return {}  # The log is verified without its read models, which are then not compared.

    async def _compare_rows(
        self, session: str, report: VerificationReport, rows: SessionTotals | None
    ) -> VerificationReport:
        ahead = rows is not None and rows.sequence > report.totals.sequence
        behind = ahead and rows is not None and await self._is_log_behind(session, rows.sequence)
        return report.compare_rows(rows, is_log_behind=behind)

    async def _is_log_behind(self, session: str, sequence: int) -> bool:
        """Return whether a session ends before a sequence that its read models have.

        Read models may be ahead of what was read of the log before, but never of the log.
        """
        log = self.command_handler.log
        try:
            last = await log.read_last_event(self.tenant, session, leader=True)
        except Corrupt:
            return True
        return last is None or last.sequence < sequence

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
        tally = VerificationTally(witnessed=witness is not None)
        reported = set[tuple[ChainKey | None, AuditFinding]]()
        chains = RecordChains.create(witness)
        async with aclosing(self._check_streams(chains)) as checked:
            async for step in checked:
                if isinstance(step, LocatedFinding):
                    reported.add((step.key, step.finding))
                    tally.add_finding(step.key, step.finding)
                yield step
        ends = chains.sessions.ends
        goal, done, families = count_events(chains.sessions), 0, _FamilyComparison(ends)
        async with aclosing(self._verify_each_session(ends, verifier)) as reports:
            async for key, report in reports:
                tally.add_report(report)
                found = [(key, finding) for finding in report.findings]
                # One that could not be opened says nothing of its parent and its children.
                if not any(each.check == "keyring" for each in report.findings):
                    found += families.add_report(key, report)
                for each in found:
                    if each not in reported:
                        tally.add_finding(*each)
                        yield LocatedFinding("sessions", *each)
                done += report.events
                yield VerifyProgress("sessions", done, goal)
        installation = count_events(chains.installation) if self.with_installation else None
        yield VerifyOutcome(tally, sum(map(count_events, chains.lists.values())), installation)

    async def _check_streams(
        self, chains: RecordChains
    ) -> AsyncGenerator[VerifyProgress | LocatedFinding]:
        """Check the streams of the record, and that the read models come from them."""
        async with aclosing(self._create_scan().check_chains(chains)) as steps:
            async for step in steps:
                yield step
        async with aclosing(scan_blobs(self.command_handler.texts.blobs, self.tenant)) as findings:
            async for finding in findings:
                if isinstance(finding, StreamHole):
                    yield locate_hole("blobs", finding)
                else:
                    yield LocatedFinding("blobs", None, finding)
        for discontinuity in await self._check_continuity():
            yield discontinuity
        async with aclosing(self._find_lost_sessions(chains.sessions.ends)) as lost:
            async for each in lost:
                yield each

    def _create_scan(self) -> ChainScan:
        return ChainScan(
            tenant=self.tenant,
            session_log=self.command_handler.log,
            library_log=self.library_log,
            alerts_log=self.alerts_log,
            reads_log=self.reads_log,
            with_installation=self.with_installation,
        )

    async def _check_continuity(self) -> Sequence[LocatedFinding]:
        """Return a finding for each stream without the event up to which a projector folded it.

        A stream that was cut, restored or replaced as a whole shows no gap.
        """
        try:
            known = await read_folded_positions(self.store)
        except Unavailable:
            return ()
        return (
            *await self._compare_position("sessions", self.command_handler.log, known.sessions),
            *await self._compare_position("library", self.library_log, known.segments),
        )

    async def _compare_position(
        self, name: Literal["sessions", "library"], log: EventLog, at: FoldedPosition | None
    ) -> Sequence[LocatedFinding]:
        if at is None:
            return ()
        try:
            await verify_log(log, self.tenant, at, seconds=0)
        except LogRolledBack as error:
            if isinstance(error.__cause__, StreamHole):
                return ()  # It is reported with the other holes.
            finding = AuditFinding("completeness", "noted", None, str(error))
            return (LocatedFinding(name, None, finding),)
        return ()

    async def _find_lost_sessions(self, ends: ChainEnds) -> AsyncGenerator[LocatedFinding]:
        """Yield a finding for each session that has read models and no event on the log."""
        after: str | None = ""
        while after is not None:
            try:
                async with self.store.open_reader() as connection:
                    known = await list_last_sequences(connection, self.tenant, after)
            except Unavailable:
                return
            for session, sequence in known.items():
                if (self.tenant, session) not in ends and await self._is_log_behind(
                    session, sequence
                ):
                    key, (finding,) = (
                        (self.tenant, session),
                        compare_totals(SessionTotals(sequence=0), SessionTotals(sequence=sequence)),
                    )
                    yield LocatedFinding("sessions", key, finding)
            after = max(known, default=None)

    async def _verify_each_session(
        self, ends: ChainEnds, verifier: SessionVerifier
    ) -> AsyncGenerator[tuple[ChainKey, VerificationReport]]:
        """Yield the sessions' reports in the order they began, verifying several concurrently."""
        under_way = deque[tuple[ChainKey, asyncio.Task[VerificationReport]]]()
        read = read_session_batches(self.command_handler.log, self.tenant, ends)
        try:
            async with aclosing(read):
                async for batch in read:
                    rows = await self._load_recorded_totals([session for _, session in batch])
                    for key in tuple(batch):
                        examined = self._verify_stored_session(
                            key[1], batch.pop(key), rows.get(key[1]), verifier
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
        self,
        session: str,
        stored: Sequence[RawEvent],
        rows: SessionTotals | None,
        verifier: SessionVerifier,
    ) -> VerificationReport:
        if unopened := report_unopened(stored):
            return unopened
        report = await verifier.verify_stored(stored, self._load_blobs)
        report = await self._verify_elsewhere(report)
        return await self._compare_rows(session, report, rows)

    async def create_checkpoint(self) -> AuditCheckpoint:
        """Return a checkpoint of all heads; raise `Corrupt` where a chain is broken."""
        return await self._note_heads(RecordChains.create(None, builds_trees=True))

    async def continue_checkpoint(self, older: AuditCheckpoint) -> ContinuedCheckpoint:
        """Return a checkpoint with its consistency to an older one, which must have roots.

        Raises `Corrupt` where the log does not continue the older one, or a chain is broken.
        """
        chains = RecordChains.create(older, builds_trees=True)
        newer = await self._note_heads(chains)
        ends = {name: each.ends for name, each in chains.lists.items()}
        consistency = await run_in_thread(lambda: build_consistency(older, newer, ends))
        return ContinuedCheckpoint(checkpoint=newer, consistency=consistency)

    async def _note_heads(self, chains: RecordChains) -> AuditCheckpoint:
        identity = await self.command_handler.log.get_identity(self.tenant)
        async with aclosing(self._create_scan().check_chains(chains)) as steps:
            async for step in steps:
                if isinstance(step, LocatedFinding):
                    place = (
                        f"{step.key[1]}, event {step.finding.sequence}" if step.key else "stream"
                    )
                    raise Corrupt(f"{step.log} {place}", step.finding.detail)
        ends = chains.sessions.ends.values()
        return AuditCheckpoint(
            format=ROOTED_FORMAT,
            at=format_rfc3339(self.command_handler.clock()),
            tenant=self.tenant,
            stream=identity.stream,
            created=identity.created,
            end=max((end.last_stream_sequence for end in ends), default=0),
            **{name: build_checkpoint_heads(each.ends) for name, each in chains.lists.items()},
        )


@dataclass(frozen=True, slots=True)
class _FamilyComparison:
    """Compares parents with their children, as the reports of both come in the order they began.

    What a parent recorded is forgotten when its child has come.
    """

    ends: ChainEnds
    waiting: dict[ChainKey, list[tuple[ChainKey, tuple[ChildClaim, ...]]]] = field(
        default_factory=dict[ChainKey, list[tuple[ChainKey, tuple[ChildClaim, ...]]]]
    )
    """What parents recorded of each child that is not verified yet."""

    def add_report(
        self, key: ChainKey, report: VerificationReport
    ) -> Sequence[tuple[ChainKey, AuditFinding]]:
        """Return findings about this session and its parents, and about missing ones of both."""
        tenant, session = key
        found = list[tuple[ChainKey, AuditFinding]]()
        for parent, claims in self.waiting.pop(key, ()):
            differences = compare_child(claims, session, report.child_turns)
            found += [(parent, each) for each in differences]
        lost = find_lost_parents(report.child_turns, lambda parent: (tenant, parent) in self.ends)
        found += [(key, each) for each in lost]
        claims = report.child_claims
        for name in dict.fromkeys(each.session for each in claims):
            if (child := (tenant, name)) not in self.ends:
                found += [(key, each) for each in compare_child(claims, name, ())]
            elif self._get_start(child) > self._get_start(key):
                self.waiting.setdefault(child, []).append((key, claims))
        return found

    def _get_start(self, key: ChainKey) -> int:
        return self.ends[key].first_stream_sequence


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
    batch: SessionBatch = {key: [] for key in ends}
    first = min(end.first_stream_sequence for end in ends.values())
    last = max(end.last_stream_sequence for end in ends.values())
    async with aclosing(scan_log(log, tenant, first - 1)) as parts:
        async for part in parts:
            if isinstance(part, StreamHole):
                continue
            for raw in part:
                key = parse_chain_key(raw.subject)
                if key in batch and raw.stream_sequence <= ends[key].last_stream_sequence:
                    batch[key].append(raw)
            if part[-1].stream_sequence >= last:
                return batch
    return batch
