"""The library on disk: folders of blueprints, and the prompt files beside them.

A blueprint is read again whenever its file has changed, so an edit reaches the next session;
running ones are pinned. Nothing is ever read from outside a blueprint's folder, whatever its
author or a session's attributes ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Remark
from turnlog.projections.blueprint.schema import Blueprint, FileLayer
from turnlog.projections.blueprint.slots import slots_in
from turnlog.projections.blueprint.source import BLUEPRINT_FILE, Source, read_source
from turnlog.services.runtime.prompt_files import found, read_text

SHIPPED: Final = Path(__file__).parents[1] / "blueprints"
"""The blueprints that come with Turnlog."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """A blueprint, and the folder it was read from."""

    blueprint: Blueprint
    folder: Path


Stamp = tuple[int, int, int]
"""What tells that a file has changed: its inode, its time, its size."""


@dataclass(slots=True)
class Library:
    """Blueprints by the name of their folder; where two shelves have one, the first wins."""

    shelves: Sequence[Path] = (SHIPPED,)
    _read: dict[Path, tuple[Stamp, Shelved]] = field(
        default_factory=dict[Path, tuple[Stamp, Shelved]], init=False
    )

    def names(self) -> tuple[str, ...]:
        """Name every blueprint there is, faulty ones included."""
        folders = (folder for shelf in self.shelves for folder in shelf.glob(f"*/{BLUEPRINT_FILE}"))
        return tuple(sorted({file.parent.name for file in folders}))

    def folder_of(self, name: str) -> Path:
        """Find a blueprint's folder; raises `Refused` naming the nearest name there is."""
        names = self.names()
        for shelf in self.shelves:
            if name in names and (shelf / name / BLUEPRINT_FILE).is_file():
                return shelf / name
        near = get_close_matches(name[:80], names, n=1) or names
        raise Refused(
            "unknown-blueprint",
            f"there is no blueprint {name[:80]!r}",
            field="blueprint",
            fix=f"use {' or '.join(near)}" if near else "name a folder of blueprints",
        )

    def get(self, name: str) -> Shelved:
        """Give the blueprint as its file says now; raises `FaultyBlueprint` with all faults."""
        folder = self.folder_of(name)
        stamp = _stamp(folder / BLUEPRINT_FILE)
        before = self._read.get(folder)
        if before is None or before[0] != stamp:
            self._read[folder] = before = (stamp, Shelved(_checked(folder).blueprint, folder))
        return before[1]


def _stamp(file: Path) -> Stamp:
    stat = file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
