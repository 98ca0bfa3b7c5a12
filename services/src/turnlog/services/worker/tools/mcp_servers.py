"""Servers that speak MCP: child processes over stdio, and addresses over streamable HTTP.

A connection is opened when it is first needed and then reused. Each lives in a task of its own: the
MCP package requires that the task that opened something closes it, and a cancelled turn must not
close a server that others use. A connection is pinged before it is reused, so a server that hangs
or was restarted gets a new connection before any request is sent; requests that wait on the old
connection may finish. A connection with a cancelled request is not reused either. A program that
ends before it says what it is would end again, so that failure is final.

What a server offers is fetched at most once a minute, since every new session needs it, and again
if the server says that it has changed or there is a new connection to it: only when it is needed,
however often the server says so. A request for a tool or a prompt is sent once and never repeated.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from turnlog.events.async_tasks import run_tasks
from turnlog.events.content import encode_canonical
from turnlog.events.storable_text import replace_unstorable, replace_unstorable_members
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.extensions.mcp_servers_file import ToolsFile
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.worker.tools.mcp_contents import convert_prompt, convert_result
from turnlog.services.worker.tools.mcp_server_settings import (
    ServerEndpoint,
    ServerProgram,
    resolve_endpoint,
)
from turnlog.services.worker.tools.stderr_tail import StderrTail, format_last_lines
from turnlog.services.worker.tools.tool_server_types import (
    ToolAnswer,
    ToolServerFailure,
    attach_lines,
    format_detail,
    shorten_reason,
)

if TYPE_CHECKING:
    from mcp import Client


CLOSE_SECONDS: Final = 10.0
"""Seconds that stopping a server may take: closing its input, terminating it, then killing it."""

CONNECT_SECONDS: Final = 60.0
"""Seconds that starting a server may take."""

MAX_CONNECTIONS: Final = 32
"""Maximum number of open connections; the least recently used are closed first."""


@dataclass
class ListChanges:
    """Counts how often a server said that its tools or prompts have changed."""

    count: int = 0

    def add_change(self) -> None:
        """Count one more; the lists are fetched when they are needed."""
        self.count += 1


@dataclass(eq=False, kw_only=True)
class ServerConnection:
    """One connection to a tool server."""

    client: asyncio.Future[Client]
    """The MCP client, once connected."""
    task: asyncio.Task[None]
    """The task that keeps the connection open."""
    close_requested: asyncio.Event
    """Set to close it: a task that is cancelled while it stops a program would never finish."""
    stderr: StderrTail
    """The end of what its program wrote to stderr."""
    secrets: tuple[str, ...]
    """What is masked in its words."""
    active_requests: int = 0
    """Number of requests that are running."""
    request_count: int = 0
    """Number of requests since it was opened."""
    retired: bool = False
    """Whether no new request may use it."""
    list_changes: ListChanges
    """What its server said of its tools and prompts."""

    @property
    def list_version(self) -> ListVersion:
        """Which lists its server has now."""
        return self, self.list_changes.count

    def close_when_idle(self) -> None:
        """Close it as soon as no request is running."""
        self.retired = True
        if not self.active_requests:
            self.close_requested.set()

    async def close_now(self) -> None:
        """Close it now."""
        self.close_requested.set()
        await asyncio.wait({self.task}, timeout=CLOSE_SECONDS)

    def list_last_lines(self, since: int = 0) -> tuple[str, ...]:
        """Return the last lines that its program wrote after a position."""
        return format_last_lines(self.stderr.read_text(since), self.secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """One request over a connection, from before it is sent."""

    server: str
    link: ServerConnection
    client: Client
    begun_at: int
    """Position in the program's stderr."""
    number: int
    """Number of the request on its connection; 0 if others were running when it began."""

    def list_last_lines(self) -> tuple[str, ...]:
        """Return the lines that can only be about this request: those while it ran alone."""
        ran_alone = self.link.request_count == self.number
        return self.link.list_last_lines(self.begun_at) if ran_alone else ()

    def create_failure(self, error: Exception) -> ToolServerFailure:
        """Return the failure without the error's text, which may repeat prompts."""
        closed = load_transports().has_connection_closed(error)
        reason = "it ended before it answered" if closed else type(error).__name__
        lines = self.list_last_lines()
        failure = ToolServerFailure("tools_failed", f"{self.server}: {reason}", lines=lines)
        failure.server_lines = self.link.list_last_lines()
        return failure


