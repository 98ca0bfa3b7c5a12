"""The client of resolvers, in this process or over HTTP, with the blueprint's timeout.

Redirects are not followed and proxies from the environment are not used, so that the request goes
to the address that the blueprint's author wrote.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Final, assert_never
from urllib.parse import urlsplit

import httpx

from turnlog.projections.blueprint.asking import (
    AddressedResolver,
    RegisteredResolver,
    ResolverSpec,
)
from turnlog.services.runtime.plugins import resolver_named
from turnlog.services.runtime.resolver import (
    Outcome,
    Question,
    ResolverFailure,
    malformed,
    outcome_of,
)

MOST_BYTES: Final = 400_000
"""Maximum size of an answer, which is recorded in one event."""
PLAIN: Final = {"Accept-Encoding": "identity"}
"""Compressed answers are not accepted, because they could expand without limit."""


def name_of(spec: ResolverSpec) -> str:
    """Return a resolver's name for the record: its registered name or its host."""
    match spec:
        case RegisteredResolver(source=source):
            return source
        case AddressedResolver(url=url):
            return urlsplit(url).netloc
        case _ as never:
            assert_never(never)


async def asked(spec: ResolverSpec, question: Question) -> Outcome:
    """Send a request to a resolver and return its outcome; raise `ResolverFailure`."""
    try:
        async with asyncio.timeout(spec.timeout_seconds):
            match spec:
                case RegisteredResolver(source=source):
                    said = await _registered(source, question)
                case AddressedResolver(url=url):
                    said = await _addressed(url, question)
                case _ as never:
                    assert_never(never)
    except TimeoutError:
        detail = f"{name_of(spec)} took more than {spec.timeout_seconds:g} s"
        raise ResolverFailure("resolver_timeout", detail, retryable=True) from None
    return outcome_of(said, name_of(spec))


async def _registered(name: str, question: Question) -> object:
    resolver = resolver_named(name)
    try:
        return await resolver(question)
    except Exception as error:
        detail = f"{name} raised {type(error).__name__}"
        raise ResolverFailure("resolver_failed", detail, retryable=False) from error


async def _addressed(url: str, question: Question) -> object:
    host = urlsplit(url).netloc
    try:
        async with (
            httpx.AsyncClient(timeout=None, trust_env=False) as client,  # noqa: S113 - `asked` ends it
            client.stream("POST", url, json=question.wire(), headers=PLAIN) as answer,
        ):
            if not answer.is_success:
                raise _refused(answer, host)
            return _parsed(await _body(answer, host), host)
    except httpx.HTTPError as error:
        detail = f"{host}: {type(error).__name__}"
        raise ResolverFailure("resolver_unreachable", detail, retryable=True) from None


def _refused(answer: httpx.Response, host: str) -> ResolverFailure:
    busy = answer.status_code == HTTPStatus.TOO_MANY_REQUESTS
    detail = f"{host} answered {answer.status_code}"
    return ResolverFailure("resolver_failed", detail, retryable=answer.is_server_error or busy)


async def _body(answer: httpx.Response, host: str) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > MOST_BYTES:
            raise malformed(f"{host} answered more than {MOST_BYTES} bytes")
    return bytes(body)


def _parsed(body: bytes, host: str) -> object:
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError):
        raise malformed(f"{host} answered no JSON") from None
    return said
