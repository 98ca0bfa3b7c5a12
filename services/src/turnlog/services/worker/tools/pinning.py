"""Pinning: the tools and prompts that servers have become those of a session's profile.

What is told of them is written once for a profile and kept for as long as the servers describe them
by the very same schemas; a description that changed makes another snapshot, which only new
sessions are pinned to.
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
"""Snapshots that are remembered; those that were not needed for longest go first."""


@dataclass(frozen=True, slots=True)
class _Known:
    offered: Digest
    pinned: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class Pinning:
    """What a worker has written of the tools of profiles."""

    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])

    async def pinned(
        self, servers: ToolServers, blobs: Blobs, tenant: str, profile: str, spec: ToolsSpec
    ) -> ToolsSnapshotted:
        """Give what a session is pinned to that begins now, its texts stored.

        Raises `ServerFailure`: a session is not pinned to less than all of its servers.
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
