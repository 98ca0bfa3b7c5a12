"""What is shown of the blueprints in the folders of an installation: the responses about them."""

from __future__ import annotations

from turnlog.projections.blueprint.ladder_words import describe_ladders
from turnlog.projections.blueprint.schema.blueprint_model import (
    Blueprint,
    compute_blueprint_digest,
)
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.blueprint.validation.input_values import build_values_schema
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintSchemas,
    BlueprintView,
    FaultyBlueprintView,
)
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders


def create_blueprint_list(folders: BlueprintFolders) -> BlueprintList:
    """Return the blueprints that a session can be opened with, faulty ones apart. Blocks."""
    usable: list[BlueprintView] = []
    faulty: list[FaultyBlueprintView] = []
    for name in folders.list_names():
        try:
            usable.append(create_blueprint_view(folders.load_blueprint(name)))
        except FaultyBlueprint as fault:
            faulty.append(FaultyBlueprintView(blueprint=name, detail=fault.detail))
    return BlueprintList(blueprints=tuple(usable), faulty=tuple(faulty))


def create_blueprint_view(blueprint: Blueprint) -> BlueprintView:
    """Return what is shown of a blueprint, its default profile first."""
    default = blueprint.default_profile
    others = (name for name in blueprint.profiles if name != default)
    return BlueprintView(
        blueprint=blueprint.blueprint,
        version=blueprint.version,
        digest=compute_blueprint_digest(blueprint),
        summary=blueprint.summary,
        profiles=(default, *others),
    )


def create_blueprint_schemas(blueprint: Blueprint) -> BlueprintSchemas:
    """Return what is shown of a blueprint, with the schemas of its values and its ladders."""
    return BlueprintSchemas(
        **create_blueprint_view(blueprint).model_dump(),
        attributes=build_values_schema(blueprint.attributes),
        inputs=build_values_schema(blueprint.inputs),
        ladders=describe_ladders(blueprint),
    )
