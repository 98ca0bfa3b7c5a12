"""The client of resolvers, in this process or over HTTP, with the blueprint's timeout."""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Final, assert_never
from urllib.parse import urlsplit

import httpx

from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.schema.lookups.resolver_specs import (
    HttpResolverSpec,
    RegisteredResolverSpec,
    ResolverSpec,
)
from turnlog.services.extensions.bounded_json_post import post_json
from turnlog.services.extensions.plugins import load_resolver
from turnlog.services.extensions.resolver_contract import (
    ResolverFailure,
    ResolverOutcome,
    ResolverRequest,
    create_malformed_failure,
    validate_outcome,
)
from turnlog.services.platform.concurrency import run_in_thread

MAX_ANSWER_BYTES: Final = 400_000
"""Maximum size of an answer, which is recorded in one event."""


def format_resolver_name(spec: ResolverSpec) -> str:
    """Return a resolver's name for the record: its registered name or its host."""
    match spec:
        case RegisteredResolverSpec(source=source):
            return source
        case HttpResolverSpec(url=url):
            return urlsplit(url).netloc
        case _ as never:
            assert_never(never)


async def request_outcome(spec: ResolverSpec, request: ResolverRequest) -> ResolverOutcome:
    """Send a request to a resolver and return its outcome; raise `ResolverFailure`."""
    try:
        async with asyncio.timeout(spec.timeout_seconds):
            match spec:
                case RegisteredResolverSpec(source=source):
                    raw_outcome = await _run_registered_resolver(source, request)
                case HttpResolverSpec(url=url):
                    raw_outcome = await _send_http_request(url, request)
                case _ as never:
                    assert_never(never)
    except TimeoutError:
        detail = f"{format_resolver_name(spec)} took more than {spec.timeout_seconds:g} s"
        raise ResolverFailure("resolver_timeout", detail, retryable=True) from None
    return validate_outcome(raw_outcome, format_resolver_name(spec))


async def _run_registered_resolver(name: str, request: ResolverRequest) -> object:
    # The import of its package may take any time.
    resolver = await run_in_thread(partial(load_resolver, name))
    try:
        return await resolver(request)
    except Exception as error:
        detail = f"{name} raised {type(error).__name__}"
        raise ResolverFailure("resolver_failed", detail, retryable=False) from error


async def _send_http_request(url: str, request: ResolverRequest) -> object:
    host = urlsplit(url).netloc
    try:
        answer = await post_json(url, request.render_json(), MAX_ANSWER_BYTES)
    except httpx.HTTPError as error:
        detail = f"{host}: {type(error).__name__}"
        raise ResolverFailure("resolver_unreachable", detail, retryable=True) from None
    if not httpx.codes.is_success(answer.status):
        raise _create_status_failure(answer.status, host)
    if not answer.is_whole:
        raise create_malformed_failure(f"{host} answered more than {MAX_ANSWER_BYTES} bytes")
    return _parse_body(answer.body, host)


def _create_status_failure(status: int, host: str) -> ResolverFailure:
    may_pass = httpx.codes.is_server_error(status) or status == HTTPStatus.TOO_MANY_REQUESTS
    return ResolverFailure("resolver_failed", f"{host} answered {status}", retryable=may_pass)


def _parse_body(body: bytes, host: str) -> object:
    try:
        return parse_json(body, as_written=True)
    except InvalidJson:
        raise create_malformed_failure(f"{host} answered no JSON") from None
