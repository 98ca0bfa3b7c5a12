"""Sessions over HTTP: one is opened, one is shown, many are listed."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from turnlog.events.errors import Refused
from turnlog.events.ids import checked_id
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.blueprint.storable import MAX_INT, checked_text
from turnlog.projections.blueprint.values import checked_values
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.listing import PAGE, Wanted
from turnlog.projections.store.listing import sessions as listed
from turnlog.projections.store.rows import SessionRow
from turnlog.projections.window.material import Material
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.freshness import read_up_to
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.asked import OpenForm
from turnlog.services.gateway.payloads.sessions import (
    ChoiceView,
    ListedSession,
    Opened,
    OpenTurnView,
    SessionPage,
    SessionView,
)

router = APIRouter()

_log = structlog.get_logger("turnlog.gateway")

ATTRIBUTE = "attribute."
"""Prefix of the parameters that filter by an attribute."""


@router.post("/v1/sessions", status_code=201, summary="Open a session")
async def open_session(asked: AskedBy, desk: AtDesk, form: OpenForm, response: Response) -> Opened:
    """Open a session by a blueprint; under a key and without an id, a retry finds the first one."""
    made = asked.session_id() or desk.sessions.new_id()
    session = checked_id(made if form.session is None else form.session, "session")

    async def choose(state: SessionState | None) -> OpenSession:
        del state
        return await _chosen(desk, asked.tenant, form)

    command = asked.command(form)
    done = await desk.sessions.act(asked.tenant, session, choose, asked.by, command)
    sequence = done.state.opened.sequence
    stamp(response, sequence)
    response.headers["Location"] = f"/v1/sessions/{session}"
    blueprint = done.state.blueprint
    return Opened(
        session=session, blueprint=blueprint.name, digest=blueprint.digest, sequence=sequence
    )


async def _chosen(desk: Desk, tenant: str, form: OpenForm) -> OpenSession:
    blueprint = desk.library.get(form.blueprint)
    profile = _profile(blueprint, form.profile)
    attributes = checked_values(blueprint.attributes, form.attributes, "attributes")
    cartridge = desk.library.cartridge(blueprint, attributes)
    material = Material(blueprint, cartridge or {})
    for level in material.unknown_context:
        _log.warning("context-unknown", level=level, blueprint=blueprint.blueprint)
    return OpenSession(
        await desk.blueprints.pin(tenant, blueprint),
        profile,
        reach(blueprint),
        attributes,
        None if cartridge is None else await desk.blueprints.pin_cartridge(tenant, cartridge),
        material.phases,
    )


def _profile(blueprint: Blueprint, name: str | None) -> str:
    if name is None:
        return blueprint.default_profile
    if name not in blueprint.profiles:
        fix = instead_of(name, blueprint.profiles)
        raise Refused("unknown-profile", f"there is no {name!r}", field="profile", fix=fix)
    return name


@router.get("/v1/sessions/{session}", summary="Show a session")
async def show_session(
    session: str, tenant: Tenant, desk: AtDesk, response: Response
) -> SessionView:
    """Tell how a session stands, by its own log."""
    state = await desk.sessions.load_open(tenant, session)
    stamp(response, state.head.sequence)
    return _view(state)


def _view(state: SessionState) -> SessionView:
    opened = state.open
    return SessionView(
        session=state.session,
        sequence=state.head.sequence,
        blueprint=state.blueprint.name,
        version=state.blueprint.version,
        digest=state.blueprint.digest,
        profile=state.profile,
        attributes=state.attributes,
        closed=state.closed,
        turns=state.submitted,
        completed=state.completed,
        open=OpenTurnView.model_validate(opened) if opened else None,
        waiting=tuple(waiting.turn for waiting in state.waiting),
        phase=state.phase,
        exchanges=state.exchanges,
        choices=tuple(ChoiceView.model_validate(made) for made in state.choices),
    )


class Filter(BaseModel):
    """Which sessions; a parameter nobody knows is refused."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    q: Annotated[str, Field(max_length=200)] | None = None
    """Stands in the id or the title."""
    blueprint: str | None = None
    """Made from this blueprint."""
    since: AwareDatetime | None = None
    """Something happened in it at or after this moment."""
    redacted: bool | None = None
    """Whether a reply of it was withheld."""
    limit: Annotated[int, Field(ge=1, le=500)] = PAGE
    """Sessions a page has."""
    before: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """What the page ahead gave as `next`."""
    min_sequence: Annotated[str, Field(pattern=r"^[^:]{1,64}:[0-9]{1,15}$")] | None = None
    """`SESSION:SEQUENCE`: wait until the read models hold this event."""

    def wanted(self) -> Wanted:
        """Put the question to the read models; refuses what neither filters nor can be asked."""
        for name in ("q", "blueprint"):
            checked_text(getattr(self, name) or "", name)
        extra: dict[str, object] = self.model_extra or {}
        attributes = dict(_attribute(name, value) for name, value in extra.items())
        return Wanted(self.q, self.blueprint, attributes, self.since, self.redacted)


def _attribute(name: str, value: object) -> tuple[str, str]:
    if not name.startswith(ATTRIBUTE):
        near = instead_of(name[:80], (*Filter.model_fields, f"{ATTRIBUTE}NAME"))
        raise Refused("invalid", "no such parameter", field=name[:80], fix=near)
    if not isinstance(value, str):
        raise Refused("invalid", "it is given twice", field=name[:80], fix="give it once")
    checked_text(name, "query")
    return name.removeprefix(ATTRIBUTE), checked_text(value, name[:80])


@router.get("/v1/sessions", summary="List sessions")
async def list_sessions(
    tenant: Tenant, desk: AtDesk, asked: Annotated[Filter, Query()]
) -> SessionPage:
    """List sessions, newest first; `attribute.NAME=VALUE` filters by an attribute."""
    wanted = asked.wanted()
    if asked.min_sequence is not None:
        session, _, sequence = asked.min_sequence.partition(":")
        await read_up_to(desk, await desk.sessions.load_open(tenant, session), int(sequence))
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
    )
