"""An erasure that is interrupted at any step is finished by whoever looks next."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.test_erased_words import SECRET, run_turns
from tests.support.processes.live_service import TENANT
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.errors import Unavailable
from turnlog.events.model.redaction_events import ErasedTurn
from turnlog.events.seals.key_ports import RemovedKeys
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.read.row_lookups import CommandLookup
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.erasures.erasure_receipts import ErasureReceipts
from turnlog.services.erasures.erasure_service import ErasurePart, ErasureService
from turnlog.services.erasures.erasure_tracing import ErasureTarget
from turnlog.services.platform.clock import Clock, create_id, read_clock
from turnlog.services.retention.retention_guard import RetentionGuard
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.seals.session_sealing import SessionSealing
from turnlog.services.sessions.command_handler import CommandHandler

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

CALLER = Caller(tenant=TENANT, metadata=CommandMetadata("operator"))


class StoppedBeforeParts(ErasureService):
    """Dies before a fork is told."""

    async def _begin_parts(self, part: ErasurePart, metadata: CommandMetadata) -> list[ErasurePart]:
        raise Unavailable("test", f"it dies before {part.session}, for {metadata.actor}")


class StoppedBetweenKeys(ErasureService):
    """Dies when it has removed the keys of the first session."""

    async def _remove_keys(self, parts: Sequence[ErasurePart]) -> list[RemovedKeys]:
        await super()._remove_keys(parts[:1])
        raise Unavailable("test", "it dies here")


class StoppedBeforeRows(ErasureService):
    """Dies before the rows are made again."""

    async def _rebuild_rows(self, tenant: str, session: str) -> None:
        raise Unavailable("test", f"it dies before {tenant} {session}")


class StoppedBetweenEnds(ErasureService):
    """Dies when only the last session has its end."""

    async def _end_parts(
        self,
        parts: Sequence[ErasurePart],
        removed: Sequence[RemovedKeys],
        metadata: CommandMetadata,
    ) -> None:
        await super()._end_parts(parts[-1:], removed[-1:], metadata)
        raise Unavailable("test", "it dies here")


@asynccontextmanager
async def open_erasure_parts(
    up: TurnlogUp, clock: Clock = read_clock
) -> AsyncGenerator[dict[str, Any]]:
    """Yield what a service of another process is built with."""
    client = up.service.nats
    store = open_store(f"sqlite:///{up.ready_file.parent / 'read-models.db'}")
    try:
        handler = CommandHandler(
            log=client.log,
            snapshots=CheckedSnapshotStore(client.log, client.snapshots),
            texts=TextReader(log=client.log, blobs=client.blobs, media=MediaReader(client.media)),
            older_commands=CommandLookup(store),
            clock=clock,
            create_id=create_id,
            source="/turnlog/test",
            sealing=SessionSealing(client.connection.keys, is_on=True),
        )
        yield {
            "command_handler": handler,
            "store": store,
            "projection_signal": ProjectionSignal(),
            "guard": RetentionGuard(
                handler,
                RetentionService(
                    LibraryParts(
                        log=client.library,
                        blobs=client.blobs,
                        clock=clock,
                        create_id=create_id,
                        source="/turnlog/test",
                    )
                ),
            ),
        }
    finally:
        await store.close()


async def require_folded(parts: dict[str, Any], session: str, sequence: int) -> None:
    """Wait until the rows have an event."""
    place = (parts["store"], parts["projection_signal"], TENANT, session, sequence)
    assert await wait_until_folded(*place, within=30)


@pytest.mark.parametrize(
    "kind", [StoppedBeforeParts, StoppedBetweenKeys, StoppedBeforeRows, StoppedBetweenEnds]
)
async def test_erasure_that_died_is_finished_from_its_beginning(
    sealed_up: TurnlogUp, provider: OpenAIServer, kind: type[ErasureService]
) -> None:
    service = sealed_up.service
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    end = (await service.get_json(f"/v1/sessions/{session}"))["sequence"]
    await service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    target = ErasureTarget(tenant=TENANT, session=session, turns=(ErasedTurn(turn=1, of="turn"),))
    async with open_erasure_parts(sealed_up) as parts:
        dying = kind(**parts)
        begun = await dying.begin_erasure(CALLER, target, "request 4711")
        with pytest.raises(Unavailable):
            await dying.finish_erasure(TENANT, session, begun)
        await require_folded(parts, session, begun)
        await ErasureService(**parts).finish_open_erasures()
        receipt = await ErasureReceipts(dying).build_receipt(TENANT, session, begun)
    assert receipt.status == "erased"
    assert len(receipt.sessions) == 2
    for each in receipt.sessions:
        report = await service.get_json(f"/v1/sessions/{each.session}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report["findings"]
    listed = (await service.http.get("/v1/sessions")).json()["sessions"]
    assert SECRET not in str(listed)
