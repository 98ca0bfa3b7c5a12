"""A complete check of a blueprint folder before any session uses it.

Sessions would find these faults one at a time. The check reports them together: those of the
blueprint, of every cartridge and of the memory policy, and every name that no package registers. It
warns of what only some providers refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused, TurnlogError
from turnlog.projections.blueprint.loading.cartridge_source import load_cartridge_source
from turnlog.projections.blueprint.loading.memory_policy_source import find_memory_policy_faults
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import RegisteredStep
from turnlog.projections.blueprint.schema.layer_specs import SourceLayer
from turnlog.projections.blueprint.schema.lookups.resolver_specs import RegisteredResolverSpec
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import SelectionSettings
from turnlog.projections.blueprint.schema.policy_specs import SafetyCheckRule
from turnlog.projections.blueprint.schema.tool_specs import FunctionServerSpec
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    FaultyBlueprint,
    find_near_word,
)
from turnlog.projections.blueprint.validation.blueprint_faults import DocumentPath as Place
from turnlog.projections.structured_output.schema_words import SCHEMA_WORDS, iterate_unknown_words
from turnlog.services.blueprints.blueprint_files import BlueprintFiles, read_data_file
from turnlog.services.blueprints.blueprint_folders import read_folder
from turnlog.services.blueprints.folder_files import DiskFolder
from turnlog.services.extensions.plugins import (
    load_check,
    load_reranker,
    load_resolver,
    load_source,
    load_step,
    load_tool,
)

ATTRIBUTE_FIELD: Final = "attributes."
"""The field of a refusal that concerns an attribute begins so."""

_SLOT_PATTERN: Final = re.compile(r"\{[^}]*\}")


def check_blueprint_folder(
    folder: Path, configured: ConfiguredServers | None = None
) -> tuple[BlueprintFault, ...]:
    """Return all faults of a blueprint's folder; without errors among them it can be used."""
    try:
        blueprint = read_folder(folder, configured)
    except FaultyBlueprint as faulty:
        return faulty.faults
    source = BlueprintFiles(DiskFolder(folder), configured).read_blueprint_source()
    findings = (
        *_check_plugins(blueprint),
        *_check_cartridge_exists(folder, blueprint),
        *_check_choice_files(folder, blueprint),
    )
    warnings = (*_find_missing_choices(folder, blueprint), *_find_unknown_schema_words(blueprint))
    return (
        *map(source.build_fault, findings),
        *_check_cartridges(folder, blueprint),
        *_check_memory_policy(folder, blueprint),
        *source.list_warnings(warnings),
    )


def list_cartridges(folder: Path, blueprint: Blueprint) -> tuple[str, ...]:
    """Return the paths of all cartridges, relative to the folder."""
    if blueprint.cartridge is None:
        return ()
    found = folder.glob(_SLOT_PATTERN.sub("*", blueprint.cartridge.file))
    return tuple(sorted(str(file.relative_to(folder)) for file in found))


