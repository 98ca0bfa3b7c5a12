"""A complete check of a blueprint folder before any session uses it.

Sessions would find these faults one at a time. The check reports them together: those of the
blueprint, of every cartridge and of the memory policy, and every name that no package registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from turnlog.events.errors import Refused, TurnlogError
from turnlog.projections.blueprint.asking import RegisteredResolver
from turnlog.projections.blueprint.cartridge import read_cartridge_source
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Remark
from turnlog.projections.blueprint.faults import Path as Place
from turnlog.projections.blueprint.ladder import Registered
from turnlog.projections.blueprint.layer import SourceLayer
from turnlog.projections.blueprint.memory_source import faults_in
from turnlog.projections.blueprint.safety import CheckRule
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.services.runtime.blueprint_files import BlueprintFiles
from turnlog.services.runtime.files import OnDisk
from turnlog.services.runtime.library import read_folder
from turnlog.services.runtime.plugins import (
    check_named,
    resolver_named,
    source_named,
    step_named,
)
from turnlog.services.runtime.prompt_files import data_text

_SLOT: Final = re.compile(r"\{[^}]*\}")


def examine(folder: Path) -> tuple[Fault, ...]:
    """Return all faults of a blueprint's folder; empty when it can be used."""
    try:
        blueprint = read_folder(folder)
    except FaultyBlueprint as faulty:
        return faulty.faults
    source = BlueprintFiles(OnDisk(folder)).source()
    remarks = (*_plugins(blueprint), *_none(folder, blueprint))
    return (
        *map(source.fault, remarks),
        *_cartridges(folder, blueprint),
        *_memory(folder, blueprint),
    )


def cartridges_in(folder: Path, blueprint: Blueprint) -> tuple[str, ...]:
    """Return the paths of all cartridges, relative to the folder."""
    if blueprint.cartridge is None:
        return ()
    found = folder.glob(_SLOT.sub("*", blueprint.cartridge.file))
    return tuple(sorted(str(file.relative_to(folder)) for file in found))


def _none(folder: Path, blueprint: Blueprint) -> Iterator[Remark]:
    spec = blueprint.cartridge
    if spec is not None and not cartridges_in(folder, blueprint):
        yield Remark(("cartridge", "file"), f"no file is like `{spec.file}`", "add one")


def _cartridges(folder: Path, blueprint: Blueprint) -> Iterator[Fault]:
    for place in cartridges_in(folder, blueprint):
        file = f"{folder.name}/{place}"
        try:
            read_cartridge_source(data_text(OnDisk(folder), place, "cartridge"), file, blueprint)
        except FaultyBlueprint as faulty:
            yield from faulty.faults
        except TurnlogError as error:
            fix = error.fix if isinstance(error, Refused) else "make it smaller"
            yield Fault(file, 1, "", str(error), fix)


def _memory(folder: Path, blueprint: Blueprint) -> Iterator[Fault]:
    """Yield faults of the memory policy, for which a session would only log a warning."""
    spec = blueprint.policies.memory
    if spec is None:
        return
    file = f"{folder.name}/{spec.file}"
    try:
        yield from faults_in(data_text(OnDisk(folder), spec.file, "policies.memory"), file)
    except Refused as refused:
        yield Fault(file, 1, "", refused.detail, "add it, or nothing is remembered")


def _plugins(blueprint: Blueprint) -> Iterator[Remark]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SourceLayer):
            yield from _loads(source_named, layer.source, ("layers", name, "source"))
    if isinstance(blueprint.resolver, RegisteredResolver):
        yield from _loads(resolver_named, blueprint.resolver.source, ("resolver", "source"))
    for name, budget in blueprint.budget.items():
        for step in budget.steps:
            if isinstance(step.rung, Registered):
                yield from _loads(step_named, step.rung.name, ("budget", name))
    for number, rule in enumerate(blueprint.policies.safety.rules):
        if isinstance(rule, CheckRule):
            path = ("policies", "safety", "rules", number, "check")
            yield from _loads(check_named, rule.check, path)


def _loads(load: Callable[[str], object], name: str, path: Place) -> Iterator[Remark]:
    try:
        load(name)
    except Refused as refused:
        yield Remark(path, refused.detail, refused.fix)
    except (ImportError, AttributeError) as error:
        yield Remark(path, f"{name} cannot be loaded: {error}", "mend the package it comes from")
