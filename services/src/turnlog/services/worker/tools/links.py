"""Servers that speak MCP: child processes over stdio, and addresses over streamable HTTP.

A connection is opened when it is first needed and then reused. Each lives in a task of its own: the
MCP package requires that the task that opened something closes it, and a cancelled turn must not
close a server that others use. A connection is pinged before it is reused, so a server that hangs
or was restarted gets a new connection before any request is sent; requests that wait on the old
connection may finish. A connection with a cancelled request is not reused either.

What a server offers is fetched at most once a minute, since every new session needs it. A tool call
is sent once and never repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.services.runtime.aside import aside
from turnlog.services.worker.tools.exchange import ServerFailure

if TYPE_CHECKING:
    from mcp import Client

LEAVE: Final = 10.0
"""Seconds that stopping a server may take: closing its input, terminating it, then killing it."""
CONNECT: Final = 60.0
"""Seconds that starting a server may take."""
MOST_KEPT: Final = 32
"""Maximum number of open connections; the least recently used are closed first."""


@dataclass(eq=False)
class Link:
    """One connection to a tool server."""

    client: asyncio.Future[Client]
    """The MCP client, once connected."""
    holding: asyncio.Task[None]
    """The task that keeps the connection open."""
    leaving: asyncio.Event
    """Set to close it: a task that is cancelled while it stops a program would never finish."""
    using: int = 0
    """Number of requests that are running."""
    parted: bool = False
    """Whether no new request may use it."""

    def part(self) -> None:
        """Close it as soon as no request is running."""
        self.parted = True
        if not self.using:
            self.leaving.set()

    async def left(self) -> None:
        """Close it now."""
        self.leaving.set()
        await asyncio.wait({self.holding}, timeout=LEAVE)


@dataclass
class Links:
    """The connections of a worker, one for each server."""

    _kept: dict[str, Link] = field(default_factory=dict[str, Link])
    _parted: set[Link] = field(default_factory=set[Link])

    @asynccontextmanager
    async def to(self, server: str, spec: ServerSpec) -> AsyncGenerator[Client]:
        """Yield a client of a server that is alive; raises `ToolServerFailure`."""
        key = f"{server} {spec.model_dump_json()}"
        link = await self._link(key, spec)
        link.using += 1
        try:
            client = await _client(link, server)
            try:
                yield client
            except asyncio.CancelledError:
                link.parted = True
                raise
        finally:
            link.using -= 1
            if link.parted or link.holding.done():
                self._part(key, link)

    async def close(self) -> None:
        """Close all connections."""
        links = {*self._kept.values(), *self._parted}
        self._kept, self._parted = {}, set()
        await asyncio.gather(*(link.left() for link in links))

    async def _link(self, key: str, spec: ServerSpec) -> Link:
        """Return the open connection, or a new one if its server does not answer."""
        link = self._kept.get(key)
        if link and link.client.done() and not await _lives(link):
            self._part(key, link)
        link = self._kept[key] = self._kept.pop(key) if key in self._kept else _made(spec)
        for oldest in [*self._kept][:-MOST_KEPT]:
            self._part(oldest, self._kept[oldest])
        return link

    def _part(self, key: str, link: Link) -> None:
        if self._kept.get(key) is link:
            del self._kept[key]
        if not link.holding.done():
            self._parted.add(link)
            link.holding.add_done_callback(lambda _: self._parted.discard(link))
        link.part()


def _made(spec: ServerSpec) -> Link:
    client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    leaving = asyncio.Event()
    holding = asyncio.create_task(_held_open(spec, client, leaving))
    # Its exception repeats the server's text, and asyncio logs exceptions that are never retrieved
    holding.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return Link(client, holding, leaving)


async def _lives(link: Link) -> bool:
    alive: bool = not link.holding.done() and await transports().alive(link.client.result())
    return alive


async def _client(link: Link, server: str) -> Client:
    either: set[asyncio.Future[Any]] = {link.client, link.holding}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if link.client.done():
        return link.client.result()
    raise _unreachable(server, link.holding.exception())


def _unreachable(server: str, error: BaseException | None) -> ServerFailure:
    """Build the failure without the server's own text, which may repeat prompts."""
    match _innermost(error):
        case FileNotFoundError(args=(program, *_)):
            detail = f"{server}: there is no program {program!r}"
            return ServerFailure("tools_unreachable", detail, retryable=False)
        case TimeoutError():
            why = f"it took more than {CONNECT:g} s to begin"
        case _:
            why = transports().wording(_innermost(error))
    return ServerFailure("tools_unreachable", f"{server}: {why}")


def _innermost(error: BaseException | None) -> BaseException | None:
    """Return the first leaf of nested exception groups."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _innermost(group.exceptions[0])


async def _held_open(
    spec: ServerSpec, client: asyncio.Future[Client], leaving: asyncio.Event
) -> None:
    found = await aside(transports)
    async with AsyncExitStack() as open_until:
        async with asyncio.timeout(CONNECT):
            connected = await open_until.enter_async_context(found.connected(spec))
        client.set_result(connected)
        await leaving.wait()


def transports() -> ModuleType:
    """Import the module that uses the MCP package; the first import takes seconds."""
    return import_module("turnlog.services.worker.tools.mcp_transports")
