"""Prompt files: where a layer's text is looked for.

Attributes may stand in a path, and in every place of the search chain. A file that is nowhere
leaves its layer out, unless the layer must always be there.
"""

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
"""Where a text was found, relative to the blueprint's folder, and the text."""


def layer_text(
    files: Files,
    name: str,
    layer: FileLayer,
    chain: Sequence[str],
    values: Mapping[str, JsonValue],
) -> Found | None:
    """Read a layer's file from the first place that has it; none where no place has."""
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
    """Read a file of data beside a blueprint; raises `Refused` when it is not there."""
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
    """Give what slots in paths stand for."""
    return {**attributes, PROVIDER: provider}


def _places(
    layer: FileLayer, chain: Sequence[str], values: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Give the paths to try, in order; one with a slot nothing was given for is none."""
    for searched in chain if layer.search is None else layer.search:
        written = f"{searched}/{layer.file}"
        if all(spelt(values.get(slot)) for slot in slots_in(written)):
            yield str(PurePosixPath(filled_slots(written, values)))
