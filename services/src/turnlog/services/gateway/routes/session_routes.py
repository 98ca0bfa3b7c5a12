"""Routes for sessions: open one by id or key, show one, list them, and fork one.

The list comes from the read models; everything else comes from the session's own log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.session_payloads import ForkedSession, OpenedSession, SessionPage, SessionView
from turnlog.contract.session_requests import ForkSessionRequest, OpenSessionRequest
from turnlog.events.content import SHA256_PATTERN
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.store.read.session_queries import SESSION_PAGE_SIZE, SessionQuery
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import AtSequence, QueryTime, convert_to_utc
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.sessions.session_forking import SessionForking
from turnlog.services.use_cases.sessions.session_opening import SessionOpening
from turnlog.services.use_cases.sessions.session_reading import SessionReading

router = APIRouter()


async def get_opening(request: Request) -> SessionOpening:
    """Return the use cases of opening sessions."""
    opening: SessionOpening = request.app.state.use_cases.opening
    return opening


async def get_sessions(request: Request) -> SessionReading:
    """Return the use cases of reading sessions."""
    sessions: SessionReading = request.app.state.use_cases.sessions
    return sessions


async def get_forking(request: Request) -> SessionForking:
    """Return the use cases of forking sessions."""
    forking: SessionForking = request.app.state.use_cases.forking
    return forking


Sessions = Annotated[SessionReading, Depends(get_sessions)]


@router.post(
    api_paths.SESSIONS,
    status_code=201,
    responses={200: {"model": OpenedSession, "description": "The open session that has this key"}},
    summary="Open a session",
)
async def open_session(
    caller: CallerIdentity,
    opening: Annotated[SessionOpening, Depends(get_opening)],
    form: OpenSessionRequest,
    response: Response,
) -> OpenedSession:
    """Open a session of a blueprint, or find one by a key that the blueprint declares.

    With an idempotency key and without an id, a retry finds the session of the first request.
    """
    done = await opening.open_session(caller.create_caller(form), form)
    response.status_code = HTTPStatus.OK if done.is_found else HTTPStatus.CREATED
    response.headers["Location"] = format_path(api_paths.SESSION, session=done.session.session)
    return tag_body(response, done.session)


@router.get(api_paths.SESSION, summary="Show a session")
async def show_session(
    session: str,
    tenant: RequestTenant,
    sessions: Sessions,
    response: Response,
    at: AtSequence = None,
) -> SessionView:
    """Return the state of a session, now or at a sequence, folded from its own log."""
    return tag_body(response, await sessions.load_session(tenant, session, at))


ATTRIBUTE_PARAMETER: Final = re.compile(
    r"attribute(?:\.(?P<dotted>.+)|\[(?P<bracketed>.+)\])", re.DOTALL
)
"""A query parameter that filters by an attribute: `attribute.NAME` or `attribute[NAME]`."""

_ATTRIBUTE_SPELLING: Final = "attribute.NAME"

ATTRIBUTE_FILTER: Final = {
    "name": "attribute",
    "in": "query",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    "example": {"language": "lt"},
    "description": (
        "Values of attributes by name, as `attribute[NAME]=VALUE`; `attribute.NAME=VALUE` is the "
        "same. A session matches if it has all of them."
    ),
}
"""How the OpenAPI document describes the filter: FastAPI has no parameter with such a style."""

MAX_ATTRIBUTE_FILTERS: Final = 32
"""How many attributes one list may filter by; a database has a limit too, some hundreds later."""


_CONDITIONS: Final = {each.name for each in fields(SessionQuery)} - {"attributes", "since"}
"""The parameters that are conditions of the query as they are."""


class SessionFilter(BaseModel):
    """The query parameters of the session list; unknown parameters are refused.

    A list that ignored an unknown filter would show too much.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    q: Annotated[str, Field(max_length=200)] | None = None
    """Text that the id or the title contains."""
    blueprint: str | None = None
    """The name of the session's blueprint."""
    since: QueryTime | None = None
    """Sessions whose latest event is at or after this time."""
    origin: str | None = None
    """The id of the session they were forked or spawned from."""
    digest: Annotated[str, Field(pattern=SHA256_PATTERN)] | None = None
    """The digest of a blueprint, cartridge, memory policy or prompt file they are pinned to; see
    `/v1/pins`.
    """
    open: bool | None = None
    """Whether the session is not closed."""
    redacted: bool | None = None
    """Whether a reply of the session was redacted."""
    profile: str | None = None
    """The current profile."""
    phase: str | None = None
    """The current phase."""
    failed: bool | None = None
    """Whether a turn of the session failed."""
    limit: Annotated[int, Field(ge=1, le=500)] = SESSION_PAGE_SIZE
    """The maximum number of sessions in a page."""
    before: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """The `next` of the previous page."""
    min_sequence: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}:[1-9][0-9]{0,14}$")] | None
    ) = None
    """`SESSION:SEQUENCE`: wait until the read models contain this event."""

    def create_query(self) -> SessionQuery:
        """Return the query for the read models.

        Raises `Refused` for text that cannot be stored and for unknown parameters.
        """
        for name in ("q", "blueprint", "origin", "profile", "phase"):
            check_text(getattr(self, name) or "", name)
        extra: dict[str, str] = self.model_extra or {}
        if len(extra) > MAX_ATTRIBUTE_FILTERS:
            detail = f"the request filters by {len(extra)} attributes"
            fix = f"filter by at most {MAX_ATTRIBUTE_FILTERS}"
            raise Refused("too-many-filters", detail, field=_ATTRIBUTE_SPELLING, fix=fix)
        attributes = _parse_attribute_filters(extra)
        since = convert_to_utc(self.since, "since") if self.since else None
        conditions = self.model_dump(include=_CONDITIONS)
        return SessionQuery(**conditions, attributes=attributes, since=since)

    def parse_awaited(self) -> tuple[str, int] | None:
        """Return the session and the sequence that the read models are to contain, or None."""
        if self.min_sequence is None:
            return None
        session, _, sequence = self.min_sequence.partition(":")
        return session, int(sequence)


