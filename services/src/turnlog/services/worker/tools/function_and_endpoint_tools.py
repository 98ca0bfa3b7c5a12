"""Tools without MCP: Python functions in this process, and endpoints over plain HTTP.

Both take part in a turn as the tools of a server do: they are pinned, their calls and results are
recorded by the same runner, and their hints say what may run again. Arguments are checked by the
JSON Schema of the tool before it is called, since no server does.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from turnlog.events.content import encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.schema.tool_specs import (
    MAX_RESULT_BYTES,
    EndpointServerSpec,
    EndpointSpec,
    FunctionServerSpec,
)
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.extensions.bounded_json_post import EndpointResponse, post_json
from turnlog.services.extensions.plugins import load_tool
from turnlog.services.extensions.tool_context import get_tool_context
from turnlog.services.extensions.tool_functions import (
    ArgumentsRefused,
    ToolError,
    ToolFunction,
    check_arguments,
)
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.secret_masking import list_secret_values
from turnlog.services.worker.tools.header_values import read_header_values
from turnlog.services.worker.tools.stderr_tail import format_last_lines
from turnlog.services.worker.tools.tool_server_types import (
    ToolAnswer,
    ToolServerFailure,
    format_detail,
    shorten_reason,
)

_REQUEST_TIMEOUT: Final = int(HTTPStatus.REQUEST_TIMEOUT)


async def list_function_offers(server: str, spec: FunctionServerSpec) -> tuple[ToolOffer, ...]:
    """Return registered functions as tools; raises `ToolServerFailure` if one cannot be loaded."""
    tools = [(name, await _load_function(server, name)) for name in spec.functions]
    return tuple(
        ToolOffer(
            tool=name,
            description=replace_unstorable(tool.text),
            schema=tool.schema,
            idempotent=tool.read_only or tool.idempotent,
            read_only=tool.read_only,
        )
        for name, tool in tools
    )


async def call_function(server: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
    """Call a registered function once; raises `ToolServerFailure` if it cannot be loaded."""
    tool = await _load_function(server, name)
    try:
        found = await tool.call(arguments)
    except ArgumentsRefused as refused:
        return _fail(f"it was not called: {refused}")
    except ToolError as error:
        return _fail(replace_unstorable(str(error)))
    # A function that ends the interpreter must not end the worker
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        reason = f"{name} raised {type(error).__name__}"
        return ToolAnswer(reason, failed=True, detail=format_detail(reason, _list_lines(error)))
    try:
        text = found if isinstance(found, str) else encode_canonical(to_jsonable_python(found))
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"its result cannot be written as JSON ({type(error).__name__})"
        return ToolAnswer(reason, failed=True, unsure=True, detail=reason)
    return ToolAnswer(replace_unstorable(text))


async def _load_function(server: str, name: str) -> ToolFunction:
    """Load a function in a thread: the import of its package may take any time."""
    lines: tuple[str, ...] = ()
    try:
        return await run_in_thread(lambda: load_tool(name))
    except Refused as refused:
        reason = f"{refused.detail}; {refused.fix}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import may raise anything
        reason, lines = f"{name} cannot be loaded; correct what it says", _list_lines(error)
    raise ToolServerFailure(
        "tools_not_started", f"{server}: {reason}", retryable=False, lines=lines
    )


def _list_lines(error: BaseException) -> tuple[str, ...]:
    text = "".join(traceback.format_exception(error))
    return format_last_lines(text, list_secret_values(os.environ))


def list_endpoint_offers(server: str, spec: EndpointServerSpec) -> tuple[ToolOffer, ...]:
    """Return endpoints as tools; raises `ToolServerFailure` if a variable gives no value."""
    for endpoint in spec.endpoints.values():
        read_header_values(server, endpoint.headers_from, os.environ)
    return tuple(
        ToolOffer(
            tool=name,
            description=replace_unstorable(endpoint.description),
            schema=endpoint.parameters,
            idempotent=endpoint.read_only or endpoint.idempotent,
            read_only=endpoint.read_only,
        )
        for name, endpoint in spec.endpoints.items()
    )


async def call_endpoint(
    server: str, endpoint: EndpointSpec, arguments: Mapping[str, JsonValue]
) -> ToolAnswer:
    """Send arguments to an endpoint once; raises `ToolServerFailure`."""
    headers = httpx.Headers(_build_context_headers())
    headers.update(read_header_values(server, endpoint.headers_from, os.environ))
    try:
        await check_arguments(arguments, endpoint.parameters)
    except ArgumentsRefused as refused:
        return _fail(f"it was not called: {refused}")
    try:
        response = await post_json(endpoint.url, dict(arguments), MAX_RESULT_BYTES, headers)
    except (httpx.ConnectError, httpx.ConnectTimeout):
        reason = f"{server}: nobody listens at its address"
        raise ToolServerFailure("tools_unreachable", reason) from None
    except httpx.HTTPError as error:
        reason = f"{server}: {type(error).__name__}"
        raise ToolServerFailure("tools_failed", reason) from None
    return _build_answer(response, urlsplit(endpoint.url).netloc)


def _build_answer(response: EndpointResponse, host: str) -> ToolAnswer:
    status, text = response.status, replace_unstorable(response.body.decode(errors="replace"))
    if httpx.codes.is_success(status):
        if response.is_whole and not response.is_encoded:
            return ToolAnswer(text)
        fault = "compressed" if response.is_whole else f"more than {MAX_RESULT_BYTES} bytes"
        return ToolAnswer(f"{host} answered {fault}", failed=True, unsure=True)
    said = shorten_reason(text) if response.is_whole and not response.is_encoded else ""
    reason = f"{host} answered HTTP {status}" + (f": {said}" if said else "")
    was_refused = httpx.codes.is_client_error(status) and status != _REQUEST_TIMEOUT
    return ToolAnswer(reason, failed=True, unsure=not was_refused, detail=reason)


def _build_context_headers() -> dict[str, str]:
    context = get_tool_context()
    return {
        "Idempotency-Key": context.key,
        "Turnlog-Session": context.session,
        "Turnlog-Turn": str(context.turn),
    }


def _fail(reason: str) -> ToolAnswer:
    return ToolAnswer(reason, failed=True, detail=shorten_reason(reason))
