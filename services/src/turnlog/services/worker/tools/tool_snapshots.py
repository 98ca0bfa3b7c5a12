"""Tool snapshots: what the servers of a profile offer when a session first needs its tools.

What a profile's servers offer is written once and reused while the servers return the same schemas.
A changed description makes a new snapshot, which only new sessions are pinned to.

All servers are asked at the same time. A server that is not required and cannot be asked is left
out: the snapshot says which and why, and its texts say so to models. One that hangs is not asked
again for a minute, so that it costs its timeout once; any other is asked for each new session.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from turnlog.events.content import Digest
from turnlog.events.errors import Unavailable
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.events.storable_text import replace_unstorable
from turnlog.events.store.ports import BlobStore
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.tools.tool_catalog import (
    DefinitionLimit,
    ServerOffers,
    ToolOffer,
    build_tool_catalog,
    compute_offers_digest,
    find_unknown_approvals,
)
from turnlog.services.worker.tools.tool_server_types import (
    ToolServerFailure,
    ToolServers,
    list_attached_lines,
    shorten_reason,
)

MAX_CACHED_SNAPSHOTS: Final = 256
"""Maximum number of cached snapshots; the least recently used are dropped first."""

HANG_MEMORY_SECONDS: Final = 60.0
"""Seconds for which a server that hung is not asked again."""

_log = structlog.get_logger("turnlog.worker")


@dataclass(frozen=True, slots=True)
class _CachedSnapshot:
    offers_digest: Digest
    snapshot: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class _RecentFailure:
    server: str
    failure: ToolServerFailure
    ask_again_at: float
    """Time of the event loop."""


@dataclass(frozen=True, slots=True)
class ToolSnapshots:
    """The tool snapshots that a worker has written, and the servers that it could not ask."""

    _cached: dict[str, _CachedSnapshot] = field(default_factory=dict[str, _CachedSnapshot])
    _failures: dict[str, _RecentFailure] = field(default_factory=dict[str, _RecentFailure])
    """The latest failure of each server that did not answer since."""

    async def snapshot_tools(
        self,
        servers: ToolServers,
        blobs: BlobStore,
        tenant: str,
        profile: str,
        spec: ToolsSpec,
        limit: DefinitionLimit | None = None,
    ) -> ToolsSnapshotted:
        """Return the snapshot for a session that begins now, its texts stored.

        Raises `ToolServerFailure` if a required server of the profile cannot be asked, or lacks a
        tool that is to be approved.
        """
        found = await self._fetch_offers(servers, spec)
        offered = compute_offers_digest(found)
        room = f"{limit.tokens} {limit.counting.counter}" if limit else ""
        key = f"{tenant} {profile} {spec.model_dump_json(include={'servers'})} {room}"
        known = self._cached.pop(key, None)
        if known is None or known.offers_digest != offered:
            taken = build_tool_catalog(profile, spec, found, limit)
            await asyncio.gather(*(blobs.put_blob(tenant, text.encode()) for text in taken.texts))
            known = _CachedSnapshot(offered, taken.event)
        self._cached[key] = known
        _drop_oldest(self._cached)
        return known.snapshot

    async def require_all_available(self) -> None:
        """Raise `Unavailable` with the servers that did not answer when they were last asked."""
        if self._failures:
            reasons = dict.fromkeys(each.failure.reason for each in self._failures.values())
            raise Unavailable("tools", "; ".join(reasons))

    async def _fetch_offers(self, servers: ToolServers, spec: ToolsSpec) -> ServerOffers:
        """Ask all servers at the same time; raises the failure of a required one."""
        asked = (self._request_offers(servers, name, spec) for name in spec.servers)
        answers = dict(zip(spec.servers, await asyncio.gather(*asked), strict=True))
        failures = {n: each for n, each in answers.items() if isinstance(each, ToolServerFailure)}
        offers = {n: each for n, each in answers.items() if not isinstance(each, ToolServerFailure)}
        for server, tools in find_unknown_approvals(spec, offers).items():
            detail = f"`approve` of server {server} names tools that it does not have: "
            failure = ToolServerFailure("tools_unknown", detail + ", ".join(tools), retryable=False)
            if spec.servers[server].is_required:
                raise failure
            failures[server] = failure
            del offers[server]
        return ServerOffers(offers, {n: _describe_failure(n, each) for n, each in failures.items()})

    async def _request_offers(
        self, servers: ToolServers, name: str, spec: ToolsSpec
    ) -> tuple[ToolOffer, ...] | ToolServerFailure:
        """Return what a server offers, or the failure of one that is not required."""
        server, clock = spec.servers[name], asyncio.get_running_loop().time
        key = f"{name} {server.model_dump_json()}"
        known = self._failures.get(key)
        if known and not server.is_required and clock() < known.ask_again_at:
            return known.failure
        try:
            offers = await list_server_offers(servers, name, spec)
        except ToolServerFailure as failure:
            log_server_failure(failure)
            pause = HANG_MEMORY_SECONDS if failure.code == "tools_timeout" else 0.0
            self._failures[key] = _RecentFailure(name, failure, clock() + pause)
            _drop_oldest(self._failures)
            if server.is_required:
                raise
            return failure
        self._failures.pop(key, None)
        return offers


def _drop_oldest(cached: dict[str, Any]) -> None:
    while len(cached) > MAX_CACHED_SNAPSHOTS:
        del cached[next(iter(cached))]


def _describe_failure(server: str, failure: ToolServerFailure) -> str:
    """Return why a server is left out, without its name and without what it wrote."""
    reason = failure.reason.removeprefix(f"{server}: ")
    return shorten_reason(replace_unstorable(f"{failure.code}: {reason}"))


async def list_server_offers(
    servers: ToolServers, name: str, spec: ToolsSpec
) -> tuple[ToolOffer, ...]:
    """Return what one server of a blueprint offers; raises `ToolServerFailure`, in time too."""
    seconds = spec.get_call_seconds(name)
    try:
        async with asyncio.timeout(seconds):
            return await servers.list_offers(name, spec.servers[name])
    except TimeoutError as late:
        reason, lines = f"it took more than {seconds:g} s to say", list_attached_lines(late)
        detail = f"{name}: {reason} what it has"
        raise ToolServerFailure("tools_timeout", detail, lines=lines) from None


def log_server_failure(failure: ToolServerFailure) -> None:
    """Log why a server failed, with the last lines that it wrote."""
    lines = failure.server_lines
    _log.error("tool-server-failed", code=failure.code, why=failure.reason, stderr=lines)