ConnectionKey = tuple[str, ServerEndpoint]
"""The name of a server and how it is reached."""

ListVersion = tuple[ServerConnection, int]
"""A connection, and how often its server said by then that its lists have changed."""


@dataclass
class ServerConnectionPool:
    """The connections of a worker, one for each server."""

    _connections: dict[ConnectionKey, ServerConnection] = field(
        default_factory=dict[ConnectionKey, ServerConnection]
    )
    _retired: set[ServerConnection] = field(default_factory=set[ServerConnection])

    @asynccontextmanager
    async def open_request(
        self, server: str, endpoint: ServerEndpoint
    ) -> AsyncGenerator[ServerRequest]:
        """Yield a request to a server that is alive; raises `ToolServerFailure`."""
        key = (server, endpoint)
        link = await self._get_connection(key)
        link.active_requests += 1
        try:
            client = await _wait_for_client(link, server)
            link.request_count += 1
            number = link.request_count if link.active_requests == 1 else 0
            request = ServerRequest(
                server=server,
                link=link,
                client=client,
                begun_at=link.stderr.find_end(),
                number=number,
            )
            try:
                yield request
            except asyncio.CancelledError as cancelled:
                link.retired = True
                attach_lines(cancelled, request.list_last_lines())
                raise
        finally:
            link.active_requests -= 1
            if link.retired or link.task.done():
                self._remove_connection(key, link)

    def find_list_version(self, key: ConnectionKey) -> ListVersion | None:
        """Return which lists a server has now; None while there is no connection to it."""
        link = self._connections.get(key)
        return link.list_version if link else None

    async def close(self) -> None:
        """Close all connections."""
        links = {*self._connections.values(), *self._retired}
        self._connections, self._retired = {}, set()
        await asyncio.gather(*(link.close_now() for link in links))

    async def _get_connection(self, key: ConnectionKey) -> ServerConnection:
        """Return the open connection, or a new one if its server does not answer."""
        link = self._connections.get(key)
        if link and link.client.done() and not await _is_alive(link):
            self._remove_connection(key, link)
        link = self._connections[key] = (
            self._connections.pop(key) if key in self._connections else _start_connection(key[1])
        )
        for oldest in [*self._connections][:-MAX_CONNECTIONS]:
            self._remove_connection(oldest, self._connections[oldest])
        return link

    def _remove_connection(self, key: ConnectionKey, link: ServerConnection) -> None:
        if self._connections.get(key) is link:
            del self._connections[key]
        if not link.task.done():
            self._retired.add(link)
            link.task.add_done_callback(lambda _: self._retired.discard(link))
        link.close_when_idle()


def _start_connection(endpoint: ServerEndpoint) -> ServerConnection:
    client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    leaving, stderr, changes = asyncio.Event(), StderrTail(), ListChanges()
    running = _run_connection(
        endpoint=endpoint,
        client=client,
        leaving=leaving,
        stderr=stderr,
        report_change=changes.add_change,
    )
    holding = asyncio.create_task(running)
    # Its exception repeats the server's text, and asyncio logs exceptions that are never retrieved
    holding.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    holding.add_done_callback(lambda _: stderr.close())
    secrets = endpoint.secrets if isinstance(endpoint, ServerProgram) else ()
    return ServerConnection(
        client=client,
        task=holding,
        close_requested=leaving,
        stderr=stderr,
        secrets=secrets,
        list_changes=changes,
    )


async def _is_alive(link: ServerConnection) -> bool:
    alive: bool = not link.task.done() and await load_transports().is_alive(link.client.result())
    return alive


async def _wait_for_client(link: ServerConnection, server: str) -> Client:
    either: set[asyncio.Future[Any]] = {link.client, link.task}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as cancelled:
        attach_lines(cancelled, link.list_last_lines())
        raise
    if link.client.done():
        return link.client.result()
    raise _build_unreachable(server, link.task.exception(), link.list_last_lines())


