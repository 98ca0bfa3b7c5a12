"""Session exports: fetch them from a service and write them to files.

A bundle of several sessions is merged from one bundle each. Existing files are never overwritten,
and nothing is left behind on failure. Undecodable events and late redactions are exported as
stored, with a warning.
"""

from __future__ import annotations

import shutil
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from turnlog.client import ClientOperation, operations
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.codec import decode_event
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.ids import validate_id
from turnlog.projections.audit.export.bundle_format import (
    CHECKPOINT_FILE,
    BundledSession,
    BundleManifest,
)
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.bundle.bundle_zip import iterate_bundle_files, pack_bundle
from turnlog.services.cli.checkpoints.checkpoint_files import load_signed_checkpoint
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.client.session_selection import list_selected_sessions
from turnlog.services.cli.console import create_error_console
from turnlog.services.cli.session_options import SessionFilterOptions
from turnlog.services.cli.views.text_format import escape_controls, format_count, format_one_line


@dataclass(frozen=True, slots=True)
class ExportForm:
    """The format of an export, and whether withheld replies are in it as they are stored."""

    name: str
    stored: bool = False

    @property
    def has_withheld_texts(self) -> bool:
        """Whether the stored bytes of every event are in it."""
        return self.stored or self.name == BUNDLE_FORM.name

    def build_query(self) -> dict[str, str]:
        """Return the query parameters that ask for it."""
        return {"format": self.name} | ({"stored": "true"} if self.stored else {})


BUNDLE_FORM: Final = ExportForm("bundle")


async def stream_export(
    service: ServiceClient, session: str, form: ExportForm
) -> AsyncGenerator[bytes]:
    """Stream a session in an export format; raises `Unavailable` if the service breaks off."""
    path = format_path(api_paths.EXPORT, session=session)
    operation = ClientOperation("GET", path, object, query=form.build_query())
    async with service.open_response(operation) as response:
        async for piece in response.aiter_bytes():
            yield piece


