from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.crosschecks import PROVIDER_SLOT
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.slots import fill_slots, find_slots, format_prompt_value
from turnlog.services.runtime.files import FolderFiles

FoundPromptFile = tuple[str, str]
"""Path of a prompt file, relative to the blueprint's folder, and its text."""


def read_layer_file(
    files: FolderFiles,
    name: str,
    layer: FileLayer,
    chain: Sequence[str],
    values: Mapping[str, JsonValue],
) -> FoundPromptFile | None:
    """Read a layer's file from the first folder that has it; return None if none has."""
    places = tuple(_iterate_candidate_paths(layer, chain, values))
    for place in places:
        text = files.read_text(place, f"layers.{name}.file")
        if text is not None:
            return place, text
    if layer.keep != "always":
        return None
    raise Refused(
        "prompt-missing",
        f"layer {name} must always be there, and its file is nowhere",
        field=f"layers.{name}.file",
        fix=f"add {' or '.join(places) or layer.file} to {files.name}",
    )


def read_data_file(files: FolderFiles, path: str, field: str) -> str:
    """Read a data file beside a blueprint; raise `Refused` when it does not exist."""
    text = files.read_text(path, field)
    if text is None:
        raise Refused(
            "unknown-cartridge",
            f"there is no {path[:200]!r} beside the blueprint",
            field=field,
            fix="name a task that is there",
        )
    return text


def add_provider(attributes: Mapping[str, JsonValue], provider: str) -> dict[str, JsonValue]:
    """Return the values of path slots: the attributes and the provider."""
    return {**attributes, PROVIDER_SLOT: provider}


def _iterate_candidate_paths(
    layer: FileLayer, chain: Sequence[str], values: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Yield the paths to try, in order; skip those with a slot that has no value."""
    for searched in chain if layer.search is None else layer.search:
        written = f"{searched}/{layer.file}"
        if all(format_prompt_value(values.get(slot)) for slot in find_slots(written)):
            yield str(PurePosixPath(fill_slots(written, values)))
