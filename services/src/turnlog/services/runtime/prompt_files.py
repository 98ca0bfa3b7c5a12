"""Prompt files: where a layer's text is looked for, and how it is read.

Attributes may stand in a path, and attributes come from outside. So whatever they spell, a
path that leaves the blueprint's folder, by dots, by a root or by a link, is refused and nothing
is read. A file that is nowhere leaves its layer out, unless the layer must always be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.crosschecks import PROVIDER, leaves_folder
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.slots import filled_slots, slots_in, spelt

MAX_BYTES: Final = 500_000
"""What one prompt file may have; it becomes a blob, and part of every prompt."""

Found = tuple[str, str]
"""Where a text was found, relative to the blueprint's folder, and the text."""


def layer_text(
    folder: Path,
    name: str,
    layer: FileLayer,
    chain: Sequence[str],
    values: Mapping[str, JsonValue],
) -> Found | None:
    """Read a layer's file from the first place that has it; none where no place has."""
    places = tuple(_places(layer, chain, values))
    for place in places:
        if file := _inside(folder, place, f"layers.{name}.file"):
            return place, _text(file, place)
    if layer.keep != "always":
        return None
    raise Refused(
        "prompt-missing",
        f"layer {name} must always be there, and its file is nowhere",
        field=f"layers.{name}.file",
        fix=f"add {' or '.join(places) or layer.file} to {folder.name}",
    )


def data_text(folder: Path, place: str, field: str) -> str:
    """Read a file of data beside a blueprint; raises `Refused` when it is not there."""
    file = _inside(folder, place, field)
    if file is None:
        raise Refused(
            "unknown-cartridge",
            f"there is no {place[:200]!r} beside the blueprint",
            field=field,
            fix="name a task that is there",
        )
    return _text(file, place)


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


def _inside(folder: Path, place: str, field: str) -> Path | None:
    """Give the file if it is there; raises `Refused` for a path that leaves the folder."""
    outside = Refused(
        "path-outside",
        f"{place[:200]!r} leads out of the blueprint's folder",
        field=field,
        fix="name a file beside the blueprint",
    )
    if leaves_folder(place):
        raise outside
    try:
        file = (folder / place).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    if not file.is_relative_to(folder.resolve()):
        raise outside
    return file if file.is_file() else None


def _text(file: Path, place: str) -> str:
    """Read a text; the newline an editor leaves at the end is no part of it."""
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            raise TooLarge(place, size, MAX_BYTES)
        text = file.read_bytes().decode()
    except OSError as error:
        raise _unreadable(place, error.strerror or "it cannot be read", "mend the file") from None
    except UnicodeDecodeError as error:
        raise _unreadable(place, f"byte {error.start} is not UTF-8", "save it as UTF-8") from None
    if "\0" in text:
        raise _unreadable(place, "it holds a NUL", "take the character out")
    return text.rstrip("\r\n")


def _unreadable(place: str, detail: str, fix: str) -> Refused:
    return Refused("bad-prompt-file", f"{place}: {detail}", field=place, fix=fix)
