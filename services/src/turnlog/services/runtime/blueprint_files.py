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
from turnlog.projections.blueprint.cartridge import Cartridge, load_cartridge_source
from turnlog.projections.blueprint.crosschecks import is_outside_folder
from turnlog.projections.blueprint.faults import BlueprintFault, FaultyBlueprint, DocumentPath, BlueprintFinding, suggest_word
from turnlog.projections.blueprint.layer import FileLayer, OverrideLayer
from turnlog.projections.blueprint.memory_source import LoadedMemoryPolicy, build_default_policy, load_memory_policy
from turnlog.projections.blueprint.override_checks import check_override_files
from turnlog.projections.blueprint.overriding import OVERRIDES_FOLDER
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.slots import fill_slots, find_slots
from turnlog.projections.blueprint.source import BLUEPRINT_FILE, BlueprintSource, load_blueprint_source
from turnlog.services.runtime.files import FolderFiles
from turnlog.services.runtime.prompt_files import FoundPromptFile, read_data_file, read_layer_file, add_provider
from turnlog.services.runtime.schemas import check_output_schemas, resolve_schemas

AttributeValues = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class BlueprintFiles:
    """The files of one blueprint."""

    files: FolderFiles

    def read_blueprint(self) -> Blueprint:
        """Read and check the blueprint; raise `FaultyBlueprint` with all its faults."""
        source = self.read_blueprint_source()
        if faults := [source.build_fault(remark) for remark in _check_blueprint_files(self.files, source.blueprint)]:
            raise FaultyBlueprint(faults)
        return resolve_schemas(self.files, source.blueprint)

    def read_blueprint_source(self) -> BlueprintSource:
        """Read the blueprint with its line numbers; raise `FaultyBlueprint`."""
        file = f"{self.files.name}/{BLUEPRINT_FILE}"
        return load_blueprint_source(self._read_blueprint_text(), file, self._iterate_server_files)

    def _iterate_server_files(self, folder: str) -> Iterator[tuple[str, str]]:
        inside = () if is_outside_folder(folder) else self.files.list_files_under(folder.rstrip("/"))
        for place in sorted(inside):
            text = self.files.read_text(place, "tools.servers.folder")
            if place.endswith((".yaml", ".yml")) and text is not None:
                yield place, text

    def _read_blueprint_text(self) -> str:
        file = f"{self.files.name}/{BLUEPRINT_FILE}"
        try:
            written = self.files.read_text(BLUEPRINT_FILE, "blueprint")
        except Refused as refused:
            what = refused.detail.removeprefix(f"{BLUEPRINT_FILE}: ")
            raise FaultyBlueprint([BlueprintFault(file, 1, "", what, refused.fix)]) from None
        if written is None:
            fix = f"put a {BLUEPRINT_FILE} there"
            raise FaultyBlueprint([BlueprintFault(file, 1, "", "No such file or directory", fix)])
        return written

    def read_cartridge(self, blueprint: Blueprint, attributes: AttributeValues) -> Cartridge | None:
        """Read the cartridge that the attributes name, or return None if the blueprint has none.

        Raises `FaultyBlueprint` with the cartridge's faults, and `Refused` when it does not exist.
        """
        spec = blueprint.cartridge
        if spec is None:
            return None
        place = fill_slots(spec.file, attributes)
        text = read_data_file(self.files, place, "cartridge")
        return load_cartridge_source(text, f"{blueprint.blueprint}/{place}", blueprint)

    def read_memory_policy(self, blueprint: Blueprint) -> LoadedMemoryPolicy | None:
        """Read the memory policy; return the defaults and the reason where it cannot be used."""
        spec = blueprint.policies.memory
        if spec is None:
            return None
        file = f"{blueprint.blueprint}/{spec.file}"
        try:
            text = read_data_file(self.files, spec.file, "policies.memory")
        except Refused as refused:
            return build_default_policy(f"{file}: {refused.detail}")
        return load_memory_policy(text, file)

    def read_prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: AttributeValues,
    ) -> dict[str, FoundPromptFile]:
        """Read the prompt files of these layers; return layer name to path and text.

        A layer whose file is not found is left out. Raises `Refused` for a path that leaves the
        folder, for a text that cannot be stored, and where a required layer has no file.
        """
        values = add_provider(attributes, provider)
        chain = blueprint.prompts.search
        found = {
            name: read_layer_file(self.files, name, layer, chain, values)
            for name, layer in layers.items()
        }
        return {name: text for name, text in found.items() if text is not None}


def _check_blueprint_files(files: FolderFiles, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    if blueprint.blueprint != files.name:
        what = f"the folder is called `{files.name}`"
        yield BlueprintFinding(("blueprint",), what, "give both the same name")
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FileLayer):
            yield from _check_layer_file(files, blueprint, ("layers", name, "file"), layer)
        elif isinstance(layer, OverrideLayer):
            # Overrides for a provider or a profile replace this file, so it must exist.
            plain = FileLayer(file=f"{layer.override.category}.md")
            yield from _check_layer_file(files, blueprint, ("layers", name, "override"), plain)
    yield from check_override_files(blueprint, files.list_files_under(OVERRIDES_FOLDER))
    yield from check_output_schemas(files, blueprint)


def _check_layer_file(files: FolderFiles, blueprint: Blueprint, path: DocumentPath, layer: FileLayer) -> Iterator[BlueprintFinding]:
    """Check a prompt file whose path is the same for every session."""
    chain = blueprint.prompts.search if layer.search is None else layer.search
    if any(find_slots(written) for written in (layer.file, *chain)):
        return
    name = str(path[1])
    try:
        found = read_layer_file(files, name, layer, chain, {})
    except Refused as refused:
        yield BlueprintFinding(path, refused.detail, refused.fix)
    else:
        if found is None:
            near = suggest_word(layer.file, files.list_names())
            yield BlueprintFinding(path, f"`{layer.file}` is in none of its folders", near)
