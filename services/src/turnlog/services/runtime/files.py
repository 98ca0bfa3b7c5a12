"""The files of a blueprint folder, on a disk or uploaded with a request.

Attributes, which come from clients, may be part of a path. So a path that leaves the blueprint's
folder by `..`, as an absolute path or through a link is refused, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.crosschecks import leaves_folder

MAX_BYTES: Final = 500_000
"""Maximum size of a file; a prompt file becomes a blob and part of every prompt."""


class Files(Protocol):
    """The files of a folder."""

    @property
    def name(self) -> str:
        """Name of the folder."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of the folder's direct entries."""
        ...

    def under(self, folder: str) -> Iterable[str]:
        """Return the paths of all files below a subfolder."""
        ...

    def text(self, place: str, field: str) -> str | None:
        """Return a file's text, or None when there is no such file.

        Raises `Refused` for `field` when the path leaves the folder or the file is not a text.
        """
        ...


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A folder on a disk."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def names(self) -> Iterable[str]:
        return (file.name for file in self.folder.iterdir())

    def under(self, folder: str) -> Iterable[str]:
        found = (file for file in (self.folder / folder).rglob("*") if file.is_file())
        return (file.relative_to(self.folder).as_posix() for file in found)

    def text(self, place: str, field: str) -> str | None:
        file = self._inside(place, field)
        return _read(file, place) if file else None

    def _inside(self, place: str, field: str) -> Path | None:
        """Return the file if it exists; raise `Refused` for a path that leaves the folder."""
        if leaves_folder(place):
            raise _outside(place, field)
        try:
            file = (self.folder / place).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        if not file.is_relative_to(self.folder.resolve()):
            raise _outside(place, field)
        return file if file.is_file() else None


@dataclass(frozen=True, slots=True)
class Brought:
    """An uploaded folder: path to text."""

    name: str
    texts: Mapping[str, str]

    def names(self) -> Iterable[str]:
        return (place for place in self.texts if "/" not in place)

    def under(self, folder: str) -> Iterable[str]:
        return (place for place in self.texts if place.startswith(f"{folder}/"))

    def text(self, place: str, field: str) -> str | None:
        if leaves_folder(place):
            raise _outside(place, field)
        found = self.texts.get(place)
        return None if found is None else _plain(found, place)


def _outside(place: str, field: str) -> Refused:
    return Refused(
        "path-outside",
        f"{place[:200]!r} leads out of the blueprint's folder",
        field=field,
        fix="name a file beside the blueprint",
    )


def _read(file: Path, place: str) -> str:
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            raise TooLarge(place, size, MAX_BYTES)
        return _plain(file.read_bytes().decode(), place)
    except OSError as error:
        raise _unreadable(place, error.strerror or "it cannot be read", "mend the file") from None
    except UnicodeDecodeError as error:
        raise _unreadable(place, f"byte {error.start} is not UTF-8", "save it as UTF-8") from None


def _plain(text: str, place: str) -> str:
    """Return the text without the final newline of an editor; refuse one that cannot be stored."""
    if "\0" in text:
        raise _unreadable(place, "it holds a NUL", "take the character out")
    return text.rstrip("\r\n")


def _unreadable(place: str, detail: str, fix: str) -> Refused:
    return Refused("bad-prompt-file", f"{place}: {detail}", field=place, fix=fix)
