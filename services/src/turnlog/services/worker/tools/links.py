"""Links: connections to servers of tools, made when they are first needed and kept.

Each lives in a task of its own, since what the package opens must be closed by the very task that
opened it, and a turn that is cut off must not take a server away from others. Before one is used
again it is asked for a sign of life, so a server that hangs, died or was started anew is reached
by a new one; nothing has been asked of it by then. Whoever still waits on the old one may do so.
One of whose answers nobody waits for any more is not used again either: what comes has an end.
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
"""Seconds that it may take to end a server: by closing its input, by asking, and then by force."""
CONNECT: Final = 60.0
"""Seconds that a server may take to begin."""
MOST_KEPT: Final = 32
"""Connections that are kept; those that were not used for longest go first."""


@dataclass(eq=False)
class Link:
    """One connection."""

    client: asyncio.Future[Client]
    """Whom to ask, once it is there."""
    holding: asyncio.Task[None]
    """What holds it open."""
    leaving: asyncio.Event
    """Set to have it closed: a task that is cancelled while it ends a program never ends itself."""
    using: int = 0
    """How many requests are under way."""
    parted: bool = False
    """Whether nobody is to use it any more."""

    def part(self) -> None:
        """Close it as soon as nobody waits for an answer any more."""
        self.parted = True
        if not self.using:
            self.leaving.set()

    async def left(self) -> None:
        """Close it now."""
        self.leaving.set()
        await asyncio.wait({self.holding}, timeout=LEAVE)


@dataclass
class Links:
    """The connections of a worker, one a server."""

    _kept: dict[str, Link] = field(default_factory=dict[str, Link])
    _parted: set[Link] = field(default_factory=set[Link])

    @asynccontextmanager
    async def to(self, server: str, spec: ServerSpec) -> AsyncGenerator[Client]:
        """Give a client of a server that is alive; raises `ServerFailure`."""
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
        """Close all of them."""
        links = {*self._kept.values(), *self._parted}
        self._kept, self._parted = {}, set()
        await asyncio.gather(*(link.left() for link in links))

    async def _link(self, key: str, spec: ServerSpec) -> Link:
        """Give the connection that is kept, or a new one if nobody answers at its other end."""
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
    # What it fails of repeats what the server said, and asyncio logs what nobody has looked at
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
    """Name what a connection failed of; what a server says may repeat prompts."""
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
    """Give the first thing that went wrong of those that did so together."""
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
    """Load the room that knows the package; the first time it takes seconds."""
    return import_module("turnlog.services.worker.tools.mcp_transports")