@dataclass(slots=True)
class CheckedExportLines:
    """The lines of one session's export, checked as they pass."""

    session: str
    line_count: int = 0
    incomplete_line: bytes = b""
    """A line whose end has not arrived yet."""
    faults: list[str] = field(default_factory=list[str])

    async def forward_pieces(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield every piece unchanged; at the end warn about lines that cannot be decoded."""
        async for piece in pieces:
            *lines, self.incomplete_line = (self.incomplete_line + piece).split(b"\n")
            for line in lines:
                self._check_line(line)
            yield piece
        print_warnings(self.faults)

    def _check_line(self, line: bytes) -> None:
        self.line_count += 1
        try:
            decode_event(line, self.line_count)
        except Corrupt as fault:
            self.faults.append(format_unreadable_event(self.session, self.line_count, fault.detail))


def list_unreadable_events(sessions: Iterable[BundledSession]) -> list[str]:
    """Return the undecodable events that a bundle lists for its sessions."""
    return [
        format_unreadable_event(each.session, fault.number, fault.detail)
        for each in sessions
        for fault in each.unread
    ]


def list_uncovered_sessions(
    sessions: Iterable[BundledSession], witness: AuditCheckpoint | None
) -> list[str]:
    """Return a warning for each session that has events which the checkpoint does not cover."""
    if witness is None:
        return ["no checkpoint is in the bundle, so its verdict will be unwitnessed"]
    noted = witness.sessions
    return [
        f"session {each.session} ends behind the checkpoint, so the verdict will be unwitnessed:"
        " take a new one with `turnlog checkpoint`"
        for each in sessions
        if each.session not in noted or noted[each.session].sequence < each.events
    ]


async def describe_late_redactions(
    service: ServiceClient, sessions: Iterable[str], form: ExportForm
) -> list[str]:
    """Return a warning if replies or texts were redacted after they had been said.

    It says whether these are in the exported events.
    """
    said = 0
    for session in sessions:
        with suppress(Corrupt):  # A corrupt session is already reported by its undecodable events.
            said += await count_late_redactions(service, session)
    if not said:
        return []
    found = "1 text was" if said == 1 else f"{said} texts were"
    if form.has_withheld_texts:
        return [f"{found} redacted after being said: what was said is in the events"]
    return [f"{found} redacted after being said: `--stored` exports what was said"]


async def count_late_redactions(service: ServiceClient, session: str) -> int:
    """Return how many replies and texts of a session were redacted after they were said."""
    turns = (await service.send(operations.fetch_history(session))).turns
    # Only a completed turn has a finish; a reply withheld by a rule was never completed.
    replies = sum(turn.redacted and turn.finish is not None for turn in turns)
    return replies + sum(turn.text_withheld is not None for turn in turns)


def format_unreadable_event(session: str, number: int, detail: str) -> str:
    """Return the warning for an event that cannot be decoded."""
    reason = format_one_line(detail)
    return (
        f"event {number} of session {session} cannot be read: {reason}; it is there as it is stored"
    )


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for fault in warnings:
        create_error_console().print(fault)


async def list_exported_sessions(
    service: ServiceClient, filters: SessionFilterOptions
) -> list[str]:
    """Return the ids of the sessions that options select, the oldest first."""
    found = await list_selected_sessions(service, filters)
    return [each.session for each in reversed(found)]


FILE_SUFFIXES: Final = {"ndjson": "ndjson", "parquet": "parquet", "chat": "md"}


async def export_files(
    service: ServiceClient, sessions: Sequence[str], form: ExportForm, to: Path | None
) -> None:
    """Write sessions in an export format to a file, a folder of files, or standard output."""
    named = _check_session_ids(sessions)
    if to is None:
        await _write_to_output(service, named, form)
    else:
        await _write_session_files(service, named, form, to)
    if form.name != "chat":
        print_warnings(await describe_late_redactions(service, named, form))


def _check_session_ids(sessions: Sequence[str]) -> tuple[str, ...]:
    """Return the ids without duplicates; raises `Refused` for an id that cannot be a file name."""
    return tuple(validate_id(session, "session") for session in dict.fromkeys(sessions))


async def _write_session_files(
    service: ServiceClient, sessions: Sequence[str], form: ExportForm, to: Path
) -> None:
    with _create_atomically(to) as new:
        if len(sessions) == 1:
            await _write_file(_stream_checked_export(service, sessions[0], form), new)
        else:
            new.mkdir()
            for session in sessions:
                await _write_file(
                    _stream_checked_export(service, session, form),
                    new / f"{session}.{FILE_SUFFIXES[form.name]}",
                )


async def _write_to_output(
    service: ServiceClient, sessions: Sequence[str], form: ExportForm
) -> None:
    if form.name == "parquet":
        detail, fix = (
            "parquet is binary and cannot be written to a terminal",
            "name a file: --to FILE",
        )
        raise Refused("bad-option", detail, field="--to", fix=fix)
    write = _choose_output_writer()
    for session in sessions:
        async for piece in _stream_checked_export(service, session, form):
            write(piece)
    sys.stdout.flush()


def _choose_output_writer() -> Callable[[bytes], object]:
    """Return a writer to standard output that escapes control characters on a terminal."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer.write
    decoder = getincrementaldecoder("utf-8")("backslashreplace")
    return lambda piece: sys.stdout.write(escape_controls(decoder.decode(piece)))


def _stream_checked_export(
    service: ServiceClient, session: str, form: ExportForm
) -> AsyncGenerator[bytes]:
    """Stream a session in an export format; NDJSON lines are checked as they pass."""
    pieces = stream_export(service, session, form)
    return CheckedExportLines(session).forward_pieces(pieces) if form.name == "ndjson" else pieces


async def export_bundle(
    service: ServiceClient, sessions: Sequence[str], to: Path, checkpoint: Path | None
) -> None:
    """Write a bundle as a folder or a zip; the checkpoint must have valid signatures."""
    named = _check_session_ids(sessions)
    witness = load_signed_checkpoint(checkpoint, None) if checkpoint else None
    with _create_atomically(to) as new:
        folder = new.with_suffix(".folder") if to.suffix == ".zip" else new
        folder.mkdir()
        manifest = await fetch_bundle(service, named, folder)
        if checkpoint is not None:
            shutil.copyfile(checkpoint, folder / CHECKPOINT_FILE)
        if folder != new:
            pack_bundle(folder, new)
    instruction = f"unpack {to}, then" if to.suffix == ".zip" else f"cd {to};"
    of = format_count(len(named), "session")
    print_warnings(list_unreadable_events(manifest.sessions))
    print_warnings(list_uncovered_sessions(manifest.sessions, witness))
    print_warnings(await describe_late_redactions(service, named, BUNDLE_FORM))
    create_error_console().print(
        f"a bundle of {of}; to check it: {instruction} python3 -I verify.py"
    )


async def fetch_bundle(
    service: ServiceClient, sessions: Sequence[str], folder: Path
) -> BundleManifest:
    """Write a bundle of sessions into an empty folder, and return its manifest."""
    listed = [await _fetch_session(service, session, folder) for session in sessions]
    manifest = _merge_bundle_lists(listed)
    for name, content in iterate_bundle_files(manifest):
        (folder / name).write_bytes(content)
    return manifest


async def _fetch_session(service: ServiceClient, session: str, folder: Path) -> BundleManifest:
    """Fetch the bundle of one session and unpack it into the common folder."""
    packed = folder / "packed.zip"
    await _write_file(stream_export(service, session, BUNDLE_FORM), packed)
    manifest = unpack_bundle(packed, folder)
    packed.unlink()
    return manifest


def _merge_bundle_lists(lists: Sequence[BundleManifest]) -> BundleManifest:
    blobs = dict.fromkeys(digest for listed in lists for digest in listed.blobs)
    sessions = {one.session: one for listed in lists for one in listed.sessions}
    blob_keys = {digest: key for listed in lists for digest, key in listed.blob_keys.items()}
    return lists[-1].model_copy(
        update={
            "sessions": tuple(sessions.values()),
            "blobs": tuple(blobs),
            "blob_keys": blob_keys,
        }
    )


async def _write_file(pieces: AsyncGenerator[bytes], to: Path) -> None:
    with to.open("xb") as file:
        async for piece in pieces:
            file.write(piece)


@contextmanager
def _create_atomically(to: Path) -> Generator[Path]:
    """Yield a temporary path that becomes `to` at the end; raises `Refused` if `to` exists."""
    if to.exists():
        raise Refused("folder-exists", f"{to} is there already", fix="name another place")
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.") as beside:
        yield Path(beside) / to.name
        (Path(beside) / to.name).rename(to)
