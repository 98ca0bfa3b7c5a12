"""Reads stay consistent while a follower of the log lags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.services.gateway.gateway_service import MemoryBackend, start_service
from turnlog.events.envelope import RecordedEvent
from turnlog.events.store.memory_log import MemoryLog


@dataclass(kw_only=True)
class LaggingFollowerLog(MemoryLog):
    """A log whose followers lack the latest events of a session."""

    lag: int = 0

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        last = await super().read_last_event(tenant, session, leader=leader)
        if last is None or leader:
            return last
        return await self.find_event(tenant, session, max(1, last.sequence - self.lag), last)


async def test_sequence_known_only_to_the_leader_is_accepted(tmp_path: Path) -> None:
    log = LaggingFollowerLog()
    backend = MemoryBackend(log=log)
    async with start_service(backend, "t", tmp_path) as stand:
        session = await stand.open_session()
        await stand.submit_and_answer(session, "Hi", "Hello.")
        last = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
        log.lag = 2
        async with stand.start_another_gateway() as fresh:
            path = f"/v1/sessions/{session}"
            for query in ("", "/history", "/window"):
                assert (await fresh.fetch_json(path + query, at=last))["sequence"] == last, query
            assert (await fresh.fetch_json(f"{path}/events", after=last - 1))["sequence"] == last
            await fresh.fetch_json(f"{path}/calls", min_sequence=last)
            forked = await fresh.http.post(f"{path}/fork", json={"at": last})
            assert (forked.status_code, forked.json()["sequence"]) == (201, last)
            for query in (f"?at={last + 1}", f"/events?after={last + 1}"):
                refused = await fresh.http.get(path + query)
                assert refused.json()["code"] == "not-there-yet", query
