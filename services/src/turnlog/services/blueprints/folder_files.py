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
from turnlog.projections.blueprint.validation.layer_checks import is_outside_folder

MAX_FILE_BYTES: Final = 500_000
"""Maximum size of a file; a prompt file becomes a blob and part of every prompt."""


class FolderFiles(Protocol):
    """The files of a folder."""

    @property
    def name(self) -> str:
        """Name of the folder."""
        ...

    def list_names(self) -> Iterable[str]:
        """Return the names of the folder's direct entries."""
        ...

    def list_files_under(self, folder: str) -> Iterable[str]:
        """Return the paths of all files below a subfolder; of the whole folder if it is empty."""
        ...

    def read_text(self, path: str, field: str) -> str | None:
        """Return a file's text, or None when there is no such file.

        Raises `Refused` for `field` when the path leaves the folder or the file is not a text.
        """
        ...


@dataclass(frozen=True, slots=True)
class DiskFolder:
    """A folder on a disk."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def list_names(self) -> Iterable[str]:
        return (file.name for file in self.folder.iterdir())

    def list_files_under(self, folder: str) -> Iterable[str]:
        found = (file for file in (self.folder / folder).rglob("*") if file.is_file())
        return (file.relative_to(self.folder).as_posix() for file in found)

    def read_text(self, path: str, field: str) -> str | None:
        file = self._resolve_inside(path, field)
        return _read_file(file, path) if file else None

    def _resolve_inside(self, path: str, field: str) -> Path | None:
        """Return the file if it exists; raise `Refused` for a path that leaves the folder."""
        if is_outside_folder(path):
            raise _create_outside_error(path, field)
        try:
            file = (self.folder / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        if not file.is_relative_to(self.folder.resolve()):
            raise _create_outside_error(path, field)
        return file if file.is_file() else None


@dataclass(frozen=True, slots=True)
class UploadedFolder:
    """An uploaded folder: path to text."""

    name: str
    texts: Mapping[str, str]

    def list_names(self) -> Iterable[str]:
        return (place for place in self.texts if "/" not in place)

    def list_files_under(self, folder: str) -> Iterable[str]:
        inside = f"{folder}/" if folder else ""
        return (place for place in self.texts if place.startswith(inside))

    def read_text(self, path: str, field: str) -> str | None:
        if is_outside_folder(path):
            raise _create_outside_error(path, field)
        found = self.texts.get(path)
        return None if found is None else clean_text(found, path)


def _create_outside_error(path: str, field: str) -> Refused:
    return Refused(
        "path-outside",
        f"{path[:200]!r} is outside the blueprint's folder",
        field=field,
        fix="name a file beside the blueprint",
    )


def _read_file(file: Path, path: str) -> str:
    try:
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise TooLarge(path, size, MAX_FILE_BYTES)
        return clean_text(file.read_bytes().decode(), path)
    except OSError as error:
        raise _create_unreadable_error(
            path, error.strerror or "it cannot be read", "fix the file"
        ) from None
    except UnicodeDecodeError as error:
        raise _create_unreadable_error(
            path, f"byte {error.start} is not UTF-8", "save it as UTF-8"
        ) from None


def clean_text(text: str, path: str) -> str:
    """Return the text without the final newline of an editor; refuse one that cannot be stored."""
    if "\0" in text:
        raise _create_unreadable_error(path, "it holds a NUL", "remove the character")
    return text.rstrip("\r\n")


def _create_unreadable_error(path: str, detail: str, fix: str) -> Refused:
    return Refused("bad-prompt-file", f"{path}: {detail}", field=path, fix=fix)
