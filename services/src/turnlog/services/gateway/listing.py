from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import suggest_word
from turnlog.projections.blueprint.storable import MAX_INT, check_text
from turnlog.projections.store.listing import SESSION_PAGE_SIZE, SessionQuery
from turnlog.projections.store.listing import list_sessions as listed
from turnlog.projections.store.rows import SessionRow
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.freshness import wait_for_read_models
from turnlog.services.gateway.moments import convert_to_utc
from turnlog.services.gateway.payloads.moving import DIGEST_PATTERN
from turnlog.services.gateway.payloads.sessions import ListedSession, OriginView, SessionPage

session_list_router = APIRouter()

ATTRIBUTE_PREFIX = "attribute."
"""The prefix of query parameters that filter by an attribute."""


class SessionFilter(BaseModel):
    """The query parameters of the session list; unknown parameters are refused.

    A list that ignored an unknown filter would show too much.
    """

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    q: Annotated[str, Field(max_length=200)] | None = None
    """Text that the id or the title contains."""
    blueprint: str | None = None
    """The name of the session's blueprint."""
    since: AwareDatetime | None = None
    """Sessions whose latest event is at or after this time."""
    origin: str | None = None
    """The id of the session they were forked or spawned from."""
    digest: Annotated[str, Field(pattern=DIGEST_PATTERN)] | None = None
    """The digest of a blueprint, cartridge, memory policy or prompt file they are pinned to; see
    `/v1/pins`.
    """
    open: bool | None = None
    """Whether the session is not closed."""
    redacted: bool | None = None
    """Whether a reply of the session was redacted."""
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
        for name in ("q", "blueprint", "origin"):
            check_text(getattr(self, name) or "", name)
        extra: dict[str, str] = self.model_extra or {}
        attributes = dict(_parse_attribute_filter(name, value) for name, value in extra.items())
        since = convert_to_utc(self.since, "since") if self.since else None
        return SessionQuery(
            self.q,
            self.blueprint,
            attributes,
            since,
            self.redacted,
            self.origin,
            self.digest,
            self.open,
        )


def _parse_attribute_filter(name: str, value: str) -> tuple[str, str]:
    if not name.startswith(ATTRIBUTE_PREFIX):
        near = suggest_word(name[:80], (*SessionFilter.model_fields, f"{ATTRIBUTE_PREFIX}NAME"))
        raise Refused("invalid", "no such parameter", field=name[:80], fix=near)
    check_text(name, "query")
    return name.removeprefix(ATTRIBUTE_PREFIX), check_text(value, name[:80])


@session_list_router.get("/v1/sessions", summary="List sessions")
async def list_sessions(
    tenant: RequestTenant, deps: Dependencies, query: Annotated[SessionFilter, Query()]
) -> SessionPage:
    """Return sessions, newest first; `attribute.NAME=VALUE` filters by an attribute."""
    wanted = query.create_query()
    if query.min_sequence is not None:
        session, _, sequence = query.min_sequence.partition(":")
        state = await deps.sessions.load_state(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="min_sequence")
        await wait_for_read_models(deps, state, int(sequence))
    async with deps.store.open_reader() as connection:
        page = await listed(connection, tenant, wanted, limit=query.limit, before=query.before)
    after = None if page.before is None else str(page.before)
    return SessionPage(sessions=tuple(_create_list_item(row) for row in page.sessions), next=after)


def _create_list_item(row: SessionRow) -> ListedSession:
    return ListedSession(
        session=row.session,
        sequence=row.last_sequence,
        title=row.title,
        blueprint=row.blueprint,
        version=row.blueprint_version,
        digest=row.blueprint_digest,
        profile=row.profile,
        attributes=row.attributes,
        turns=row.turns,
        redacted=row.redacted,
        opened_at=row.opened_at,
        last_at=row.last_at,
        closed_at=row.closed_at,
        origin=_create_origin_view(row),
    )


def _create_origin_view(row: SessionRow) -> OriginView | None:
    if row.origin_kind is None:
        return None
    facts = {"kind": row.origin_kind, "session": row.origin_session}
    return OriginView.model_validate({**facts, "sequence": row.origin_sequence})
