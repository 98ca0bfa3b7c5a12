"""Folders of blueprints on disk; each blueprint is a folder with its prompt files.

A blueprint is read again when one of its YAML files or schemas has changed, so an edit reaches the
next session; running sessions are pinned. Reading checks everything that can be known before a
session opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.loading.memory_policy_source import LoadedMemoryPolicy
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import FileLayer
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
    suggest_word,
)
from turnlog.services.blueprints.blueprint_files import BlueprintFiles, FoundPromptFile
from turnlog.services.blueprints.folder_files import DiskFolder
from turnlog.services.extensions.mcp_servers_file import load_configured_servers
from turnlog.services.platform.process_settings import GatewaySettings

SHIPPED_BLUEPRINTS: Final = Path(__file__).parent / "shipped"
"""The folder of the blueprints that come with Turnlog."""

TENANTS_FOLDER: Final = "tenants"
"""The folder beneath a folder of blueprints that has those of single tenants."""

FolderStamp = tuple[tuple[int, int, int], ...]
"""Inode, modification time and size of the blueprint file and of each schema and server file."""


@dataclass(slots=True)
class BlueprintFolders:
    """Blueprints by the name of their folder; the first of `folders` that has a name wins."""

    folders: Sequence[Path] = (SHIPPED_BLUEPRINTS,)
    configured: ConfiguredServers | None = None
    """The tool servers of the operator's tools file; None if there is no such file."""
    hides_shipped: bool = False
    """Offer none of the shipped blueprints; sessions that have one go on with its files."""
    cached_blueprints: dict[Path, tuple[FolderStamp, Blueprint]] = field(
        default_factory=dict[Path, tuple[FolderStamp, Blueprint]], repr=False
    )
    """Blueprints that were read, by folder; tenants share them."""

    def open_tenant(self, tenant: str) -> BlueprintFolders:
        """Return the blueprints of a tenant: its own, and those of all tenants it has none like.

        Its own are beneath `tenants` and its name in each of the folders.
        """
        name = validate_id(tenant, "tenant")
        own = (place / TENANTS_FOLDER / name for place in self.folders)
        return replace(self, folders=(*own, *self.folders))

    def _find_folders(self) -> dict[str, Path]:
        """Find every blueprint; go through the places in reverse, so that the first one wins."""
        places = reversed(self.folders)
        files = (file for place in places for file in place.glob(f"*/{BLUEPRINT_FILE}"))
        return {file.parent.name: file.parent for file in files}

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all offered blueprints, faulty ones included."""
        found = self._find_folders().items()
        return tuple(sorted(name for name, folder in found if not self._is_hidden(folder)))

    def _is_hidden(self, folder: Path) -> bool:
        return self.hides_shipped and folder.parent == SHIPPED_BLUEPRINTS

    def is_hidden(self, name: str) -> bool:
        """Return whether there is a blueprint of this name that is not offered."""
        folder = self._find_folders().get(name)
        return folder is not None and self._is_hidden(folder)

    def find_folder(self, name: str) -> Path:
        """Return a blueprint's folder; raise `Refused` with the most similar name."""
        folders = self._find_folders()
        if name not in folders:
            raise self._create_unknown_refusal(name)
        return folders[name]

    def _create_unknown_refusal(self, name: str) -> Refused:
        names = self.list_names()
        detail, fix = (
            f"there is no blueprint {quote_sent_name(name)}",
            suggest_word(name[:80], names),
        )
        return Refused("unknown-blueprint", detail, field="blueprint", fix=fix)

    def load_offered_blueprint(self, name: str) -> Blueprint:
        """Return a blueprint for a new session; one that is hidden is refused as unknown."""
        if self.is_hidden(name):
            raise self._create_unknown_refusal(name)
        return self.load_blueprint(name)

    def load_blueprint(self, name: str) -> Blueprint:
        """Return a blueprint as its file is now; raise `FaultyBlueprint` with all its faults.

        Blocks, for a tenth of a second where a long file has changed.
        """
        folder = self.find_folder(name)
        stamp = _compute_stamp(folder)
        if self.cached_blueprints.get(folder, (None,))[0] != stamp:
            self.cached_blueprints[folder] = stamp, read_folder(folder, self.configured)
        return self.cached_blueprints[folder][1]

    def read_cartridge(
        self, blueprint: Blueprint, attributes: Mapping[str, JsonValue]
    ) -> Cartridge | None:
        """See `BlueprintFiles.read_cartridge`."""
        return self.open_files(blueprint.blueprint).read_cartridge(blueprint, attributes)

    def read_memory_policy(self, blueprint: Blueprint) -> LoadedMemoryPolicy | None:
        """See `BlueprintFiles.read_memory_policy`."""
        return self.open_files(blueprint.blueprint).read_memory_policy(blueprint)

    def read_prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: Mapping[str, JsonValue],
    ) -> dict[str, FoundPromptFile]:
        """See `BlueprintFiles.read_prompt_files`."""
        files = self.open_files(blueprint.blueprint)
        return files.read_prompt_files(blueprint, layers, provider, attributes)

    def open_files(self, name: str) -> BlueprintFiles:
        """Return the files of a blueprint; raise `Refused` with the most similar name."""
        return BlueprintFiles(DiskFolder(self.find_folder(name)), self.configured)


def create_blueprint_folders(settings: GatewaySettings) -> BlueprintFolders:
    """Return the folders that a gateway with these settings reads; raise `FaultyToolsFile`."""
    return BlueprintFolders(
        (*settings.blueprints, SHIPPED_BLUEPRINTS),
        load_configured_servers(settings.tools),
        hides_shipped=settings.shipped_blueprints == "off",
    )


def _compute_stamp(folder: Path) -> FolderStamp:
    beside = (*folder.glob("*.json"), *folder.glob("*/**/*.yaml"))
    files = (folder / BLUEPRINT_FILE, *sorted(beside))
    stats = (file.stat() for file in files)
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def list_read_faults(folder: Path) -> tuple[BlueprintFault, ...]:
    """Return the faults found while reading a blueprint's folder; empty when there are none."""
    try:
        read_folder(folder)
    except FaultyBlueprint as faulty:
        return faulty.faults
    return ()


def read_folder(folder: Path, configured: ConfiguredServers | None = None) -> Blueprint:
    """Read and check a blueprint; raise `FaultyBlueprint`."""
    return BlueprintFiles(DiskFolder(folder), configured).read_blueprint()
