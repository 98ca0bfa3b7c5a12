"""A folder of signed checkpoints, each with its consistency to the one before it, named by time.

A file is written whole under another name first and never replaces one that is there, so a reader
sees whole files only. The nodes of a checkpoint are there before the checkpoint is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.audit.verify.checkpoint_consistency import CheckpointConsistency
from turnlog.projections.audit.verify.signed_checkpoints import SignedCheckpoint
from turnlog.services.cli.options import CHECKPOINTS_VARIABLE
from turnlog.services.platform.whole_files import create_file

_NAME_FORM: Final = re.compile(r"checkpoint-(\d{8}T\d{6}\.\d{3}Z)\.json")

_TIME_FORM: Final = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """The checkpoints in a folder."""

    folder: Path

    def list_checkpoints(self) -> list[Path]:
        """List the files of checkpoints, the oldest first; none if there is no folder."""
        if not self.folder.is_dir():
            return []
        return sorted(each for each in self.folder.iterdir() if _NAME_FORM.fullmatch(each.name))

    def find_newest(self) -> Path | None:
        """Return the file of the newest checkpoint, or None."""
        return max(self.list_checkpoints(), default=None)

    def store_checkpoint(
        self, signed: SignedCheckpoint, consistency: CheckpointConsistency | None
    ) -> Path:
        """Write a checkpoint after all others, and its consistency; return the checkpoint's file.

        Raises `Unavailable` where the newest one is not older than it, by their times.
        """
        newest, stamp = self.find_newest(), _format_stamp(signed.checkpoint.at)
        file = self.folder / f"checkpoint-{stamp}.json"
        if newest is not None and newest.name >= file.name:
            detail = f"it is noted {signed.checkpoint.at}, and {newest.name} is there already"
            raise Unavailable("a later checkpoint", detail)
        if consistency is not None:
            _write_new(name_consistency(file), consistency.model_dump_json())
        _write_new(file, signed.model_dump_json())
        return file


def read_noted_time(file: Path) -> datetime:
    """Return the time in the name of a checkpoint's file."""
    stamp = file.name.removeprefix("checkpoint-").removesuffix(".json")
    return datetime.strptime(stamp, _TIME_FORM).replace(tzinfo=UTC)


def name_consistency(file: Path) -> Path:
    """Return the file with the nodes that lead to a checkpoint from the one before it."""
    return file.with_name(f"consistency-{file.name.removeprefix('checkpoint-')}")


def read_with_consistency(file: Path) -> list[tuple[str, bytes]]:
    """Return the names and contents of a checkpoint's files, that of its consistency first."""
    files = (name_consistency(file), file)
    return [(each.name, each.read_bytes()) for each in files if each.exists()]


def find_checkpoint_file(place: Path) -> Path:
    """Return a file as it is, and the newest checkpoint of a folder; `Refused` if it has none."""
    if not place.is_dir():
        return place
    newest = CheckpointFolder(place).find_newest()
    if newest is None:
        fix = "name the folder of `turnlog checkpoint --every`, or a file"
        raise Refused("invalid", f"{place} has no checkpoint", field="--checkpoint", fix=fix)
    return newest


def find_configured_folder() -> Path | None:
    """Return the folder of the variable, or None."""
    named = os.environ.get(CHECKPOINTS_VARIABLE)
    return Path(named) if named else None


def describe_age(file: Path, now: datetime) -> str:
    """Say how long ago a checkpoint was taken, by the name of its file."""
    age = max(now - read_noted_time(file), timedelta())
    hours, rest = divmod(int(age.total_seconds()), 3600)
    return f"{hours} h {rest // 60} min ago" if hours else f"{rest // 60} min ago"


def _format_stamp(at: str) -> str:
    """Return a time to the millisecond, so that names sort as times do."""
    try:
        noted = datetime.fromisoformat(at).astimezone(UTC)
    except ValueError:
        raise Corrupt("checkpoint", f"it is noted at no time: {at[:80]!a}") from None
    return f"{noted.strftime(_TIME_FORM)[:-4]}Z"


def _write_new(file: Path, text: str) -> None:
    try:
        create_file(file, f"{text}\n".encode())
    except FileExistsError:
        detail = f"{file} is there already"
        raise Refused("file-exists", detail, field="--to", fix="name another place") from None