def _check_cartridge_exists(folder: Path, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    spec = blueprint.cartridge
    if spec is not None and not list_cartridges(folder, blueprint):
        yield BlueprintFinding(("cartridge", "file"), f"no file matches `{spec.file}`", "add one")


def _check_choice_files(folder: Path, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    """Yield a required prompt file that no value of its attributes names."""
    refused = _refuse_choice(folder, blueprint, {})
    if refused is not None and not (refused.field or "").startswith(ATTRIBUTE_FIELD):
        path = tuple((refused.field or "").split("."))
        yield BlueprintFinding(path, f"{refused.detail}: no file matches", "add one")


def _find_missing_choices(folder: Path, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    """Yield allowed values of attributes for which a required prompt file is missing."""
    given = {
        name: spec.enum[0] if spec.enum else spec.default
        for name, spec in blueprint.attributes.items()
        if spec.enum or spec.default is not None
    }
    for name, spec in blueprint.attributes.items():
        for value in spec.enum or ():
            refused = _refuse_choice(folder, blueprint, given | {name: value})
            if refused is not None and refused.field == f"{ATTRIBUTE_FIELD}{name}":
                path = ("attributes", name, "enum")
                yield BlueprintFinding(path, refused.detail, refused.fix)


def _refuse_choice(
    folder: Path, blueprint: Blueprint, attributes: Mapping[str, JsonValue]
) -> Refused | None:
    """Return why no session can be opened with these attributes, if a prompt file is missing."""
    try:
        BlueprintFiles(DiskFolder(folder)).check_chosen_files(blueprint, attributes)
    except Refused as refused:
        return refused
    return None


def _find_unknown_schema_words(blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    for name, call in blueprint.calls.items():
        schema = call.output.schema_ if call.output else None
        if isinstance(schema, dict):
            for word in dict.fromkeys(iterate_unknown_words(schema)):
                near = find_near_word(word, sorted(SCHEMA_WORDS))
                yield BlueprintFinding(
                    ("calls", name, "output", "schema"),
                    f"`{word}` is no word of JSON Schema and has no effect",
                    f"write `{near}`" if near else "leave it out, or begin it with `x-`",
                )


def _check_cartridges(folder: Path, blueprint: Blueprint) -> Iterator[BlueprintFault]:
    for place in list_cartridges(folder, blueprint):
        file = f"{folder.name}/{place}"
        try:
            load_cartridge_source(
                read_data_file(DiskFolder(folder), place, "cartridge"), file, blueprint
            )
        except FaultyBlueprint as faulty:
            yield from faulty.faults
        except TurnlogError as error:
            fix = error.fix if isinstance(error, Refused) else "make it smaller"
            yield BlueprintFault(file=file, line=1, path="", what=str(error), fix=fix)


def _check_memory_policy(folder: Path, blueprint: Blueprint) -> Iterator[BlueprintFault]:
    """Yield faults of the memory policy, for which a session would only log a warning."""
    spec = blueprint.policies.memory
    if spec is None:
        return
    file = f"{folder.name}/{spec.file}"
    try:
        yield from find_memory_policy_faults(
            read_data_file(DiskFolder(folder), spec.file, "policies.memory"), file
        )
    except Refused as refused:
        yield BlueprintFault(
            file=file,
            line=1,
            path="",
            what=refused.detail,
            fix="add it, or the session has no memory",
        )


def _check_plugins(blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SourceLayer):
            yield from _check_loadable(load_source, layer.source, ("layers", name, "source"))
    if isinstance(blueprint.resolver, RegisteredResolverSpec):
        yield from _check_loadable(load_resolver, blueprint.resolver.source, ("resolver", "source"))
    for name, budget in blueprint.budget.items():
        for step in budget.steps:
            if isinstance(step.action, RegisteredStep):
                yield from _check_loadable(load_step, step.action.name, ("budget", name))
    for number, rule in enumerate(blueprint.policies.safety.rules):
        if isinstance(rule, SafetyCheckRule):
            path = ("policies", "safety", "rules", number, "check")
            yield from _check_loadable(load_check, rule.check, path)
    for name, server in blueprint.tools.servers.items() if blueprint.tools else ():
        if isinstance(server, FunctionServerSpec):
            for number, function in enumerate(server.functions):
                function_path = ("tools", "servers", name, "functions", number)
                yield from _check_loadable(load_tool, function, function_path)
    for place, settings in _find_retrieval_settings(blueprint):
        if isinstance(settings.rerank, str):
            yield from _check_loadable(load_reranker, settings.rerank, (*place, "rerank"))


def _find_retrieval_settings(blueprint: Blueprint) -> Iterator[tuple[Place, SelectionSettings]]:
    for name, spec in blueprint.retrieval.items():
        yield ("retrieval", name), spec
        yield ("retrieval", name, "lock"), spec.lock
    for profile, each in blueprint.profiles.items():
        for name, settings in each.retrieval.items():
            yield ("profiles", profile, "retrieval", name), settings


def _check_loadable(
    load: Callable[[str], object], name: str, path: Place
) -> Iterator[BlueprintFinding]:
    try:
        load(name)
    except Refused as refused:
        yield BlueprintFinding(path, refused.detail, refused.fix)
    except (ImportError, AttributeError) as error:
        yield BlueprintFinding(
            path, f"{name} cannot be loaded: {error}", "fix the package that registers it"
        )
