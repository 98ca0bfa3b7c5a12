"""Routes for blueprints: the list, the schemas, the pinned versions, and a move to a new version.

The blueprint routes show the present content of the files; a session runs with the content at its
opening or its last move.
"""

from __future__ import annotations

from fastapi import APIRouter

from turnlog.projections.blueprint.faults import FaultyBlueprint
from turnlog.projections.blueprint.schema import Blueprint, compute_blueprint_digest
from turnlog.projections.blueprint.values import build_values_schema
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.payloads.service import (
    BlueprintSchemas,
    BlueprintList,
    BlueprintView,
    FaultyBlueprintView,
)

blueprint_router = APIRouter()


@blueprint_router.get("/v1/blueprints", summary="List blueprints")
async def list_blueprints(tenant: RequestTenant, deps: Dependencies) -> BlueprintList:
    """List the blueprints; those that cannot be loaded are listed separately."""
    del tenant
    usable: list[BlueprintView] = []
    faulty: list[FaultyBlueprintView] = []
    for name in deps.blueprint_folders.list_names():
        try:
            usable.append(_create_blueprint_view(deps.blueprint_folders.load_blueprint(name)))
        except FaultyBlueprint as fault:
            faulty.append(FaultyBlueprintView(blueprint=name, detail=fault.detail))
    return BlueprintList(blueprints=tuple(usable), faulty=tuple(faulty))


@blueprint_router.get("/v1/blueprints/{blueprint}", summary="Show a blueprint")
async def show_blueprint(blueprint: str, tenant: RequestTenant, deps: Dependencies) -> BlueprintSchemas:
    """Return a blueprint with the JSON Schemas of its attributes and inputs."""
    del tenant
    found = deps.blueprint_folders.load_blueprint(blueprint)
    return BlueprintSchemas(
        **_create_blueprint_view(found).model_dump(),
        attributes=build_values_schema(found.attributes),
        inputs=build_values_schema(found.inputs),
    )


def _create_blueprint_view(blueprint: Blueprint) -> BlueprintView:
    default = blueprint.default_profile
    others = (name for name in blueprint.profiles if name != default)
    return BlueprintView(
        blueprint=blueprint.blueprint,
        version=blueprint.version,
        digest=compute_blueprint_digest(blueprint),
        summary=blueprint.summary,
        profiles=(default, *others),
    )
