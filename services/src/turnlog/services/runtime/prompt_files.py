from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.crosschecks import PROVIDER
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.slots import filled_slots, slots_in, spelt
from turnlog.services.runtime.files import Files

Found = tuple[str, str]
"""Path of a prompt file, relative to the blueprint's folder, and its text."""


def layer_text(
    files: Files,
    name: str,
    layer: FileLayer,
    chain: Sequence[str],
    values: Mapping[str, JsonValue],
) -> Found | None:
    """Read a layer's file from the first folder that has it; return None if none has."""
    places = tuple(_places(layer, chain, values))
    for place in places:
        text = files.text(place, f"layers.{name}.file")
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


def data_text(files: Files, place: str, field: str) -> str:
    """Read a data file beside a blueprint; raise `Refused` when it does not exist."""
    text = files.text(place, field)
    if text is None:
        raise Refused(
            "unknown-cartridge",
            f"there is no {place[:200]!r} beside the blueprint",
            field=field,
            fix="name a task that is there",
        )
    return text


def with_provider(attributes: Mapping[str, JsonValue], provider: str) -> dict[str, JsonValue]:
    """Return the values of path slots: the attributes and the provider."""
    return {**attributes, PROVIDER: provider}


def _places(
    layer: FileLayer, chain: Sequence[str], values: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Yield the paths to try, in order; skip those with a slot that has no value."""
    for searched in chain if layer.search is None else layer.search:
        written = f"{searched}/{layer.file}"
        if all(spelt(values.get(slot)) for slot in slots_in(written)):
            yield str(PurePosixPath(filled_slots(written, values)))
