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
from turnlog.events.log.ports import Blobs
from turnlog.events.tool import ToolsSnapshotted
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.tools.offers import Offer, digest_of_offers, taken_up
from turnlog.services.worker.tools.exchange import ServerFailure, ToolServers

MOST_KNOWN: Final = 256
"""Maximum number of cached snapshots; the least recently used are dropped first."""


@dataclass(frozen=True, slots=True)
class _Known:
    offered: Digest
    pinned: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class Pinning:
    """The tool snapshots that a worker has written, by tenant and profile."""

    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])

    async def pinned(
        self, servers: ToolServers, blobs: Blobs, tenant: str, profile: str, spec: ToolsSpec
    ) -> ToolsSnapshotted:
        """Return the snapshot for a session that begins now, its texts stored.

        Raises `ToolServerFailure` if any server of the profile cannot be asked.
        """
        found = await _offered(servers, spec)
        offered = digest_of_offers(found)
        key = f"{tenant} {profile} {spec.model_dump_json(include={'servers'})}"
        known = self._known.pop(key, None)
        if known is None or known.offered != offered:
            taken = taken_up(profile, spec, found)
            await asyncio.gather(*(blobs.put(tenant, text.encode()) for text in taken.texts))
            known = _Known(offered, taken.event)
        self._known[key] = known
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return known.pinned


async def _offered(servers: ToolServers, spec: ToolsSpec) -> dict[str, tuple[Offer, ...]]:
    offers = (servers.offers(name, server) for name, server in spec.servers.items())
    try:
        async with asyncio.timeout(spec.seconds):
            found = await asyncio.gather(*offers)
    except TimeoutError:
        detail = f"a server took more than {spec.seconds:g} s to say what it has"
        raise ServerFailure("tools_timeout", detail) from None
    return dict(zip(spec.servers, found, strict=True))
