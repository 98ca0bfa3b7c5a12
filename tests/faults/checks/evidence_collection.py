"""Collects the evidence of a service under faults: its log, its rows, and rebuilt rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from tests.faults.checks.checker import CheckedEvidence, check_evidence
from tests.faults.checks.settling_events import find_unsettled_turns
from tests.faults.clients.client_history import ClientHistory
from tests.support.processes.live_service import SERVICE_TIMEOUT, TENANT, LiveService
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.rebuild_checks import read_all_events, read_rows_around_rebuild
from tests.support.servers.model_behaviours import build_echo
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.record.session_replay import collect_blob_digests


class EvidenceSource(Protocol):
    """A service whose log and rows can be read."""

    @property
    def service(self) -> LiveService: ...
    @property
    def database(self) -> str: ...


async def assert_no_findings(at: EvidenceSource, history: ClientHistory) -> None:
    """Wait until every accepted turn is settled, and run the checker over everything."""
    evidence = await collect_evidence(at, history)
    assert evidence.log, "nothing happened"
    if findings := check_evidence(evidence):
        raise AssertionError("\n".join(map(str, findings)))


async def collect_evidence(at: EvidenceSource, history: ClientHistory) -> CheckedEvidence:
    """Collect the evidence once nothing is in progress any more."""
    while True:
        log = await _wait_until_settled(at.service)
        live, rebuilt = await read_rows_around_rebuild(at.service, at.database)
        if log == await _wait_until_settled(at.service):
            break  # Otherwise a late worker has recorded the cost of its attempt in between.
    blobs = await _fetch_blobs(at.service, log.values())
    sessions = {each.session for each in history.tries}
    of_history = {session: events for session, events in log.items() if session in sessions}
    return CheckedEvidence(
        history=history,
        log=of_history,
        at=datetime.now(UTC),
        blobs=blobs,
        live=live,
        rebuilt=rebuilt,
        reply_to=build_echo,
    )


async def _wait_until_settled(service: LiveService) -> dict[str, list[RecordedEvent]]:
    async with asyncio.timeout(SERVICE_TIMEOUT):
        while True:
            log: dict[str, list[RecordedEvent]] = {}
            for recorded in await read_all_events(service):
                log.setdefault(recorded.session, []).append(recorded)
            if not any(find_unsettled_turns(events) for events in log.values()):
                return log
            await asyncio.sleep(POLL_INTERVAL)


async def _fetch_blobs(
    service: LiveService, log: Iterable[list[RecordedEvent]]
) -> dict[Digest, str]:
    needed = {digest for events in log for digest in collect_blob_digests(events)}
    return {
        digest: (await service.nats.blobs.get_blob(TENANT, digest)).decode() for digest in needed
    }