def _build_unreachable(
    server: str, error: BaseException | None, lines: tuple[str, ...]
) -> ToolServerFailure:
    """Build the failure of a connection, over which no prompt was sent yet."""
    match innermost := _find_innermost(error):
        case FileNotFoundError(args=(program,)):
            reason = f"there is no program {program!r}; install it, or write its path"
        case PermissionError(args=(program,)):
            reason = f"{program!r} is not executable; allow it: chmod +x"
        case TimeoutError():
            reason = f"it took more than {CONNECT_SECONDS:g} s to begin"
            return _create_unreachable(server, reason, lines)
        case _:
            reason = load_transports().describe_error(innermost)
            if not load_transports().has_connection_closed(innermost):
                return _create_unreachable(server, reason, lines)
            reason += "; correct what it says" if lines else "; run it by hand, it said nothing"
    detail = f"{server}: {reason}"
    return ToolServerFailure("tools_not_started", detail, retryable=False, lines=lines)


def _create_unreachable(server: str, reason: str, lines: tuple[str, ...]) -> ToolServerFailure:
    return ToolServerFailure("tools_unreachable", f"{server}: {reason}", lines=lines)


def _find_innermost(error: BaseException | None) -> BaseException | None:
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _find_innermost(group.exceptions[0])


async def _run_connection(
    endpoint: ServerEndpoint,
    client: asyncio.Future[Client],
    leaving: asyncio.Event,
    stderr: StderrTail,
    report_change: Callable[[], None],
) -> None:
    found = await run_in_thread(load_transports)
    async with AsyncExitStack() as open_until:
        async with asyncio.timeout(CONNECT_SECONDS):
            opening = found.open_client(endpoint, stderr, report_change)
            connected = await open_until.enter_async_context(opening)
        client.set_result(connected)
        async with run_tasks(found.watch_lists(connected, report_change)):
            await leaving.wait()


def load_transports() -> ModuleType:
    """Import the module that uses the MCP package; the first import takes seconds."""
    return import_module("turnlog.services.worker.tools.mcp_transports")


if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt


MAX_PAGES: Final = 50
"""Maximum number of pages of a server's list; some lists never end."""

OFFER_CACHE_SECONDS: Final = 60.0
"""Seconds for which a server's offers are cached."""

MAX_CACHED_LISTS: Final = 256
"""Maximum number of cached lists; those of unused blueprints are dropped."""


@dataclass(frozen=True, slots=True)
class _CachedOffers:
    since: float
    """Time of the event loop before they were fetched."""
    version: ListVersion
    """Which lists the server had before they were fetched."""
    offers: tuple[ToolOffer, ...]


