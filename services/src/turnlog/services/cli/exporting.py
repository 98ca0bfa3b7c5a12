from __future__ import annotations

import shutil
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZipFile

from turnlog.events.errors import Refused
from turnlog.events.ids import checked_id
from turnlog.projections.audit.bundle import CHECKPOINT, LISTED, BundleList
from turnlog.services.bundle.around import around
from turnlog.services.cli.checkpoints import held
from turnlog.services.cli.console import remarks
from turnlog.services.cli.exporting_faults import Lines, said_before, tell, unread
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.reader.taking import exported
from turnlog.services.cli.screens.spelling import counted, harmless

SUFFIX: Final = {"ndjson": "ndjson", "parquet": "parquet", "chat": "md"}


async def export_files(reader: Reader, sessions: Sequence[str], form: str, to: Path | None) -> None:
    """Write sessions in an export format to a file, a folder of files, or standard output."""
    named = _named(sessions)
    if to is None:
        await _shown(reader, named, form)
    else:
        await _kept(reader, named, form, to)
    if form != "chat":
        tell(await said_before(reader, named))


def _named(sessions: Sequence[str]) -> tuple[str, ...]:
    """Return the ids without duplicates; raises `Refused` for an id that cannot be a file name."""
    return tuple(checked_id(session, "session") for session in dict.fromkeys(sessions))


async def _kept(reader: Reader, sessions: Sequence[str], form: str, to: Path) -> None:
    with _new(to) as new:
        if len(sessions) == 1:
            await _written(_form(reader, sessions[0], form), new)
        else:
            new.mkdir()
            for session in sessions:
                await _written(_form(reader, session, form), new / f"{session}.{SUFFIX[form]}")


async def _shown(reader: Reader, sessions: Sequence[str], form: str) -> None:
    if form == "parquet":
        detail, fix = "a table is nothing for a terminal", "name a file: --to FILE"
        raise Refused("bad-option", detail, field="--to", fix=fix)
    write = _to_output()
    for session in sessions:
        async for piece in _form(reader, session, form):
            write(piece)
    sys.stdout.flush()


def _to_output() -> Callable[[bytes], object]:
    """Return a writer to standard output that escapes control characters on a terminal."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer.write
    decoder = getincrementaldecoder("utf-8")("backslashreplace")
    return lambda piece: sys.stdout.write(harmless(decoder.decode(piece)))


def _form(reader: Reader, session: str, form: str) -> AsyncGenerator[bytes]:
    """Stream a session in an export format; NDJSON lines are checked as they pass."""
    pieces = exported(reader, session, form)
    return Lines(session).passed(pieces) if form == "ndjson" else pieces


async def export_bundle(
    reader: Reader, sessions: Sequence[str], to: Path, checkpoint: Path | None
) -> None:
    """Write a bundle as a folder or a zip; the checkpoint must have valid signatures."""
    named = _named(sessions)
    if checkpoint is not None:
        held(checkpoint, None)
    with _new(to) as new:
        folder = new.with_suffix(".folder") if to.suffix == ".zip" else new
        folder.mkdir()
        listed = [await _unpacked(reader, session, folder) for session in named]
        for name, content in around(_together(listed)):
            (folder / name).write_bytes(content)
        if checkpoint is not None:
            shutil.copyfile(checkpoint, folder / CHECKPOINT)
        if folder != new:
            shutil.make_archive(str(new), "zip", folder)
            new.with_name(f"{new.name}.zip").rename(new)
    where = f"unpack {to}, then" if to.suffix == ".zip" else f"cd {to};"
    of = counted(len(named), "session")
    tell(unread(each for one in listed for each in one.sessions))
    tell(await said_before(reader, named))
    remarks().print(f"a bundle of {of}; to check it: {where} python3 -I verify.py")


async def _unpacked(reader: Reader, session: str, folder: Path) -> BundleList:
    """Fetch the bundle of one session and unpack it into the common folder."""
    packed = folder / "packed.zip"
    await _written(exported(reader, session, "bundle"), packed)
    with ZipFile(packed) as archive:
        archive.extractall(folder)
    packed.unlink()
    return BundleList.model_validate_json((folder / LISTED).read_bytes())


def _together(lists: Sequence[BundleList]) -> BundleList:
    blobs = dict.fromkeys(digest for listed in lists for digest in listed.blobs)
    sessions = dict.fromkeys(session for listed in lists for session in listed.sessions)
    return lists[-1].model_copy(update={"sessions": tuple(sessions), "blobs": tuple(blobs)})


async def _written(pieces: AsyncGenerator[bytes], to: Path) -> None:
    with to.open("xb") as file:
        async for piece in pieces:
            file.write(piece)


@contextmanager
def _new(to: Path) -> Generator[Path]:
    """Yield a temporary path that becomes `to` at the end; raises `Refused` if `to` exists."""
    if to.exists():
        raise Refused("folder-exists", f"{to} is there already", fix="name another place")
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.") as beside:
        yield Path(beside) / to.name
        (Path(beside) / to.name).rename(to)
