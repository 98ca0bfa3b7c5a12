"""The files of one blueprint: its structure, cartridges, memory policy, prompts and schemas.

The files may lie on a disk or be uploaded. Reading the blueprint checks everything that can be
known before a session opens.

Attributes may stand in the path of a prompt file and in each folder of the search chain. A prompt
file that is in none of the folders leaves its layer out, unless the layer is required. Output
schemas that a blueprint names by file are inlined, so that they are pinned with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.cartridge import Cartridge, read_cartridge_source
from turnlog.projections.blueprint.crosschecks import leaves_folder
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Path, Remark, instead_of
from turnlog.projections.blueprint.layer import FileLayer, OverrideLayer
from turnlog.projections.blueprint.memory_source import ReadPolicy, instead, read_policy
from turnlog.projections.blueprint.override_checks import remarks_on_files
from turnlog.projections.blueprint.overriding import OVERRIDES
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.slots import filled_slots, slots_in
from turnlog.projections.blueprint.source import BLUEPRINT_FILE, Source, read_source
from turnlog.services.runtime.files import Files
from turnlog.services.runtime.prompt_files import Found, data_text, layer_text, with_provider
from turnlog.services.runtime.schemas import schema_remarks, written_out

Values = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class BlueprintFiles:
    """The files of one blueprint."""

    files: Files

    def blueprint(self) -> Blueprint:
        """Read and check the blueprint; raise `FaultyBlueprint` with all its faults."""
        source = self.source()
        if faults := [source.fault(remark) for remark in _remarks(self.files, source.blueprint)]:
            raise FaultyBlueprint(faults)
        return written_out(self.files, source.blueprint)

    def source(self) -> Source:
        """Read the blueprint with its line numbers; raise `FaultyBlueprint`."""
        file = f"{self.files.name}/{BLUEPRINT_FILE}"
        return read_source(self._written(), file, self._servers)

    def _servers(self, folder: str) -> Iterator[tuple[str, str]]:
        inside = () if leaves_folder(folder) else self.files.under(folder.rstrip("/"))
        for place in sorted(inside):
            text = self.files.text(place, "tools.servers.folder")
            if place.endswith((".yaml", ".yml")) and text is not None:
                yield place, text

    def _written(self) -> str:
        file = f"{self.files.name}/{BLUEPRINT_FILE}"
        try:
            written = self.files.text(BLUEPRINT_FILE, "blueprint")
        except Refused as refused:
            what = refused.detail.removeprefix(f"{BLUEPRINT_FILE}: ")
            raise FaultyBlueprint([Fault(file, 1, "", what, refused.fix)]) from None
        if written is None:
            fix = f"put a {BLUEPRINT_FILE} there"
            raise FaultyBlueprint([Fault(file, 1, "", "No such file or directory", fix)])
        return written

    def cartridge(self, blueprint: Blueprint, attributes: Values) -> Cartridge | None:
        """Read the cartridge that the attributes name, or return None if the blueprint has none.

        Raises `FaultyBlueprint` with the cartridge's faults, and `Refused` when it does not exist.
        """
        spec = blueprint.cartridge
        if spec is None:
            return None
        place = filled_slots(spec.file, attributes)
        text = data_text(self.files, place, "cartridge")
        return read_cartridge_source(text, f"{blueprint.blueprint}/{place}", blueprint)

    def memory_policy(self, blueprint: Blueprint) -> ReadPolicy | None:
        """Read the memory policy; return the defaults and the reason where it cannot be used."""
        spec = blueprint.policies.memory
        if spec is None:
            return None
        file = f"{blueprint.blueprint}/{spec.file}"
        try:
            text = data_text(self.files, spec.file, "policies.memory")
        except Refused as refused:
            return instead(f"{file}: {refused.detail}")
        return read_policy(text, file)

    def prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: Values,
    ) -> dict[str, Found]:
        """Read the prompt files of these layers; return layer name to path and text.

        A layer whose file is not found is left out. Raises `Refused` for a path that leaves the
        folder, for a text that cannot be stored, and where a required layer has no file.
        """
        values = with_provider(attributes, provider)
        chain = blueprint.prompts.search
        found = {
            name: layer_text(self.files, name, layer, chain, values)
            for name, layer in layers.items()
        }
        return {name: text for name, text in found.items() if text is not None}


def _remarks(files: Files, blueprint: Blueprint) -> Iterator[Remark]:
    if blueprint.blueprint != files.name:
        what = f"the folder is called `{files.name}`"
        yield Remark(("blueprint",), what, "give both the same name")
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FileLayer):
            yield from _file(files, blueprint, ("layers", name, "file"), layer)
        elif isinstance(layer, OverrideLayer):
            # Overrides for a provider or a profile replace this file, so it must exist.
            plain = FileLayer(file=f"{layer.override.category}.md")
            yield from _file(files, blueprint, ("layers", name, "override"), plain)
    yield from remarks_on_files(blueprint, files.under(OVERRIDES))
    yield from schema_remarks(files, blueprint)


def _file(files: Files, blueprint: Blueprint, path: Path, layer: FileLayer) -> Iterator[Remark]:
    """Check a prompt file whose path is the same for every session."""
    chain = blueprint.prompts.search if layer.search is None else layer.search
    if any(slots_in(written) for written in (layer.file, *chain)):
        return
    name = str(path[1])
    try:
        found = layer_text(files, name, layer, chain, {})
    except Refused as refused:
        yield Remark(path, refused.detail, refused.fix)
    else:
        if found is None:
            near = instead_of(layer.file, files.names())
            yield Remark(path, f"`{layer.file}` is in none of its folders", near)