def _parse_attribute_filters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the value by attribute, of parameters in either spelling."""
    attributes: dict[str, str] = {}
    for parameter, value in parameters.items():
        found = ATTRIBUTE_PARAMETER.fullmatch(parameter)
        if found is None:
            near = suggest_word(parameter[:80], (*SessionFilter.model_fields, _ATTRIBUTE_SPELLING))
            field = format_sent_name(parameter)
            raise Refused("invalid", "no such parameter", field=field, fix=near)
        name = check_text(found["dotted"] or found["bracketed"], "query")
        if name in attributes:
            detail = "the attribute is given twice"
            raise Refused("invalid", detail, field=format_sent_name(parameter), fix="send it once")
        attributes[name] = check_text(value, format_sent_name(parameter))
    return attributes


@router.get(
    api_paths.SESSIONS,
    summary="List sessions",
    openapi_extra={"parameters": [ATTRIBUTE_FILTER]},
)
async def list_sessions(
    tenant: RequestTenant, sessions: Sessions, query: Annotated[SessionFilter, Query()]
) -> SessionPage:
    """Return sessions, newest first."""
    return await sessions.list_sessions(
        tenant,
        query.create_query(),
        limit=query.limit,
        before=query.before,
        awaited=query.parse_awaited(),
    )


@router.post(api_paths.FORK, status_code=201, summary="Fork a session")
async def fork_session(
    session: str,
    caller: CallerIdentity,
    forking: Annotated[SessionForking, Depends(get_forking)],
    form: ForkSessionRequest,
    response: Response,
) -> ForkedSession:
    """Open a session with the history of this one up to a sequence; this one does not change.

    With an idempotency key and without an id, a retry finds the fork of the first request.
    """
    forked = await forking.fork_session(caller.create_caller(form), session, form)
    response.headers["Location"] = format_path(api_paths.SESSION, session=forked.session)
    return tag_body(response, forked)
