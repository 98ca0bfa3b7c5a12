"""The tools of a turn: pinned when it first needs them, and run before its next call.

What a profile's servers offer is written once and reused while the servers return the same schemas.
A changed description makes a new snapshot, which only new sessions are pinned to.

Tools run under the attempt at the next call, so its heartbeat covers them and no other worker runs
them. The start of a tool is on the log before the tool runs. A tool that was started and has no
result runs again only if the blueprint marks it idempotent. For any other the model is told that
the outcome is unknown, and so it is if a server broke off or took too long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.log.ports import BlobStore
from turnlog.events.tool import ToolsSnapshotted
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.tools.offers import ToolOffer, compute_offers_digest, build_tool_catalog
from turnlog.services.worker.tools.exchange import ToolServerFailure, ToolServers

MAX_CACHED_SNAPSHOTS: Final = 256
"""Maximum number of cached snapshots; the least recently used are dropped first."""


@dataclass(frozen=True, slots=True)
class _CachedSnapshot:
    offers_digest: Digest
    snapshot: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class ToolSnapshots:
    """The tool snapshots that a worker has written, by tenant and profile."""

    _cached: dict[str, _CachedSnapshot] = field(default_factory=dict[str, _CachedSnapshot])

    async def snapshot_tools(
        self, servers: ToolServers, blobs: BlobStore, tenant: str, profile: str, spec: ToolsSpec
    ) -> ToolsSnapshotted:
        """Return the snapshot for a session that begins now, its texts stored.

        Raises `ToolServerFailure` if any server of the profile cannot be asked.
        """
        found = await _fetch_offers(servers, spec)
        offered = compute_offers_digest(found)
        key = f"{tenant} {profile} {spec.model_dump_json(include={'servers'})}"
        known = self._cached.pop(key, None)
        if known is None or known.offers_digest != offered:
            taken = build_tool_catalog(profile, spec, found)
            await asyncio.gather(*(blobs.put_blob(tenant, text.encode()) for text in taken.texts))
            known = _CachedSnapshot(offered, taken.event)
        self._cached[key] = known
        while len(self._cached) > MAX_CACHED_SNAPSHOTS:
            del self._cached[next(iter(self._cached))]
        return known.snapshot


async def _fetch_offers(servers: ToolServers, spec: ToolsSpec) -> dict[str, tuple[ToolOffer, ...]]:
    offers = (servers.list_offers(name, server) for name, server in spec.servers.items())
    try:
        async with asyncio.timeout(spec.seconds):
            found = await asyncio.gather(*offers)
    except TimeoutError:
        detail = f"a server took more than {spec.seconds:g} s to say what it has"
        raise ToolServerFailure("tools_timeout", detail) from None
    return dict(zip(spec.servers, found, strict=True))
