"""Knowledge searches over NATS: asked by roles without an index, answered by projectors.

One projector of all answers each request. A response that would be larger than a message of the
server may be has the worst hits left out.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from turnlog.events.errors import Refused, Unavailable
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestNotSent,
    answer_queries,
)
from turnlog.events.subjects import SEARCH_SUBJECT
from turnlog.projections.knowledge.search_port import (
    KnowledgeSearch,
    SearchRequest,
    SearchResult,
)

_log = structlog.get_logger("turnlog.knowledge")

SEARCH_PATIENCE: Final = 75.0
"""Seconds until a search times out; embedder and index time out earlier, with better errors."""

_RESPONSE_BYTES: Final = 1_000_000
"""Maximum bytes of a response; a server takes 1 MiB unless it is configured otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFailure:
    """Why a search failed."""

    what: str
    """The component that is unavailable, or the code of a refusal."""
    detail: str
    is_refused: bool = False
    field: str | None = None
    fix: str = ""


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """What a search is answered with: one of both."""

    result: SearchResult | None = None
    failure: SearchFailure | None = None


_REQUEST: Final = TypeAdapter(SearchRequest)
_RESPONSE: Final = TypeAdapter(SearchResponse)


@dataclass(frozen=True, slots=True)
class NatsKnowledgeSearch:
    """A `KnowledgeSearch` that asks the projectors."""

    connection: NatsConnection
    patience: float = SEARCH_PATIENCE

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        asking = replace(self.connection, patience=self.patience)
        try:
            answer = await asking.send_request(SEARCH_SUBJECT, _REQUEST.dump_json(request))
        except RequestNotSent as error:
            raise Unavailable("knowledge-index", "no projector answers: start one") from error
        try:
            response = _RESPONSE.validate_json(answer.data)
        except ValidationError:
            detail = "a projector of another release answered"
            raise Unavailable("knowledge-index", detail) from None
        if response.result is not None:
            return response.result
        raise _build_error(response.failure)


def _build_error(failure: SearchFailure | None) -> Exception:
    if failure is None:
        return Unavailable("knowledge-index", "the answer is empty")
    if failure.is_refused:
        return Refused(failure.what, failure.detail, field=failure.field, fix=failure.fix)
    return Unavailable(failure.what, failure.detail)


@asynccontextmanager
async def answer_searches(
    connection: NatsConnection, search: KnowledgeSearch
) -> AsyncGenerator[None]:
    """Answer searches while the body runs."""

    async def answer(payload: bytes) -> bytes:
        try:
            request = _REQUEST.validate_json(payload)
        except ValidationError:
            detail = "a role of another release asked"
            return _RESPONSE.dump_json(
                SearchResponse(failure=SearchFailure(what="knowledge-index", detail=detail))
            )
        return await build_response(search, request)

    async with answer_queries(connection, SEARCH_SUBJECT, answer):
        yield


async def build_response(search: KnowledgeSearch, request: SearchRequest) -> bytes:
    """Return the response to a search, also if it fails."""
    try:
        result = await search.search(request)
    except Refused as error:
        failure = SearchFailure(
            what=error.code, detail=error.detail, is_refused=True, field=error.field, fix=error.fix
        )
        return _RESPONSE.dump_json(SearchResponse(failure=failure))
    except Unavailable as error:
        failure = SearchFailure(what=error.what, detail=error.detail)
        return _RESPONSE.dump_json(SearchResponse(failure=failure))
    except Exception as error:  # noqa: BLE001 - whatever it is, the search needs an answer
        # The message of the exception may repeat the query, so only its frames are logged.
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("knowledge-search-failed", error=type(error).__name__, frames=frames)
        detail = f"a projector failed with {type(error).__name__}: see its log"
        failure = SearchFailure(what="knowledge-index", detail=detail)
        return _RESPONSE.dump_json(SearchResponse(failure=failure))
    while True:
        response = _RESPONSE.dump_json(SearchResponse(result))
        if len(response) <= _RESPONSE_BYTES or not result.hits:
            return response
        result = replace(result, hits=result.hits[:-1])
