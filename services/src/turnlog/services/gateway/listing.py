from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.storable import MAX_INT, checked_text
from turnlog.projections.store.listing import PAGE, Wanted
from turnlog.projections.store.listing import sessions as listed
from turnlog.projections.store.rows import SessionRow
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.freshness import read_up_to
from turnlog.services.gateway.moments import in_utc
from turnlog.services.gateway.payloads.moving import DIGEST
from turnlog.services.gateway.payloads.sessions import ListedSession, OriginView, SessionPage

router = APIRouter()

ATTRIBUTE = "attribute."
"""The prefix of query parameters that filter by an attribute."""


class Filter(BaseModel):
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
    digest: Annotated[str, Field(pattern=DIGEST)] | None = None
    """The digest of a blueprint, cartridge, memory policy or prompt file they are pinned to; see
    `/v1/pins`.
    """
    open: bool | None = None
    """Whether the session is not closed."""
    redacted: bool | None = None
    """Whether a reply of the session was redacted."""
    limit: Annotated[int, Field(ge=1, le=500)] = PAGE
    """The maximum number of sessions in a page."""
    before: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """The `next` of the previous page."""
    min_sequence: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}:[1-9][0-9]{0,14}$")] | None
    ) = None
    """`SESSION:SEQUENCE`: wait until the read models contain this event."""

    def wanted(self) -> Wanted:
        """Return the query for the read models.

        Raises `Refused` for text that cannot be stored and for unknown parameters.
        """
        for name in ("q", "blueprint", "origin"):
            checked_text(getattr(self, name) or "", name)
        extra: dict[str, str] = self.model_extra or {}
        attributes = dict(_attribute(name, value) for name, value in extra.items())
        since = in_utc(self.since, "since") if self.since else None
        return Wanted(
            self.q,
            self.blueprint,
            attributes,
            since,
            self.redacted,
            self.origin,
            self.digest,
            self.open,
        )


def _attribute(name: str, value: str) -> tuple[str, str]:
    if not name.startswith(ATTRIBUTE):
        near = instead_of(name[:80], (*Filter.model_fields, f"{ATTRIBUTE}NAME"))
        raise Refused("invalid", "no such parameter", field=name[:80], fix=near)
    checked_text(name, "query")
    return name.removeprefix(ATTRIBUTE), checked_text(value, name[:80])


@router.get("/v1/sessions", summary="List sessions")
async def list_sessions(
    tenant: Tenant, desk: AtDesk, asked: Annotated[Filter, Query()]
) -> SessionPage:
    """Return sessions, newest first; `attribute.NAME=VALUE` filters by an attribute."""
    wanted = asked.wanted()
    if asked.min_sequence is not None:
        session, _, sequence = asked.min_sequence.partition(":")
        state = await desk.sessions.load(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="min_sequence")
        await read_up_to(desk, state, int(sequence))
    async with desk.store.reading() as connection:
        page = await listed(connection, tenant, wanted, limit=asked.limit, before=asked.before)
    after = None if page.before is None else str(page.before)
    return SessionPage(sessions=tuple(_listed(row) for row in page.sessions), next=after)


def _listed(row: SessionRow) -> ListedSession:
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
        origin=_origin(row),
    )


def _origin(row: SessionRow) -> OriginView | None:
    if row.origin_kind is None:
        return None
    facts = {"kind": row.origin_kind, "session": row.origin_session}
    return OriginView.model_validate({**facts, "sequence": row.origin_sequence})
