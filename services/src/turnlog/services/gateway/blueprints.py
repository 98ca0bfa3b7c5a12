"""Routes for blueprints: the list, the schemas, the pinned versions, and a move to a new version.

The blueprint routes show the present content of the files; a session runs with the content at its
opening or its last move.
"""

from __future__ import annotations

from fastapi import APIRouter

from turnlog.projections.blueprint.faults import FaultyBlueprint
from turnlog.projections.blueprint.schema import Blueprint, blueprint_digest
from turnlog.projections.blueprint.values import schema_of
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.payloads.service import (
    BlueprintForms,
    BlueprintList,
    BlueprintView,
    FaultyView,
)

router = APIRouter()


@router.get("/v1/blueprints", summary="List blueprints")
async def list_blueprints(tenant: Tenant, desk: AtDesk) -> BlueprintList:
    """List the blueprints; those that cannot be loaded are listed separately."""
    del tenant
    usable: list[BlueprintView] = []
    faulty: list[FaultyView] = []
    for name in desk.library.names():
        try:
            usable.append(_view(desk.library.get(name)))
        except FaultyBlueprint as fault:
            faulty.append(FaultyView(blueprint=name, detail=fault.detail))
    return BlueprintList(blueprints=tuple(usable), faulty=tuple(faulty))


@router.get("/v1/blueprints/{blueprint}", summary="Show a blueprint")
async def show_blueprint(blueprint: str, tenant: Tenant, desk: AtDesk) -> BlueprintForms:
    """Return a blueprint with the JSON Schemas of its attributes and inputs."""
    del tenant
    found = desk.library.get(blueprint)
    return BlueprintForms(
        **_view(found).model_dump(),
        attributes=schema_of(found.attributes),
        inputs=schema_of(found.inputs),
    )


def _view(blueprint: Blueprint) -> BlueprintView:
    default = blueprint.default_profile
    others = (name for name in blueprint.profiles if name != default)
    return BlueprintView(
        blueprint=blueprint.blueprint,
        version=blueprint.version,
        digest=blueprint_digest(blueprint),
        summary=blueprint.summary,
        profiles=(default, *others),
    )
