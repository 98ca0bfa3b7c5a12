"""Folders of blueprints on disk; each blueprint is a folder with its prompt files.

A blueprint is read again when its file has changed, so an edit reaches the next session; running
sessions are pinned. Reading checks everything that can be known before a session opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, instead_of
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.memory_source import ReadPolicy
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.source import BLUEPRINT_FILE
from turnlog.services.runtime.blueprint_files import BlueprintFiles
from turnlog.services.runtime.files import OnDisk
from turnlog.services.runtime.prompt_files import Found

SHIPPED: Final = Path(__file__).parents[1] / "blueprints"
"""The folder of the blueprints that come with Turnlog."""

Stamp = tuple[tuple[int, int, int], ...]
"""Inode, modification time and size of the blueprint file and of each schema beside it."""


@dataclass(slots=True)
class Library:
    """Blueprints by the name of their folder; the first of `folders` that has a name wins."""

    folders: Sequence[Path] = (SHIPPED,)
    _held: dict[Path, tuple[Stamp, Blueprint]] = field(
        default_factory=dict[Path, tuple[Stamp, Blueprint]], init=False
    )

    def _folders(self) -> dict[str, Path]:
        """Find every blueprint; go through the places in reverse, so that the first one wins."""
        places = reversed(self.folders)
        files = (file for place in places for file in place.glob(f"*/{BLUEPRINT_FILE}"))
        return {file.parent.name: file.parent for file in files}

    def names(self) -> tuple[str, ...]:
        """Return the names of all blueprints, faulty ones included."""
        return tuple(sorted(self._folders()))

    def folder_of(self, name: str) -> Path:
        """Return a blueprint's folder; raise `Refused` with the most similar name."""
        folders = self._folders()
        if name not in folders:
            detail, fix = f"there is no blueprint {name[:80]!r}", instead_of(name[:80], folders)
            raise Refused("unknown-blueprint", detail, field="blueprint", fix=fix)
        return folders[name]

    def get(self, name: str) -> Blueprint:
        """Return a blueprint as its file is now; raise `FaultyBlueprint` with all its faults."""
        folder = self.folder_of(name)
        stamp = _stamp(folder)
        if self._held.get(folder, (None,))[0] != stamp:
            self._held[folder] = stamp, read_folder(folder)
        return self._held[folder][1]

    def cartridge(
        self, blueprint: Blueprint, attributes: Mapping[str, JsonValue]
    ) -> Cartridge | None:
        """See `BlueprintFiles.read_cartridge`."""
        return self.files(blueprint.blueprint).cartridge(blueprint, attributes)

    def memory_policy(self, blueprint: Blueprint) -> ReadPolicy | None:
        """See `BlueprintFiles.read_memory_policy`."""
        return self.files(blueprint.blueprint).memory_policy(blueprint)

    def prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: Mapping[str, JsonValue],
    ) -> dict[str, Found]:
        """See `BlueprintFiles.read_prompt_files`."""
        files = self.files(blueprint.blueprint)
        return files.prompt_files(blueprint, layers, provider, attributes)

    def files(self, name: str) -> BlueprintFiles:
        """Return the files of a blueprint; raise `Refused` with the most similar name."""
        return BlueprintFiles(OnDisk(self.folder_of(name)))


def _stamp(folder: Path) -> Stamp:
    files = (folder / BLUEPRINT_FILE, *sorted(folder.glob("*.json")))
    stats = (file.stat() for file in files)
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def check(folder: Path) -> tuple[Fault, ...]:
    """Return the faults found while reading a blueprint's folder; empty when there are none."""
    try:
        read_folder(folder)
    except FaultyBlueprint as faulty:
        return faulty.faults
    return ()


def read_folder(folder: Path) -> Blueprint:
    """Read and check a blueprint; raise `FaultyBlueprint`."""
    return BlueprintFiles(OnDisk(folder)).blueprint()
