"""The files of one blueprint: its structure, cartridges, memory policy, prompts and schemas.

The files may lie on a disk or be uploaded. Reading the blueprint checks everything that can be
known before a session opens.

Attributes may stand in the path of a prompt file and in each folder of the search chain. A prompt
file that is in none of the folders leaves its layer out, unless it is required. Output
schemas that a blueprint names by file are inlined, so that they are pinned with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.storable_text import replace_unstorable_texts
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.loading.blueprint_source import (
    BLUEPRINT_FILE,
    BlueprintSource,
    load_blueprint_source,
)
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge, load_cartridge_source
from turnlog.projections.blueprint.loading.memory_policy_source import (
    LoadedMemoryPolicy,
    build_default_policy,
    load_memory_policy,
)
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers, ServerSources
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import CallSpec, OutputSpec
from turnlog.projections.blueprint.schema.layer_specs import FileLayer, OverrideLayer
from turnlog.projections.blueprint.schema.prompt_overrides import (
    OVERRIDES_FOLDER,
    list_prompt_layers,
)
from turnlog.projections.blueprint.schema.tool_specs import EndpointServerSpec
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.template_slots import fill_slots, find_slots
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    DocumentPath,
    FaultyBlueprint,
    suggest_word,
)
from turnlog.projections.blueprint.validation.layer_checks import (
    PROVIDER_SLOT,
    check_override_files,
    is_outside_folder,
)
from turnlog.projections.structured_output.schema_repair import JsonSchema
from turnlog.projections.structured_output.schema_validation import find_schema_fault
from turnlog.services.blueprints.folder_files import FolderFiles
from turnlog.services.blueprints.path_choices import find_wrong_choice
from turnlog.services.blueprints.path_places import (
    iterate_places,
    list_locale_attributes,
    read_first_place,
)
from turnlog.services.extensions.tool_functions import find_parameters_fault

AttributeValues = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class BlueprintFiles:
    """The files of one blueprint."""

    files: FolderFiles
    configured: ConfiguredServers | None = None
    """The tool servers of the operator's tools file; None if there is no such file."""

    def read_blueprint(self) -> Blueprint:
        """Read and check the blueprint; raise `FaultyBlueprint` with all its faults."""
        source = self.read_blueprint_source()
        if faults := [
            source.build_fault(finding)
            for finding in _check_blueprint_files(self.files, source.blueprint)
        ]:
            raise FaultyBlueprint(faults)
        return resolve_schemas(self.files, source.blueprint)

    def read_blueprint_source(self) -> BlueprintSource:
        """Read the blueprint with its line numbers; raise `FaultyBlueprint`."""
        file = f"{self.files.name}/{BLUEPRINT_FILE}"
        servers = ServerSources(self._iterate_server_files, self.configured)
        return load_blueprint_source(self._read_blueprint_text(), file, servers)

    def _iterate_server_files(self, folder: str) -> Iterator[tuple[str, str]]:
        inside = (
            () if is_outside_folder(folder) else self.files.list_files_under(folder.rstrip("/"))
        )
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
            raise FaultyBlueprint(
                [BlueprintFault(file=file, line=1, path="", what=what, fix=refused.fix)]
            ) from None
        if written is None:
            fix = f"put a {BLUEPRINT_FILE} there"
            raise FaultyBlueprint(
                [
                    BlueprintFault(
                        file=file, line=1, path="", what="No such file or directory", fix=fix
                    )
                ]
            )
        return written

    def read_cartridge(self, blueprint: Blueprint, attributes: AttributeValues) -> Cartridge | None:
        """Read the cartridge that the attributes name, or return None if the blueprint has none.

        Raises `FaultyBlueprint` with the cartridge's faults, and `Refused` when it does not exist.
        """
        spec = blueprint.cartridge
        if spec is None:
            return None
        place, text = _read_cartridge_text(self.files, blueprint, spec.file, attributes)
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
        found = {
            name: read_layer_file(
                files=self.files, blueprint=blueprint, name=name, layer=layer, values=values
            )
            for name, layer in layers.items()
        }
        return {name: text for name, text in found.items() if text is not None}

    def check_chosen_files(
        self, blueprint: Blueprint, attributes: AttributeValues, provider: str | None = None
    ) -> tuple[str, ...]:
        """Return what is said of prompt files that the attributes name, and that are not there.

        Raises `Refused` where such a file is required. A file that depends on the provider is
        looked for if there is one, and belongs to the session's first call otherwise.
        """
        values = add_provider(attributes, provider) if provider else attributes
        warnings: list[str] = []
        for name, layer in list_prompt_layers(blueprint).items():
            slots = _find_path_slots(blueprint, layer)
            if not slots or (PROVIDER_SLOT in slots and not (provider and layer.is_required)):
                continue
            found = read_layer_file(
                files=self.files, blueprint=blueprint, name=name, layer=layer, values=values
            )
            if found is None and name in blueprint.layers and layer.required is None:
                warnings.append(f"layer {name} is left out: {layer.file} was not found")
        return tuple(warnings)

    def list_providers(
        self, blueprint: Blueprint, layers: Mapping[str, FileLayer], attributes: AttributeValues
    ) -> tuple[str, ...]:
        """Return the providers that have prompt files of their own.

        A file that a layer names whatever the provider is no provider's.
        """
        values = add_provider(attributes, _PROVIDER_MARK)
        paths = [
            path
            for layer in layers.values()
            for place in _iterate_layer_places(blueprint, layer, values)
            for path in place
            if not is_outside_folder(path)
        ]
        common = {path for path in paths if _PROVIDER_MARK not in path}
        found: set[str] = set()
        for path in set(paths) - common:
            folder = path.partition(_PROVIDER_MARK)[0].rpartition("/")[0]
            pattern = _compile_provider_pattern(path)
            named = map(pattern.fullmatch, set(self.files.list_files_under(folder)) - common)
            found |= {match["provider"] for match in named if match}
        return tuple(sorted(found))


