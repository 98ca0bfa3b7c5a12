"""The zip of a bundle: streamed for a session with its children, or packed from a folder.

A streamed zip holds in memory only a page of events, the digests of blobs, and one batch of blobs
or one picture or file; its manifest comes last, because its content is known only then. Entries
have no time of their own, so the same files give the same bytes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import IO, Final, Literal
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.seals.leaf_sets import LeafRuns
from turnlog.events.seals.sealed_payload import get_box_key
from turnlog.projections.audit.export.bundle_format import (
    MANIFEST_FILE,
    README_FILE,
    VERIFIER_FILE,
    BundledSession,
    BundleManifest,
    UndecodableLine,
    build_blob_path,
    build_session_path,
)
from turnlog.projections.audit.record.erasure_reach import is_closed
from turnlog.projections.audit.record.session_replay import (
    collect_blob_digests,
    collect_media_digests,
)
from turnlog.projections.audit.verify.erasure_checks import list_library_runs
from turnlog.services.audit.source_closures import load_source_erasures
from turnlog.services.bundle.export_source import ExportBuffer, ExportSource, encode_line
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.paged_events import PagedEvent, UndecodablePagedEvent

BLOBS_AT_ONCE: Final = 16
"""Number of blobs held in memory at a time."""

_FOLDER: Final = Path(__file__).parent

_EMBEDDED_IMPORT: Final = re.compile(
    r"^from turnlog\.services\.bundle\.(\w+) import (?:\([^)]*\)|.+)\n", re.MULTILINE
)
"""A line by which a verifier imports a module that its file has in it."""

_MAIN_LINE: Final = 'if __name__ == "__main__":\n'

VerifierName = Literal["verifier", "proof_verifier", "consistency_verifier", "forgetting_verifier"]
"""A program that runs where this package is not installed."""


def build_verifier(program_name: VerifierName = "verifier") -> str:
    """Return a verifier as one file, which runs where this package is not installed.

    The program comes first, then the modules that it imports from this package, and theirs.
    """
    source = (_FOLDER / f"{program_name}.py").read_text()
    sections, pending = dict[str, str](), _EMBEDDED_IMPORT.findall(source)
    while pending:
        module = pending.pop(0)
        if module not in sections:
            section = _read_section(module)
            pending += _EMBEDDED_IMPORT.findall(section)
            sections[module] = _EMBEDDED_IMPORT.sub("", section)
    program, main_line, start = _EMBEDDED_IMPORT.sub("", source).partition(_MAIN_LINE)
    return "".join((program, *sections.values(), main_line, start))


def _read_section(module: str) -> str:
    """Return the code of a module, below the first line of its docstring as a comment.

    What a module does that is a program itself is left out.
    """
    source, _, _ = (_FOLDER / f"{module}.py").read_text().partition(_MAIN_LINE)
    docstring, _, code = source.partition("from __future__ import annotations\n")
    title = docstring.split("\n")[0].removeprefix('"""')
    return f"# {title}\n{code}\n\n"


def iterate_bundle_files(listed: BundleManifest) -> Iterator[tuple[str, bytes]]:
    """Yield the files beside sessions and blobs: the README, the verifier and the manifest."""
    yield README_FILE, (_FOLDER / "bundle_readme.md").read_bytes()
    yield VERIFIER_FILE, build_verifier().encode()
    yield MANIFEST_FILE, listed.encode_json()


@dataclass(slots=True, kw_only=True)
class ExportedEvents:
    """The manifest's figures of the exported events."""

    event_count: int = 0
    last_stored: bytes = b""
    undecodable: list[UndecodableLine] = field(default_factory=list[UndecodableLine])
    children: dict[str, None] = field(default_factory=dict[str, None])
    """The child sessions that the events request turns of, in order."""
    keys: dict[int, str] = field(default_factory=dict[int, str])
    """The keys of the boxes of sealed events, by line."""

    def add_page(self, page: Sequence[PagedEvent]) -> None:
        found = (each for each in page if isinstance(each, UndecodablePagedEvent))
        self.undecodable += [
            UndecodableLine(number=each.number, detail=each.detail) for each in found
        ]
        lines = enumerate(page, self.event_count + 1)
        found_keys = ((number, get_box_key(each.stored)) for number, each in lines)
        self.keys |= {number: key.hex() for number, key in found_keys if key}
        self.event_count, self.last_stored = self.event_count + len(page), page[-1].stored
        events = (each.event for each in _filter_decoded(page))
        self.children |= {each.session: None for each in events if isinstance(each, ChildRequested)}

    def describe_session(self, session: str) -> BundledSession:
        """Return the manifest's entry of the session."""
        return BundledSession(
            session=session,
            events=self.event_count,
            head=compute_digest(self.last_stored),
            unread=tuple(self.undecodable),
            keys=self.keys,
        )


