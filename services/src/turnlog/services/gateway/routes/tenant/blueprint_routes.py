"""Routes for blueprints: the list, the schemas, the pinned versions, and a move to a new version.

The blueprint routes show the present content of the files; a session runs with the content at its
opening or its last move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import (
    Blueprint,
    compute_blueprint_digest,
    compute_history_reach,
)
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.template_slots import find_slots
from turnlog.projections.blueprint.validation.blueprint_checks import PROVIDER_SLOT
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.blueprint.validation.input_values import (
    check_recorded_values,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import MoveBlueprint
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.rules.upgrade_rules import build_misfit
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.read.pinned_versions import list_pins
from turnlog.projections.store.read.row_types import PinnedText
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintMoveResult,
    BlueprintSchemas,
    MoveBlueprintRequest,
    PinnedTextList,
    PinnedTextView,
)
from turnlog.services.blueprints.blueprint_views import (
    create_blueprint_list,
    create_blueprint_schemas,
)
from turnlog.services.extensions.plugins import check_plugins_registered
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_identity import CallerIdentity
from turnlog.services.sessions.command_handler import CommandOutcome

router = APIRouter()


@router.get("/v1/blueprints", summary="List blueprints")
async def list_blueprints(tenant: RequestTenant, deps: Dependencies) -> BlueprintList:
    """List the blueprints; those that cannot be loaded are listed separately."""
    del tenant
    return create_blueprint_list(deps.blueprint_folders)


@router.get("/v1/blueprints/{blueprint}", summary="Show a blueprint")
async def show_blueprint(
    blueprint: str, tenant: RequestTenant, deps: Dependencies
) -> BlueprintSchemas:
    """Return a blueprint with the JSON Schemas of its attributes and inputs, and its ladders."""
    del tenant
    return create_blueprint_schemas(deps.blueprint_folders.load_offered_blueprint(blueprint))


@router.get("/v1/pins", summary="List the texts that open sessions are pinned to")
async def list_pinned_texts(
    tenant: RequestTenant,
    deps: Dependencies,
    blueprint: Annotated[str | None, Query(description="Only sessions of this blueprint")] = None,
) -> PinnedTextList:
    """Count open sessions by the texts they are pinned to, and compare these with the files."""
    blueprint_name = None if blueprint is None else check_text(blueprint, "blueprint")
    async with deps.store.open_reader() as connection:
        found = await list_pins(connection, tenant, blueprint_name)
    return PinnedTextList(pins=tuple(_create_pin_view(deps, pin) for pin in found))


def _create_pin_view(deps: GatewayDependencies, pin: PinnedText) -> PinnedTextView:
    return PinnedTextView(
        blueprint=pin.blueprint,
        what=pin.what,
        version=pin.version,
        provider=pin.provider,
        layer=pin.layer,
        path=pin.path,
        digest=pin.digest,
        sessions=pin.sessions,
        current=_is_pin_current(deps, pin),
    )


def _is_pin_current(deps: GatewayDependencies, pin: PinnedText) -> bool | None:
    """Return whether a session opened now would be pinned to this text; None when that depends."""
    try:
        if pin.what == "blueprint":
            return (
                compute_blueprint_digest(deps.blueprint_folders.load_blueprint(pin.blueprint))
                == pin.digest
            )
        if pin.path is None or pin.path.startswith("source:"):
            return None
        text = deps.blueprint_folders.open_files(pin.blueprint).files.read_text(pin.path, "path")
        unchanged = text is not None and compute_digest(text) == pin.digest
        if pin.layer is None or pin.provider is None or not unchanged:
            return unchanged
        return _is_first_prompt_file(deps, pin.blueprint, pin.layer, pin.provider, pin.digest)
    except Refused:
        return False


def _is_first_prompt_file(
    deps: GatewayDependencies, name: str, layer: str, provider: str, digest: Digest
) -> bool | None:
    """Return whether a layer resolves to this prompt file.

    None when that depends on the session.
    """
    blueprint = deps.blueprint_folders.load_blueprint(name)
    looking = list_prompt_layers(blueprint).get(layer)
    if looking is None:
        return False
    chain = blueprint.prompts.search if looking.search is None else looking.search
    if not set(find_slots("/".join((*chain, looking.file)))) <= {PROVIDER_SLOT}:
        return None
    found = deps.blueprint_folders.read_prompt_files(blueprint, {layer: looking}, provider, {})
    return layer in found and compute_digest(found[layer][1]) == digest


@router.post(
    "/v1/sessions/{session}/blueprint", summary="Move a session to another blueprint version"
)
async def move_blueprint(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: MoveBlueprintRequest | None = None,
) -> BlueprintMoveResult:
    """Move a session to the present version of its blueprint's files, from its next call on.

    The files are read from disk and not from the request. They are checked against the session and
    pinned before the event is appended; the next call pins prompt files, as after opening.
    """
    request = form or MoveBlueprintRequest()

    async def choose(state: SessionState | None) -> MoveBlueprint:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return await _create_move_command(deps, state, request.digest)

    outcome = await deps.command_handler.handle(
        caller.tenant, session, choose, caller.author, caller.create_command_key(request)
    )
    sequence = outcome.memo.sequence if outcome.memo else outcome.state.head.sequence
    blueprint = await _load_moved_blueprint(deps, outcome, sequence)
    set_etag(response, sequence)
    return BlueprintMoveResult(
        session=session,
        sequence=sequence,
        moved=bool(outcome.events or outcome.memo),
        blueprint=blueprint.name,
        version=blueprint.version,
        digest=blueprint.digest,
    )


async def _load_moved_blueprint(
    deps: GatewayDependencies, done: CommandOutcome, sequence: int
) -> BlueprintRef:
    """Return the version it was moved to; of the first request when it was repeated."""
    state = done.state
    if done.memo is None:
        return state.blueprint
    moved = (await deps.time_travel.load_event(state.tenant, state.session, sequence)).event
    return moved.blueprint if isinstance(moved, BlueprintMoved) else state.blueprint


async def _create_move_command(
    deps: GatewayDependencies, state: SessionState, expected: Digest | None
) -> MoveBlueprint:
    blueprint = deps.blueprint_folders.load_blueprint(state.blueprint.name)
    check_plugins_registered(blueprint)
    if expected not in {None, compute_blueprint_digest(blueprint)}:
        detail = f"the files are version {blueprint.version}, {compute_blueprint_digest(blueprint)}"
        fix = "read the blueprint, then send its digest"
        raise Refused("blueprint-changed", detail, field="digest", fix=fix)
    leaving = await deps.blueprints.load_material(state)
    attributes, cartridge = _convert_attributes(
        deps, leaving.blueprint, blueprint, state.attributes
    )
    policy = deps.blueprint_folders.read_memory_policy(blueprint)
    material = SessionMaterial(blueprint, cartridge or {}, policy.policy if policy else None)
    pin, tenant = deps.blueprints, state.tenant
    return MoveBlueprint(
        await pin.store_blueprint(tenant, blueprint),
        compute_history_reach(blueprint),
        attributes,
        blueprint.profiles,
        blueprint.allowed_models,
        leaving.phases,
        material.phases,
        None if cartridge is None else await pin.store_cartridge(tenant, cartridge),
        await pin.store_memory_policy(tenant, policy.policy) if policy else None,
        policy.warnings if policy else (),
        stale=_has_stale_prompts(deps, blueprint, state, attributes),
    )


def _convert_attributes(
    deps: GatewayDependencies,
    leaving: Blueprint,
    blueprint: Blueprint,
    attributes: Mapping[str, JsonValue],
) -> tuple[dict[str, JsonValue], Cartridge | None]:
    """Return the converted attributes and their cartridge.

    Raises `Refused` when they do not fit.
    """
    try:
        attributes = check_recorded_values(
            leaving.attributes, blueprint.attributes, attributes, "attributes"
        )
        return attributes, deps.blueprint_folders.read_cartridge(blueprint, attributes)
    except FaultyBlueprint:
        raise
    except Refused as refused:
        raise build_misfit(refused.detail, refused.field or "attributes", refused.fix) from None


def _has_stale_prompts(
    deps: GatewayDependencies,
    blueprint: Blueprint,
    state: SessionState,
    attributes: Mapping[str, JsonValue],
) -> bool:
    """Return whether prompt files differ from the pinned ones.

    Raises `Refused` when a required file is missing.
    """
    layers = list_prompt_layers(blueprint)
    files = deps.blueprint_folders.open_files(blueprint.blueprint)
    known = files.list_providers(blueprint, layers, attributes)
    stale = False
    for provider in (*state.prompts, *(each for each in known if each not in state.prompts)):
        pinned = find_pinned_files(state.prompts, provider)
        if pinned is None:
            continue
        found = files.read_prompt_files(blueprint, layers, provider, attributes)
        now = {name: compute_digest(text) for name, (_, text) in found.items()}
        was = {n: file.digest for n, file in pinned.items() if not file.path.startswith("source:")}
        stale = stale or now != was
    return stale
