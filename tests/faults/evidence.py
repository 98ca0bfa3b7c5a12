"""Collects the evidence of an attacked service: its log, its rows, and rows rebuilt from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.faults.checker import Evidence, check
from tests.faults.history import History
from tests.faults.settling import waiting
from tests.faults.site import Site
from tests.parts.openai_behaviours import echoed
from tests.parts.processes import LOOK_EVERY
from tests.parts.proof import everything, rows_before_and_after
from tests.parts.service import TENANT, WITHIN, Service
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.record.session_replay import collect_blob_digests


async def nothing_is_wrong(at: Site, history: History) -> None:
    """Wait until every accepted turn is settled, and run the checker over everything."""
    evidence = await collected(at, history)
    assert evidence.log, "nothing happened"
    if findings := check(evidence):
        raise AssertionError("\n".join(map(str, findings)))


async def collected(at: Site, history: History) -> Evidence:
    """Collect the evidence once nothing is in progress any more."""
    while True:
        log = await _settled(at.service)
        live, rebuilt = await rows_before_and_after(at.service, at.database)
        if log == await _settled(at.service):
            break  # Otherwise a late worker has recorded the cost of its attempt in between.
    blobs = await _blobs(at.service, log.values())
    sessions = {each.session for each in history.tries}
    of_history = {session: events for session, events in log.items() if session in sessions}
    return Evidence(
        history,
        of_history,
        datetime.now(UTC),
        blobs=blobs,
        live=live,
        rebuilt=rebuilt,
        reply_to=echoed,
    )


async def _settled(service: Service) -> dict[str, list[RecordedEvent]]:
    async with asyncio.timeout(WITHIN):
        while True:
            log: dict[str, list[RecordedEvent]] = {}
            for recorded in await everything(service):
                log.setdefault(recorded.session, []).append(recorded)
            if not any(waiting(events) for events in log.values()):
                return log
            await asyncio.sleep(LOOK_EVERY)


async def _blobs(service: Service, log: Iterable[list[RecordedEvent]]) -> dict[Digest, str]:
    needed = {digest for events in log for digest in collect_blob_digests(events)}
    return {
        digest: (await service.nats.blobs.get_blob(TENANT, digest)).decode() for digest in needed
    }
