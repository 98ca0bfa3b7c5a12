"""The client of resolvers, in this process or over HTTP, with the blueprint's timeout.

Redirects are not followed and proxies from the environment are not used, so that the request goes
to the address that the blueprint's author wrote.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final, assert_never
from urllib.parse import urlsplit

import httpx

from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.schema.resolver_specs import (
    HttpResolverSpec,
    RegisteredResolverSpec,
    ResolverSpec,
)
from turnlog.services.extensions.plugins import load_resolver
from turnlog.services.extensions.resolver_contract import (
    ResolverFailure,
    ResolverOutcome,
    ResolverRequest,
    create_malformed_failure,
    validate_outcome,
)

MAX_ANSWER_BYTES: Final = 400_000
"""Maximum size of an answer, which is recorded in one event."""

UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
"""Compressed answers are not accepted, because they could expand without limit."""


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
    resolver = load_resolver(name)
    try:
        return await resolver(request)
    except Exception as error:
        detail = f"{name} raised {type(error).__name__}"
        raise ResolverFailure("resolver_failed", detail, retryable=False) from error


async def _send_http_request(url: str, request: ResolverRequest) -> object:
    host = urlsplit(url).netloc
    try:
        async with (
            httpx.AsyncClient(timeout=None, trust_env=False) as client,  # noqa: S113 - `asked` ends it
            client.stream("POST", url, json=request.render_json(), headers=UNCOMPRESSED) as answer,
        ):
            if not answer.is_success:
                raise _create_status_failure(answer, host)
            return _parse_body(await _read_body(answer, host), host)
    except httpx.HTTPError as error:
        detail = f"{host}: {type(error).__name__}"
        raise ResolverFailure("resolver_unreachable", detail, retryable=True) from None


def _create_status_failure(answer: httpx.Response, host: str) -> ResolverFailure:
    busy = answer.status_code == HTTPStatus.TOO_MANY_REQUESTS
    detail = f"{host} answered {answer.status_code}"
    return ResolverFailure("resolver_failed", detail, retryable=answer.is_server_error or busy)


async def _read_body(answer: httpx.Response, host: str) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise create_malformed_failure(f"{host} answered more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _parse_body(body: bytes, host: str) -> object:
    try:
        return parse_json(body)
    except InvalidJson:
        raise create_malformed_failure(f"{host} answered no JSON") from None
