from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.source import BLUEPRINT_FILE
from turnlog.services.gateway.payloads.what_if import BlueprintFolder
from turnlog.services.runtime.files import MAX_FILE_BYTES


def read_blueprint_folder(folder: Path) -> BlueprintFolder:
    """Read all texts of a blueprint folder; raises `Refused` if there is no blueprint in it."""
    folder = folder.resolve()
    if not (folder / BLUEPRINT_FILE).is_file():
        detail = f"there is no {BLUEPRINT_FILE} in {folder}"
        raise Refused("unknown-blueprint", detail, field="--blueprint", fix="name its folder")
    return BlueprintFolder(blueprint=folder.name, files=dict(_read_texts(folder)))


def _read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield texts by path; hidden files, binary files and links out of the folder are skipped."""
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if any(step.startswith(".") for step in place.parts) or not _is_included(file, folder):
            continue
        try:
            yield place.as_posix(), file.read_bytes().decode()
        except UnicodeDecodeError:
            continue


def _is_included(file: Path, folder: Path) -> bool:
    inside = file.resolve().is_relative_to(folder)
    return inside and file.is_file() and file.stat().st_size <= MAX_FILE_BYTES