async def export_zip(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the zip in pieces: the session, then its children, then the blobs of all of them."""
    drain, named, media = ExportBuffer(), dict[Digest, None](), dict[Digest, None]()
    tenant, _ = source.key
    bundled, gone = dict[str, BundledSession](), list[LeafRuns]()
    pending = [source]
    with ZipFile(drain, "w") as archive:
        while pending:
            one, events = pending.pop(0), ExportedEvents()
            session = one.key[1]
            file = _build_zip_entry(build_session_path(session))
            with archive.open(file, "w", force_zip64=True) as lines:
                async for page in one.iterate_pages():
                    await run_in_thread(partial(_write_lines, lines, page))
                    events.add_page(page)
                    closed = filter(is_closed, _filter_decoded(page))
                    gone += filter(None, map(list_library_runs, closed))
                    named |= dict.fromkeys(collect_blob_digests(_filter_readable(page)))
                    media |= dict.fromkeys(collect_media_digests(_filter_readable(page)))
                    yield drain.pop_bytes()
            bundled[session] = events.describe_session(session)
            opened = {*bundled, *(each.key[1] for each in pending)}
            unopened = [each for each in events.children if each not in opened]
            children = [await one.open_child(each) for each in unopened]
            pending += [each for each in children if each]
        blob_keys = dict[Digest, str]()
        for digests in _split_digests(tuple(named)):
            blobs = await source.records.load_blobs(tenant, digests)
            for digest in await source.records.list_erased(tenant, digests, blobs):
                del named[digest]  # Of a text of the library; what had it is erased too.
            blob_keys |= await source.records.load_digest_keys(tenant, blobs)
            await run_in_thread(partial(_write_blobs, archive, blobs))
            yield drain.pop_bytes()
        for digest in (each for each in media if each not in named):
            with suppress(Corrupt):  # The verifier says that it is missing.
                data = await source.records.load_media(tenant, digest)
                blob_keys |= await source.records.load_digest_keys(tenant, (digest,))
                await run_in_thread(partial(_write_media, archive, digest, data))
            yield drain.pop_bytes()
        listed = _build_bundle_list(
            source, tuple(bundled.values()), tuple({**named, **media}), blob_keys
        )
        if gone:
            begun = await load_source_erasures(source.library, tenant, gone)
            stored = tuple(each.stored.decode() for each in begun)
            listed = listed.model_copy(update={"source_erasures": stored})
        for name, content in iterate_bundle_files(listed):
            archive.writestr(_build_zip_entry(name), content)
    yield drain.pop_bytes()


# Compression takes time, so both writers run in a thread and do not block other requests.


def _write_lines(lines: IO[bytes], page: Sequence[PagedEvent]) -> None:
    lines.write(b"".join(map(encode_line, page)))


def _write_blobs(archive: ZipFile, blobs: Mapping[Digest, str]) -> None:
    for digest, text in blobs.items():
        archive.writestr(_build_zip_entry(build_blob_path(digest)), text)


def _write_media(archive: ZipFile, digest: Digest, data: bytes) -> None:
    """Write bytes that are compressed already, as pictures are."""
    archive.writestr(ZipInfo(build_blob_path(digest)), data)


def _build_zip_entry(name: str) -> ZipInfo:
    made = ZipInfo(name)
    made.compress_type = ZIP_DEFLATED
    return made


def _split_digests(digests: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
    rest = iter(digests)
    while some := tuple(islice(rest, BLOBS_AT_ONCE)):
        yield some


def _filter_decoded(page: Sequence[PagedEvent]) -> Iterator[RecordedEvent]:
    return (each for each in page if not isinstance(each, UndecodablePagedEvent))


def _filter_readable(page: Sequence[PagedEvent]) -> Iterator[RecordedEvent]:
    """Yield the events whose words are not erased; what the others name is erased too."""
    return (each for each in _filter_decoded(page) if not is_closed(each))


def _build_bundle_list(
    source: ExportSource,
    sessions: tuple[BundledSession, ...],
    blobs: tuple[Digest, ...],
    blob_keys: dict[Digest, str],
) -> BundleManifest:
    tenant, _ = source.key
    return BundleManifest(
        made_at=source.requested_at,
        made_by=f"turnlog {metadata.version('turnlog-services')}",
        tenant=tenant,
        sessions=sessions,
        blobs=blobs,
        blob_keys=blob_keys,
    )


def pack_bundle(folder: Path, to: Path) -> None:
    """Write the files of a bundle folder as a zip."""
    with ZipFile(to, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = _build_zip_entry(path.relative_to(folder).as_posix())
            with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