_PROVIDER_MARK: Final = "\1"
"""Marks the provider in a path."""


def _compile_provider_pattern(path: str) -> re.Pattern[str]:
    """Return the pattern of the paths that have the name of a provider at each mark."""
    first, *others = map(re.escape, path.split(_PROVIDER_MARK))
    return re.compile(rf"{first}(?P<provider>[\w.-]+){'(?P=provider)'.join(others)}")


def is_provider_specific(blueprint: Blueprint, layer: FileLayer) -> bool:
    """Return whether a layer's file may be another one for another provider."""
    return PROVIDER_SLOT in _find_path_slots(blueprint, layer)


def _find_path_slots(blueprint: Blueprint, layer: FileLayer) -> tuple[str, ...]:
    return find_slots("/".join((layer.file, *_get_search_folders(blueprint, layer))))


def _get_search_folders(blueprint: Blueprint, layer: FileLayer) -> tuple[str, ...]:
    return blueprint.prompts.search if layer.search is None else layer.search


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
    yield from _check_endpoint_schemas(blueprint)


def _check_layer_file(
    files: FolderFiles, blueprint: Blueprint, path: DocumentPath, layer: FileLayer
) -> Iterator[BlueprintFinding]:
    """Check a prompt file whose path is the same for every session."""
    if _find_path_slots(blueprint, layer):
        return
    name = str(path[1])
    try:
        found = read_layer_file(files=files, blueprint=blueprint, name=name, layer=layer, values={})
    except Refused as refused:
        yield BlueprintFinding(path, refused.detail, refused.fix)
    else:
        if found is None:
            near = suggest_word(layer.file, files.list_names())
            yield BlueprintFinding(path, f"`{layer.file}` is in none of its folders", near)


FoundPromptFile = tuple[str, str]
"""Path of a prompt file or a cartridge, relative to the blueprint's folder, and its text."""


def read_layer_file(
    files: FolderFiles, blueprint: Blueprint, name: str, layer: FileLayer, values: AttributeValues
) -> FoundPromptFile | None:
    """Read a layer's file from the first folder that has it; return None if none has.

    Raises `Refused` where the file is required.
    """
    places = tuple(_iterate_layer_places(blueprint, layer, values))
    found = read_first_place(files, places, f"layers.{name}.file")
    if found is not None or not layer.is_required:
        return found
    reason = "keep: always" if layer.required is None else "required: true"
    detail = f"layer {name} is required (`{reason}`), and its file was not found"
    fix = f"add {' or '.join(place[0] for place in places) or layer.file} to {files.name}"
    folders, locales = _get_search_folders(blueprint, layer), list_locale_attributes(blueprint)
    paths = (f"{folder}/{layer.file}" for folder in folders)
    tried = (find_wrong_choice(files, path, values, locales) for path in paths)
    choice = next((each for each in tried if each is not None and each.known), None)
    if choice is None:
        raise Refused("prompt-missing", detail, field=f"layers.{name}.file", fix=fix)
    raise Refused(
        "prompt-missing",
        f"{detail}: {choice}",
        field=f"attributes.{choice.attribute}",
        fix=f"{choice.fix}, or {fix}",
    )


def _iterate_layer_places(
    blueprint: Blueprint, layer: FileLayer, values: AttributeValues
) -> Iterator[tuple[str, ...]]:
    """Yield the places of a layer's file, folder after folder."""
    locales = list_locale_attributes(blueprint)
    for folder in _get_search_folders(blueprint, layer):
        yield from iterate_places(f"{folder}/{layer.file}", values, locales)


