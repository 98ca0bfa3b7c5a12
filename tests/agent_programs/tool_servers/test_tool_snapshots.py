"""The text of a profile's tools is stored once, until a server changes a description."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from tests.agent_programs.agent_harness import FakeToolServer, build_agent_blueprint
from turnlog.events.content import Digest, compute_digest
from turnlog.events.store.ports import RawEvent
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.tools.tool_snapshots import SnapshotRequest, ToolSnapshots


@dataclass
class CountingBlobs:
    """A blob store that counts its writes."""

    put_so_far: list[bytes] = field(default_factory=list[bytes])

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """See `Blobs.put`."""
        del tenant
        self.put_so_far.append(data)
        return compute_digest(data)

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """See `Blobs.get`."""
        raise NotImplementedError

    def stream_raw_blobs(self, after: int) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `BlobStore.stream_raw_blobs`."""
        raise NotImplementedError


async def test_u14_tool_catalog_is_stored_once_per_tenant_until_a_schema_changes() -> None:
    shop, blobs, pinning, spec = (
        FakeToolServer(),
        CountingBlobs(),
        ToolSnapshots(),
        build_agent_blueprint().tools,
    )
    assert spec

    async def pinned(tenant: str, profile: str) -> Digest:
        request = SnapshotRequest(
            servers=shop, blobs=blobs, tenant=tenant, profile=profile, spec=spec
        )
        return (await pinning.snapshot_tools(request)).digest

    first = await pinned("t", "agent")
    written = len(blobs.put_so_far)
    assert await pinned("t", "agent") == first
    assert len(blobs.put_so_far) == written
    await pinned("other", "agent")
    assert len(blobs.put_so_far) == 2 * written
    shop.extra_offers = (ToolOffer(tool="saw", description="Saws.", schema={"type": "object"}),)
    changed = await pinned("t", "agent")
    assert changed != first
    shop.extra_offers = (
        ToolOffer(tool="saw", description="Saws wood.", schema={"type": "object"}),
    )
    assert await pinned("t", "agent") not in {first, changed}
