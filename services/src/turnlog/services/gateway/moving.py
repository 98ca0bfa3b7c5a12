from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of
from turnlog.events.errors import Refused
from turnlog.events.session import BlueprintMoved, BlueprintRef
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.crosschecks import PROVIDER
from turnlog.projections.blueprint.faults import FaultyBlueprint
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.schema import Blueprint, blueprint_digest, reach
from turnlog.projections.blueprint.slots import slots_in
from turnlog.projections.blueprint.storable import checked_text
from turnlog.projections.blueprint.values import carried_over
from turnlog.projections.session.commands import MoveBlueprint
from turnlog.projections.session.moving import misfit
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.pins import Pin, pins
from turnlog.projections.window.material import Material
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.moving import Moved, MoveForm, PinList, PinView
from turnlog.services.runtime.plugins import check_plugins
from turnlog.services.runtime.sessions import Done

router = APIRouter()


@router.get("/v1/pins", summary="What open sessions are pinned to")
async def list_pins(
    tenant: Tenant,
    desk: AtDesk,
    blueprint: Annotated[str | None, Query(description="Of this blueprint only")] = None,
) -> PinList:
    """Count open sessions by the texts they are pinned to, and compare these with the files."""
    wanted = None if blueprint is None else checked_text(blueprint, "blueprint")
    async with desk.store.reading() as connection:
        found = await pins(connection, tenant, wanted)
    return PinList(pins=tuple(_view(desk, pin) for pin in found))


def _view(desk: Desk, pin: Pin) -> PinView:
    return PinView(
        blueprint=pin.blueprint,
        what=pin.what,
        version=pin.version,
        provider=pin.provider,
        layer=pin.layer,
        path=pin.path,
        digest=pin.digest,
        sessions=pin.sessions,
        current=_current(desk, pin),
    )


def _current(desk: Desk, pin: Pin) -> bool | None:
    """Return whether a session opened now would be pinned to this text; None when that depends."""
    try:
        if pin.what == "blueprint":
            return blueprint_digest(desk.library.get(pin.blueprint)) == pin.digest
        if pin.path is None or pin.path.startswith("source:"):
            return None
        text = desk.library.files(pin.blueprint).files.text(pin.path, "path")
        unchanged = text is not None and digest_of(text) == pin.digest
        if pin.layer is None or pin.provider is None or not unchanged:
            return unchanged
        return _found_first(desk, pin.blueprint, pin.layer, pin.provider, pin.digest)
    except Refused:
        return False


def _found_first(desk: Desk, name: str, layer: str, provider: str, digest: Digest) -> bool | None:
    """Return whether a layer resolves to this prompt file; None when that depends on the session.
    """
    blueprint = desk.library.get(name)
    looking = prompt_layers(blueprint).get(layer)
    if looking is None:
        return False
    chain = blueprint.prompts.search if looking.search is None else looking.search
    if not set(slots_in("/".join((*chain, looking.file)))) <= {PROVIDER}:
        return None
    found = desk.library.prompt_files(blueprint, {layer: looking}, provider, {})
    return layer in found and digest_of(found[layer][1]) == digest


@router.post("/v1/sessions/{session}/blueprint", summary="Move to another version")
async def move_blueprint(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: MoveForm | None = None
) -> Moved:
    """Move a session to the present version of its blueprint's files, from its next call on.

    The files are read from disk and not from the request. They are checked against the session and
    pinned before the event is appended; the next call pins prompt files, as after opening.
    """
    given = form or MoveForm()

    async def choose(state: SessionState | None) -> MoveBlueprint:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return await _move(desk, state, given.digest)

    done = await desk.sessions.act(asked.tenant, session, choose, asked.by, asked.command(given))
    sequence = done.memo.sequence if done.memo else done.state.head.sequence
    blueprint = await _moved_to(desk, done, sequence)
    stamp(response, sequence)
    return Moved(
        session=session,
        sequence=sequence,
        moved=bool(done.events or done.memo),
        blueprint=blueprint.name,
        version=blueprint.version,
        digest=blueprint.digest,
    )


async def _moved_to(desk: Desk, done: Done, sequence: int) -> BlueprintRef:
    """Return the version it was moved to; of the first request when it was repeated."""
    state = done.state
    if done.memo is None:
        return state.blueprint
    moved = (await desk.past.event(state.tenant, state.session, sequence)).event
    return moved.blueprint if isinstance(moved, BlueprintMoved) else state.blueprint


async def _move(desk: Desk, state: SessionState, expected: Digest | None) -> MoveBlueprint:
    blueprint = desk.library.get(state.blueprint.name)
    check_plugins(blueprint)
    if expected not in {None, blueprint_digest(blueprint)}:
        detail = f"the files are version {blueprint.version}, {blueprint_digest(blueprint)}"
        fix = "look at it, then ask again"
        raise Refused("blueprint-changed", detail, field="digest", fix=fix)
    leaving = await desk.blueprints.load(state)
    attributes, cartridge = _read(desk, leaving.blueprint, blueprint, state.attributes)
    policy = desk.library.memory_policy(blueprint)
    material = Material(blueprint, cartridge or {}, policy.policy if policy else None)
    pin, tenant = desk.blueprints, state.tenant
    return MoveBlueprint(
        await pin.pin(tenant, blueprint),
        reach(blueprint),
        attributes,
        blueprint.profiles,
        leaving.phases,
        material.phases,
        None if cartridge is None else await pin.pin_cartridge(tenant, cartridge),
        await pin.pin_memory(tenant, policy.policy) if policy else None,
        policy.warnings if policy else (),
        stale=_stale(desk, blueprint, state, attributes),
    )


def _read(
    desk: Desk, leaving: Blueprint, blueprint: Blueprint, had: Mapping[str, JsonValue]
) -> tuple[dict[str, JsonValue], Cartridge | None]:
    """Return the converted attributes and their cartridge; raises `Refused` when they do not fit.
    """
    try:
        attributes = carried_over(leaving.attributes, blueprint.attributes, had, "attributes")
        return attributes, desk.library.cartridge(blueprint, attributes)
    except FaultyBlueprint:
        raise
    except Refused as refused:
        raise misfit(refused.detail, refused.field or "attributes", refused.fix) from None


def _stale(
    desk: Desk, blueprint: Blueprint, state: SessionState, attributes: Mapping[str, JsonValue]
) -> bool:
    """Return whether prompt files differ from the pinned ones.

    Raises `Refused` when a required file is missing.
    """
    layers = prompt_layers(blueprint)
    stale = False
    for provider, pinned in state.prompts.items():
        found = desk.library.prompt_files(blueprint, layers, provider, attributes)
        now = {name: digest_of(text) for name, (_, text) in found.items()}
        was = {n: file.digest for n, file in pinned.items() if not file.path.startswith("source:")}
        stale = stale or now != was
    return stale
