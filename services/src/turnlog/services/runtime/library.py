"""The library on disk: folders of blueprints, each a folder with its prompt files.

A blueprint is read again whenever its file has changed, so an edit reaches the next session;
running ones are pinned. Reading checks everything that can be known before a session opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.cartridge import Cartridge, read_cartridge_source
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Remark, instead_of
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.memory_source import ReadPolicy, instead, read_policy
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.slots import filled_slots, slots_in
from turnlog.projections.blueprint.source import BLUEPRINT_FILE, read_source
from turnlog.services.runtime.prompt_files import Found, data_text, layer_text, with_provider

SHIPPED: Final = Path(__file__).parents[1] / "blueprints"
"""The blueprints that come with Turnlog."""

Stamp = tuple[int, int, int]
"""What tells that a file has changed: inode, time and size."""


@dataclass(slots=True)
class Library:
    """Blueprints by name, which is that of their folder; the first of `folders` wins."""

    folders: Sequence[Path] = (SHIPPED,)
    _held: dict[Path, tuple[Stamp, Blueprint]] = field(
        default_factory=dict[Path, tuple[Stamp, Blueprint]], init=False
    )

    def _folders(self) -> dict[str, Path]:
        """Find every blueprint; the first place comes last, so that it wins."""
        places = reversed(self.folders)
        files = (file for place in places for file in place.glob(f"*/{BLUEPRINT_FILE}"))
        return {file.parent.name: file.parent for file in files}

    def names(self) -> tuple[str, ...]:
        """Name every blueprint there is, faulty ones included."""
        return tuple(sorted(self._folders()))

    def folder_of(self, name: str) -> Path:
        """Find a blueprint's folder; raises `Refused` naming the nearest name there is."""
        folders = self._folders()
        if name not in folders:
            detail, fix = f"there is no blueprint {name[:80]!r}", instead_of(name[:80], folders)
            raise Refused("unknown-blueprint", detail, field="blueprint", fix=fix)
        return folders[name]

    def get(self, name: str) -> Blueprint:
        """Give a blueprint as its file says now; raises `FaultyBlueprint` with all its faults."""
        folder = self.folder_of(name)
        stamp = _stamp(folder / BLUEPRINT_FILE)
        if self._held.get(folder, (None,))[0] != stamp:
            self._held[folder] = stamp, read_folder(folder)
        return self._held[folder][1]

    def cartridge(
        self, blueprint: Blueprint, attributes: Mapping[str, JsonValue]
    ) -> Cartridge | None:
        """Read the cartridge that attributes name; none where the blueprint takes none.

        Raises `FaultyBlueprint` with its faults, and `Refused` when it is not there.
        """
        spec = blueprint.cartridge
        if spec is None:
            return None
        place = filled_slots(spec.file, attributes)
        text = data_text(self.folder_of(blueprint.blueprint), place, "cartridge")
        return read_cartridge_source(text, f"{blueprint.blueprint}/{place}", blueprint)

    def memory_policy(self, blueprint: Blueprint) -> ReadPolicy | None:
        """Read the memory policy; its defaults, with what is wrong, where it cannot be used."""
        spec = blueprint.policies.memory
        if spec is None:
            return None
        file = f"{blueprint.blueprint}/{spec.file}"
        try:
            text = data_text(self.folder_of(blueprint.blueprint), spec.file, "policies.memory")
        except Refused as refused:
            return instead(f"{file}: {refused.detail}")
        return read_policy(text, file)

    def prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: Mapping[str, JsonValue],
    ) -> dict[str, Found]:
        """Read the prompt files of these layers afresh; layer to path and text.

        A layer whose file is nowhere is left out. Raises `Refused` for a path that leaves the
        folder, for a text that cannot be stored, and where a layer must always be there.
        """
        folder = self.folder_of(blueprint.blueprint)
        values = with_provider(attributes, provider)
        chain = blueprint.prompts.search
        found = {
            name: layer_text(folder, name, layer, chain, values) for name, layer in layers.items()
        }
        return {name: text for name, text in found.items() if text is not None}


def _stamp(file: Path) -> Stamp:
    stat = file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def check(folder: Path) -> tuple[Fault, ...]:
    """Give everything that is wrong with a blueprint's folder; nothing when it can be used."""
    try:
        read_folder(folder)
    except FaultyBlueprint as faulty:
        return faulty.faults
    return ()


def read_folder(folder: Path) -> Blueprint:
    """Read a blueprint with all there is to check; raises `FaultyBlueprint`."""
    source = read_source(_written(folder), f"{folder.name}/{BLUEPRINT_FILE}")
    if faults := [source.fault(remark) for remark in _remarks(folder, source.blueprint)]:
        raise FaultyBlueprint(faults)
    return source.blueprint


def _written(folder: Path) -> str:
    try:
        return (folder / BLUEPRINT_FILE).read_bytes().decode()
    except OSError as error:
        what, fix = error.strerror or "it cannot be read", f"put a {BLUEPRINT_FILE} there"
    except UnicodeDecodeError as error:
        what, fix = f"byte {error.start} is not UTF-8", "save it as UTF-8"
    raise FaultyBlueprint([Fault(f"{folder.name}/{BLUEPRINT_FILE}", 1, "", what, fix)])


def _remarks(folder: Path, blueprint: Blueprint) -> Iterator[Remark]:
    if blueprint.blueprint != folder.name:
        what = f"the folder is called `{folder.name}`"
        yield Remark(("blueprint",), what, "give both the same name")
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FileLayer):
            yield from _file(folder, blueprint, name, layer)


def _file(folder: Path, blueprint: Blueprint, name: str, layer: FileLayer) -> Iterator[Remark]:
    """Look for a file that every session will look for in the same place."""
    chain = blueprint.prompts.search if layer.search is None else layer.search
    if any(slots_in(written) for written in (layer.file, *chain)):
        return
    path = ("layers", name, "file")
    try:
        found = layer_text(folder, name, layer, chain, {})
    except Refused as refused:
        yield Remark(path, refused.detail, refused.fix)
    else:
        if found is None:
            near = instead_of(layer.file, (file.name for file in folder.iterdir()))
            yield Remark(path, f"`{layer.file}` is in none of its folders", near)
