"""A session over HTTP: it is opened by a blueprint, and shown as its own log tells it."""

from __future__ import annotations

import structlog
from fastapi import APIRouter, Response

from turnlog.events.errors import Refused
from turnlog.events.ids import checked_id
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.blueprint.values import checked_values
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.asked import OpenForm
from turnlog.services.gateway.payloads.sessions import (
    ChoiceView,
    Opened,
    OpenTurnView,
    SessionView,
)
from turnlog.services.runtime.plugins import check_plugins

router = APIRouter()

_log = structlog.get_logger("turnlog.gateway")


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
    check_plugins(blueprint)
    profile = _profile(blueprint, form.profile)
    attributes = checked_values(blueprint.attributes, form.attributes, "attributes")
    cartridge = desk.library.cartridge(blueprint, attributes)
    material = Material(blueprint, cartridge or {})
    for level in material.unknown_context:
        _log.warning("context-unknown", context=level, blueprint=blueprint.blueprint)
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
