"""Routes for sessions: open one by id or key, show one, list them, and fork one.

The list comes from the read models; everything else comes from the session's own log.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.session_payloads import ForkedSession, OpenedSession, SessionPage, SessionView
from turnlog.contract.session_requests import ForkSessionRequest, OpenSessionRequest
from turnlog.contract.value_names import SessionOrder
from turnlog.projections.store.read.session_queries import SESSION_PAGE_SIZE
from turnlog.services.gateway.permission_checks import narrow_to_own, require_session_reach
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import AtSequence
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestPrincipal, RequestTenant
from turnlog.services.http.session_filter import ATTRIBUTE_FILTER, SessionFilter
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


class SessionListQuery(SessionFilter):
    """The query parameters of the session list."""

    limit: Annotated[int, Field(ge=1, le=500)] = SESSION_PAGE_SIZE
    """The maximum number of sessions in a page."""
    order: SessionOrder = "opened"
    """What comes first: the latest opened, the latest active (`last`), the nearest to its budget
    (`near`), the dearest (`cost`), or the one with most failed turns (`failed`).
    """
    before: Annotated[str, Field(max_length=60)] | None = None
    """The `next` of the previous page."""
    min_sequence: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}:[1-9][0-9]{0,14}$")] | None
    ) = None
    """`SESSION:SEQUENCE`: wait until the read models contain this event."""

    def parse_awaited(self) -> tuple[str, int] | None:
        """Return the session and the sequence that the read models are to contain, or None."""
        if self.min_sequence is None:
            return None
        session, _, sequence = self.min_sequence.partition(":")
        return session, int(sequence)


@router.get(
    api_paths.SESSIONS,
    summary="List sessions",
    openapi_extra={"parameters": [ATTRIBUTE_FILTER]},
)
async def list_sessions(
    request: Request,
    principal: RequestPrincipal,
    sessions: Sessions,
    query: Annotated[SessionListQuery, Query()],
) -> SessionPage:
    """Return sessions, newest first or in another order."""
    if (awaited := query.parse_awaited()) is not None:
        await require_session_reach(request, awaited[0])
    return await sessions.list_sessions(
        principal.tenant,
        narrow_to_own(principal, query.create_query()),
        order=query.order,
        limit=query.limit,
        before=query.before,
        awaited=awaited,
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