def _read_cartridge_text(
    files: FolderFiles, blueprint: Blueprint, path: str, attributes: AttributeValues
) -> FoundPromptFile:
    locales = list_locale_attributes(blueprint)
    places = tuple(iterate_places(path, attributes, locales))
    found = read_first_place(files, places, "cartridge")
    if found is not None:
        return found
    missing = places[0][0] if places else fill_slots(path, attributes)
    detail = f"there is no {quote_sent_name(missing)} beside the blueprint"
    choice = find_wrong_choice(files, path, attributes, locales)
    if choice is None:
        raise Refused("unknown-cartridge", detail, field="cartridge", fix="add it")
    field = f"attributes.{choice.attribute}"
    raise Refused("unknown-cartridge", f"{detail}: {choice}", field=field, fix=choice.fix)


def read_data_file(files: FolderFiles, path: str, field: str) -> str:
    """Read a data file beside a blueprint; raise `Refused` when it does not exist."""
    text = files.read_text(path, field)
    if text is None:
        detail = f"there is no {path[:200]!r} beside the blueprint"
        raise Refused("unknown-file", detail, field=field, fix="add it")
    return text


def add_provider(attributes: Mapping[str, JsonValue], provider: str) -> dict[str, JsonValue]:
    """Return the values of path slots: the attributes and the provider."""
    return {**attributes, PROVIDER_SLOT: provider}


def resolve_schemas(files: FolderFiles, blueprint: Blueprint) -> Blueprint:
    """Return a blueprint with its output schemas inlined; unreadable ones stay file names."""
    calls = {name: _resolve_call_schema(files, call) for name, call in blueprint.calls.items()}
    return blueprint.model_copy(update={"calls": calls}) if calls != blueprint.calls else blueprint


def _resolve_call_schema(files: FolderFiles, call: CallSpec) -> CallSpec:
    spec = call.output
    if spec is None or not isinstance(spec.schema_, str) or spec.schema_ == "plan":
        return call
    try:
        schema = _read_schema(files, spec.schema_)
    except Refused:
        return call
    explicit_fields = spec.model_dump(exclude_unset=True, by_alias=True)
    output = OutputSpec.model_validate(explicit_fields | {"schema": schema})
    return call.model_copy(update={"output": output})


def _check_endpoint_schemas(blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    """Yield what is wrong with the arguments of a blueprint's endpoints."""
    for server, spec in blueprint.tools.servers.items() if blueprint.tools else ():
        for name, endpoint in (
            spec.endpoints.items() if isinstance(spec, EndpointServerSpec) else ()
        ):
            if fault := find_parameters_fault(endpoint.parameters):
                path = ("tools", "servers", server, "endpoints", name, "parameters")
                fix = "write a JSON Schema: `{type: object, properties: ...}`"
                yield BlueprintFinding(path, fault, fix)


def check_output_schemas(files: FolderFiles, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    """Yield what is wrong with a blueprint's output schemas."""
    acting = {profile.act for profile in blueprint.profiles.values()}
    for name, call in blueprint.calls.items():
        path = ("calls", name, "output")
        if call.output is not None and name in acting:
            yield BlueprintFinding(
                path, "the call of a step requests tools; its text is not parsed", "leave it out"
            )
        elif call.output is not None:
            yield from _check_output_schema(files, (*path, "schema"), call.output)


def _check_output_schema(
    files: FolderFiles, path: DocumentPath, spec: OutputSpec
) -> Iterator[BlueprintFinding]:
    schema = spec.schema_
    if schema == "plan":
        return
    try:
        written = schema if isinstance(schema, dict) else _read_schema(files, schema)
    except Refused as refused:
        yield BlueprintFinding(path, refused.detail, refused.fix)
        return
    if fault := find_schema_fault(written):
        yield BlueprintFinding(
            path, fault, "write a JSON Schema that refers to nothing outside itself"
        )


def _read_schema(files: FolderFiles, file: str) -> JsonSchema:
    text = files.read_text(file, "output.schema")
    if text is None:
        near = suggest_word(file, files.list_names())
        raise Refused("unknown-schema", f"there is no `{file}` beside the blueprint", fix=near)
    try:
        found = parse_json(text, as_written=True)
    except InvalidJson:
        raise Refused("bad-schema", f"{file}: it is not JSON", fix="fix the file") from None
    if not isinstance(found, dict):
        raise Refused("bad-schema", f"{file}: it is not a JSON object", fix="fix the file")
    if found != replace_unstorable_texts(found):
        detail = f"{file}: NUL and lone surrogates cannot be stored"
        raise Refused("bad-schema", detail, fix="remove the character")
    return found