@dataclass
class McpToolServers:
    """The MCP servers of a worker."""

    cache_seconds: float = OFFER_CACHE_SECONDS
    tools: ToolsFile | None = None
    """The operator's tools file, by which servers that a blueprint names are reached."""
    connections: ServerConnectionPool = field(default_factory=ServerConnectionPool)
    _cached_offers: dict[str, _CachedOffers] = field(default_factory=dict[str, _CachedOffers])

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.list_offers`."""
        known = self._find_cached_offers(server, spec)
        if known is None:
            known = await self._fetch_server_offers(server, spec)
        key = _build_cache_key(server, spec)
        self._cached_offers.pop(key, None)
        self._cached_offers[key] = known
        while len(self._cached_offers) > MAX_CACHED_LISTS:
            del self._cached_offers[next(iter(self._cached_offers))]
        return known.offers

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.call_tool`."""
        known = self._find_cached_offers(server, spec)
        if known and not any((each.kind, each.tool) == ("tool", tool) for each in known.offers):
            return ToolAnswer(f"{server} has no tool {tool} any more", failed=True)

        async def run_tool(client: Client) -> ToolAnswer:
            result = await client.call_tool(
                # Others would end the connection for everybody who uses it.
                tool,
                replace_unstorable_members(arguments),
            )
            return await convert_result(result)

        return await self._send_request(server, spec, run_tool)

    async def get_prompt(
        self, server: str, spec: ServerSpec, prompt: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.get_prompt`."""

        async def fetch_prompt(client: Client) -> ToolAnswer:
            result = await client.get_prompt(prompt, _build_prompt_arguments(arguments))
            return await convert_prompt(result)

        return await self._send_request(server, spec, fetch_prompt)

    async def close(self) -> None:
        """See `ToolServers.close`."""
        await self.connections.close()

    async def _send_request(
        self, server: str, spec: ServerSpec, send: Callable[[Client], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Send a request once; what the server has against it is its answer."""
        async with self._open_request(server, spec) as request:
            try:
                answer = await send(request.client)
            except Exception as error:  # noqa: BLE001 - whatever broke, nothing came of it
                found = load_transports().find_refusal(request.client, error)
                refused: ToolAnswer | None = await found
                if refused is None:
                    raise request.create_failure(error) from None
                answer = refused
            return _add_last_lines(answer, request) if answer.failed else answer

    def _open_request(
        self, server: str, spec: ServerSpec
    ) -> AbstractAsyncContextManager[ServerRequest]:
        return self.connections.open_request(server, self._resolve_endpoint(server, spec))

    def _resolve_endpoint(self, server: str, spec: ServerSpec) -> ServerEndpoint:
        return resolve_endpoint(server, spec, self.tools, os.environ)

    def _find_cached_offers(self, server: str, spec: ServerSpec) -> _CachedOffers | None:
        """Return the list of a server unless it is old, or the server may have another by now."""
        known = self._cached_offers.get(_build_cache_key(server, spec))
        is_old = known and asyncio.get_running_loop().time() - known.since >= self.cache_seconds
        if known is None or is_old:
            return None
        version = self.connections.find_list_version((server, self._resolve_endpoint(server, spec)))
        return known if version in {None, known.version} else None

    async def _fetch_server_offers(self, server: str, spec: ServerSpec) -> _CachedOffers:
        since = asyncio.get_running_loop().time()
        async with self._open_request(server, spec) as request:
            version = request.link.list_version
            try:
                tools = [offer async for offer in _iterate_tools(request.client)]
                prompts = [offer async for offer in _iterate_prompts(request.client)]
            except Exception as error:  # noqa: BLE001 - whatever broke, the server cannot be asked
                raise request.create_failure(error) from None
            return _CachedOffers(since, version, (*tools, *prompts))


def _build_cache_key(server: str, spec: ServerSpec) -> str:
    return f"{server} {spec.model_dump_json()}"


def _build_prompt_arguments(arguments: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the arguments of a prompt, which are texts; other values are sent as JSON."""
    return {
        name: value if isinstance(value, str) else encode_canonical(value)
        for name, value in replace_unstorable_members(arguments).items()
    }


def _add_last_lines(answer: ToolAnswer, request: ServerRequest) -> ToolAnswer:
    """Add what a server wrote while the tool failed, for people."""
    reason = shorten_reason(answer.text)
    return replace(answer, detail=format_detail(reason, request.list_last_lines()))


async def _iterate_tools(client: Client) -> AsyncGenerator[ToolOffer]:
    cursor: str | None = None
    for _ in range(MAX_PAGES if client.server_capabilities.tools else 0):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            hints = tool.annotations
            yield ToolOffer(
                tool=tool.name,
                description=replace_unstorable(tool.description or ""),
                schema=dict(tool.input_schema),
                idempotent=bool(hints and (hints.read_only_hint or hints.idempotent_hint)),
                read_only=bool(hints and hints.read_only_hint),
            )
        cursor = page.next_cursor
        if cursor is None:
            return


async def _iterate_prompts(client: Client) -> AsyncGenerator[ToolOffer]:
    cursor: str | None = None
    for _ in range(MAX_PAGES if client.server_capabilities.prompts else 0):
        page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
        for prompt in page.prompts:
            schema = _build_prompt_schema(prompt)
            yield ToolOffer(
                tool=prompt.name,
                description=replace_unstorable(prompt.description or ""),
                schema=schema,
                kind="prompt",
            )
        cursor = page.next_cursor
        if cursor is None:
            return


def _build_prompt_schema(prompt: Prompt) -> dict[str, JsonValue]:
    """Return a prompt's arguments, which are texts, as the schema of a tool."""
    arguments = prompt.arguments or ()
    properties: dict[str, JsonValue] = {
        each.name: {"type": "string", "description": replace_unstorable(each.description or "")}
        for each in arguments
    }
    required: list[JsonValue] = [each.name for each in arguments if each.required]
    return {"type": "object", "properties": properties, "required": required}
