"""Tool snapshots: what the servers of a profile offer when a session first needs its tools.

What a profile's servers offer is written once and reused while the servers return the same schemas.
A changed description makes a new snapshot. New sessions are pinned to it, and running ones before
their next turn if their blueprint allows it.

All servers are asked at the same time, each by one request for which all turns wait. A server that
is not required and cannot be asked is left out: the snapshot says which and why, and its texts say
so to models. One that hangs is not asked again for a minute, so that it costs its timeout once; any
other is asked for each new session. A running session can go on without an answer, so its turns
wait for no server that failed within the last minute, and for no other longer than `CHECK_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
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

FAILURE_MEMORY_SECONDS: Final = 60.0
"""Seconds for which a server that hung is not asked again, nor one that failed for a running
session.
"""

CHECK_SECONDS: Final = 2.0
"""Seconds that a turn of a running session waits for the lists of its servers, as for a ping."""

_log = structlog.get_logger("turnlog.worker")


ServerListing = asyncio.Task[tuple[ToolOffer, ...] | ToolServerFailure]
"""A request for what a server offers; its result may be the failure."""


@dataclass(frozen=True, slots=True)
class _CachedSnapshot:
    found: ServerOffers
    snapshot: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class _RecentFailure:
    server: str
    failure: ToolServerFailure
    since: float
    """Time of the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """Which tools are to be listed, and for which profile."""

    servers: ToolServers
    blobs: BlobStore
    tenant: str
    profile: str
    spec: ToolsSpec
    limit: DefinitionLimit | None = None
    """How large the definition of a tool may be."""


@dataclass(frozen=True, slots=True)
class ToolSnapshots:
    """The tool snapshots that a worker has written, and the servers that it could not ask."""

    _cached: dict[str, _CachedSnapshot] = field(default_factory=dict[str, _CachedSnapshot])
    _failures: dict[str, _RecentFailure] = field(default_factory=dict[str, _RecentFailure])
    """The latest failure of each server that did not answer since."""
    _listings: dict[str, ServerListing] = field(default_factory=dict[str, ServerListing])
    """The running requests."""

    async def snapshot_tools(self, request: SnapshotRequest) -> ToolsSnapshotted:
        """Return the snapshot for a session that begins now, its texts stored.

        Raises `ToolServerFailure` if a required server of the profile cannot be asked, or lacks a
        tool that is to be approved.
        """
        spec = request.spec
        asked = (self._request_offers(request.servers, name, spec) for name in spec.servers)
        answers = dict(zip(spec.servers, await asyncio.gather(*asked), strict=True))
        found = _sort_answers(spec, answers)
        return await self._build_snapshot(request, found)

    async def snapshot_tools_again(
        self, request: SnapshotRequest, pinned: ToolsSnapshotted
    ) -> ToolsSnapshotted | None:
        """Return what a running session would be pinned to now, its texts stored.

        None if a server whose tools it has does not answer in time: nothing is known to have
        changed, and a later turn finds out.
        """
        servers, spec = request.servers, request.spec
        failures = {name: self._find_failure(name, spec) for name in spec.servers}
        known = {name: each.failure for name, each in failures.items() if each}
        if known.keys() - pinned.servers_left_out.keys():
            return None
        listings = {
            name: self._start_listing(servers, name, spec)
            for name in spec.servers
            if name not in known
        }
        if listings:
            _, late = await asyncio.wait(listings.values(), timeout=CHECK_SECONDS)
            if late:
                return None
        answers = known | {name: each.result() for name, each in listings.items()}
        try:
            found = _sort_answers(spec, {name: answers[name] for name in spec.servers})
        except ToolServerFailure as failure:
            log_server_failure(failure)
            return None
        if found.left_out.keys() - pinned.servers_left_out.keys():
            return None
        return await self._build_snapshot(request, found)

    def list_early(self, servers: ToolServers, spec: ToolsSpec) -> None:
        """Begin to ask the servers of a session that was just opened, but for those that failed."""
        for name in spec.servers:
            if self._find_failure(name, spec) is None:
                self._start_listing(servers, name, spec)

    async def require_all_available(self) -> None:
        """Raise `Unavailable` with the servers that did not answer when they were last asked."""
        if self._failures:
            reasons = dict.fromkeys(each.failure.reason for each in self._failures.values())
            raise Unavailable("tools", "; ".join(reasons))

    async def close(self) -> None:
        """End the running requests."""
        await cancel_tasks(*self._listings.values())

    async def _build_snapshot(
        self, request: SnapshotRequest, found: ServerOffers
    ) -> ToolsSnapshotted:
        limit, spec, tenant = request.limit, request.spec, request.tenant
        room = f"{limit.tokens} {limit.counting.counter}" if limit else ""
        key = f"{tenant} {request.profile} {spec.model_dump_json(include={'servers'})} {room}"
        known = self._cached.pop(key, None)
        if known is None or known.found != found:
            taken = build_tool_catalog(request.profile, spec, found, limit)
            stored = (request.blobs.put_blob(tenant, text.encode()) for text in taken.texts)
            await asyncio.gather(*stored)
            known = _CachedSnapshot(found, taken.event)
        self._cached[key] = known
        _drop_oldest(self._cached)
        return known.snapshot

    async def _request_offers(
        self, servers: ToolServers, name: str, spec: ToolsSpec
    ) -> tuple[ToolOffer, ...] | ToolServerFailure:
        """Return what a server offers, or the failure of one that is not required."""
        is_required, known = spec.servers[name].is_required, self._find_failure(name, spec)
        if known and not is_required and known.failure.code == "tools_timeout":
            return known.failure
        # A turn that is cancelled leaves the request to the others that wait for it.
        answer = await asyncio.shield(self._start_listing(servers, name, spec))
        if is_required and isinstance(answer, ToolServerFailure):
            raise answer
        return answer

    def _find_failure(self, name: str, spec: ToolsSpec) -> _RecentFailure | None:
        """Return how a server failed within the last minute, unless it has answered since."""
        known = self._failures.get(_build_server_key(name, spec))
        since = asyncio.get_running_loop().time() - FAILURE_MEMORY_SECONDS
        return known if known and known.since > since else None

    def _start_listing(self, servers: ToolServers, name: str, spec: ToolsSpec) -> ServerListing:
        """Return the running request for the list of a server, or start one."""
        key = _build_server_key(name, spec)
        if key not in self._listings:
            listing = asyncio.create_task(self._list_offers(servers, name, spec))
            listing.add_done_callback(lambda _: self._listings.pop(key))
            self._listings[key] = listing
        return self._listings[key]

    async def _list_offers(
        self, servers: ToolServers, name: str, spec: ToolsSpec
    ) -> tuple[ToolOffer, ...] | ToolServerFailure:
        key = _build_server_key(name, spec)
        try:
            offers = await list_server_offers(servers, name, spec)
        except ToolServerFailure as failure:
            log_server_failure(failure)
            failed = _RecentFailure(name, failure, asyncio.get_running_loop().time())
            self._failures[key] = failed
            _drop_oldest(self._failures)
            return failure
        self._failures.pop(key, None)
        return offers


def _build_server_key(name: str, spec: ToolsSpec) -> str:
    return f"{name} {spec.get_call_seconds(name)} {spec.servers[name].model_dump_json()}"


def _sort_answers(
    spec: ToolsSpec, answers: Mapping[str, tuple[ToolOffer, ...] | ToolServerFailure]
) -> ServerOffers:
    """Return what servers offer, and why others are left out.

    Raises `ToolServerFailure` for a required server that lacks a tool that is to be approved.
    """
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
