"""One reading of all chains of a tenant, in stream order: sessions, library, alerts and reads.

Only the links between stored bytes are read, so memory is one small record for each chain.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, Self

from turnlog.events.errors import StreamHole
from turnlog.events.model.installation.access_events import INSTALLATION_TENANT
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.hash_chain import (
    ChainKey,
    ChainVerifier,
    WitnessedHead,
    parse_chain_key,
)
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.services.audit.record_scan import describe_hole, scan_log


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """How far the verification has come."""

    stage: Literal["chain", "sessions"]
    done: int
    """Events so far."""
    goal: int
    """Events in all, or stream positions in the first stage."""


RecordPart = Literal["sessions", "library", "alerts", "reads", "installation", "blobs"]
"""A stream of the record, or the histories of the installation in that of libraries."""


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding, and the stream and the session or library that it concerns."""

    log: RecordPart
    key: ChainKey | None
    """The session, the family of the library, the alert, or the day; None for the whole stream."""
    finding: AuditFinding
    hole: StreamHole | None = None
    """What the finding describes, if it is a hole of the stream."""


def locate_hole(log: RecordPart, hole: StreamHole) -> LocatedFinding:
    """Return the finding for a hole of a stream."""
    return LocatedFinding(log, None, describe_hole(hole), hole)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChains:
    """The chains of a tenant, and those of the installation."""

    sessions: ChainVerifier
    library: ChainVerifier
    alerts: ChainVerifier
    reads: ChainVerifier
    installation: ChainVerifier

    @classmethod
    def create(cls, witness: AuditCheckpoint | None, *, builds_trees: bool = False) -> Self:
        """Create chains that are compared with a checkpoint, if one is given."""

        def create_chains(
            list_heads: Callable[[AuditCheckpoint], Mapping[ChainKey, WitnessedHead]],
        ) -> ChainVerifier:
            return ChainVerifier(list_heads(witness) if witness else {}, builds_trees=builds_trees)

        return cls(
            sessions=create_chains(AuditCheckpoint.list_session_heads),
            library=create_chains(AuditCheckpoint.list_library_heads),
            alerts=create_chains(AuditCheckpoint.list_alert_heads),
            reads=create_chains(AuditCheckpoint.list_read_heads),
            installation=create_chains(AuditCheckpoint.list_installation_heads),
        )

    @property
    def lists(self) -> dict[str, ChainVerifier]:
        """The chains by the lists of a checkpoint that have their heads."""
        return {
            "sessions": self.sessions,
            "library": self.library,
            "alerts": self.alerts,
            "reads": self.reads,
            "installation": self.installation,
        }


def count_events(chains: ChainVerifier) -> int:
    """Return how many events chains have."""
    return sum(end.event_count for end in chains.ends.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainScan:
    """Reads the streams of a tenant's record once."""

    tenant: str
    session_log: EventLog
    library_log: EventLog
    alerts_log: EventLog
    reads_log: EventLog
    with_installation: bool
    """Whether the histories of the installation are read too, which are no tenant's."""

    async def check_chains(
        self, chains: RecordChains
    ) -> AsyncGenerator[VerifyProgress | LocatedFinding]:
        """Yield progress and findings; the chains have all ends afterwards."""
        goal, done = await self.session_log.get_last_stream_sequence(self.tenant), 0
        async with aclosing(scan_log(self.session_log, self.tenant)) as parts:
            async for part in parts:
                if isinstance(part, StreamHole):
                    yield locate_hole("sessions", part)
                    continue
                for found in filter(None, map(chains.sessions.check_event, part)):
                    yield LocatedFinding("sessions", *found)
                done += len(part)
                yield VerifyProgress("chain", done, goal)
        for key, finding in chains.sessions.find_missing():
            yield LocatedFinding("sessions", key, finding)
        checks = (
            self._check_other_chains("library", self.library_log, chains),
            self._check_other_chains("alerts", self.alerts_log, chains),
            self._check_other_chains("reads", self.reads_log, chains),
        )
        for check in checks:
            async with aclosing(check) as findings:
                async for each in findings:
                    yield each

    async def _check_other_chains(
        self, name: Literal["library", "alerts", "reads"], log: EventLog, record: RecordChains
    ) -> AsyncGenerator[LocatedFinding]:
        """Check the chains of a stream that has no sessions."""
        checked: dict[str, tuple[RecordPart, ChainVerifier]] = {
            self.tenant: (name, record.lists[name])
        }
        if name == "library" and self.with_installation:
            checked[INSTALLATION_TENANT] = ("installation", record.installation)
        async with aclosing(scan_log(log, None)) as parts:
            async for part in parts:
                if isinstance(part, StreamHole):
                    yield locate_hole(name, part)
                    continue
                for raw in part:
                    at, chains = checked.get(parse_chain_key(raw.subject)[0], (name, None))
                    if chains is not None and (found := chains.check_event(raw)):
                        yield LocatedFinding(at, *found)
        for at, chains in checked.values():
            for key, finding in chains.find_missing():
                yield LocatedFinding(at, key, finding)
