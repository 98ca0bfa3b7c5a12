"""Files of one blueprint: their texts, as they lie on a disk, or as somebody brought them along.

Attributes may stand in a path, and attributes come from outside. So whatever they spell, a
path that leaves the blueprint's folder, by dots, by a root or by a link, is refused and nothing
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.crosschecks import leaves_folder

MAX_BYTES: Final = 500_000
"""What one file may have; a prompt file becomes a blob, and part of every prompt."""


class Files(Protocol):
    """The files of a folder."""

    @property
    def name(self) -> str:
        """What the folder is called."""
        ...

    def names(self) -> Iterable[str]:
        """Name what lies right in it."""
        ...

    def under(self, folder: str) -> Iterable[str]:
        """Give the paths of all files that lie anywhere in one of its folders."""
        ...

    def text(self, place: str, field: str) -> str | None:
        """Give a file's text; none where it is not there.

        Raises `Refused`, naming `field`, for a path that leaves the folder or is no text.
        """
        ...


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A folder on a disk; see `Files`."""

    folder: Path

    @property
    def name(self) -> str:
        """See `Files.name`."""
        return self.folder.name

    def names(self) -> Iterable[str]:
        """See `Files.names`."""
        return (file.name for file in self.folder.iterdir())

    def under(self, folder: str) -> Iterable[str]:
        """See `Files.under`."""
        found = (file for file in (self.folder / folder).rglob("*") if file.is_file())
        return (file.relative_to(self.folder).as_posix() for file in found)

    def text(self, place: str, field: str) -> str | None:
        """See `Files.text`."""
        file = self._inside(place, field)
        return _read(file, place) if file else None

    def _inside(self, place: str, field: str) -> Path | None:
        """Give the file if it is there; raises `Refused` for a path that leaves the folder."""
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
    """A folder that somebody sent along: path to text; see `Files`."""

    name: str
    texts: Mapping[str, str]

    def names(self) -> Iterable[str]:
        """See `Files.names`."""
        return (place for place in self.texts if "/" not in place)

    def under(self, folder: str) -> Iterable[str]:
        """See `Files.under`."""
        return (place for place in self.texts if place.startswith(f"{folder}/"))

    def text(self, place: str, field: str) -> str | None:
        """See `Files.text`."""
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
    """Give a text that can be stored; the newline an editor leaves at the end is no part of it."""
    if "\0" in text:
        raise _unreadable(place, "it holds a NUL", "take the character out")
    return text.rstrip("\r\n")


def _unreadable(place: str, detail: str, fix: str) -> Refused:
    return Refused("bad-prompt-file", f"{place}: {detail}", field=place, fix=fix)
