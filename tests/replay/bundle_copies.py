"""Bundles that a test reads, changes and writes again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlog.events.codec import decode_event
from turnlog.events.content import compute_digest
from turnlog.events.envelope import Envelope, RecordedEvent
from turnlog.projections.audit.export.bundle_format import (
    MANIFEST_FILE,
    BundledSession,
    BundleManifest,
    build_blob_path,
    build_session_path,
)

EventChange = Callable[[dict[str, Any]], None]


@dataclass
class BundleCopy:
    """A bundle that may be changed."""

    bundle_list: BundleManifest
    sessions: dict[str, list[bytes]]
    blobs: dict[str, bytes]
    extra_files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Further files by name."""

    @classmethod
    def read_bundle(cls, folder: Path) -> BundleCopy:
        """Read a bundle."""
        listed = BundleManifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
        names = [each.session for each in listed.sessions]
        sessions = {
            name: (folder / build_session_path(name)).read_bytes().splitlines() for name in names
        }
        blobs = {digest: (folder / build_blob_path(digest)).read_bytes() for digest in listed.blobs}
        return cls(listed, sessions, blobs)

    def write_bundle(self, folder: Path) -> Path:
        """Write it."""
        files = {MANIFEST_FILE: self.bundle_list.encode_json(), **self.extra_files}
        files |= {build_blob_path(digest): raw for digest, raw in self.blobs.items()}
        files |= {
            build_session_path(name): b"".join(line + b"\n" for line in lines)
            for name, lines in self.sessions.items()
        }
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    def copy_bundle(self) -> BundleCopy:
        return deepcopy(self)

    def read_events(self, session: str) -> tuple[RecordedEvent, ...]:
        """Give a session's events as they lay in the log."""
        return read_positioned_events(self.sessions[session])

    def read_texts(self) -> Mapping[str, str]:
        """Return the blobs as texts; nothing reads those of them that are pictures or files."""
        return {digest: raw.decode(errors="replace") for digest, raw in self.blobs.items()}

    def change_event(self, session: str, sequence: int, change: EventChange) -> None:
        """Change one event and leave the chain after it as it is."""
        event = json.loads(self.sessions[session][sequence - 1])
        change(event)
        self.sessions[session][sequence - 1] = serialize_event(event)

    def rewrite_chain(self, session: str) -> None:
        """Recompute the hash chain of a session, as an attacker with write access would."""
        lines, before = self.sessions[session], None
        for place, line in enumerate(lines):
            event = json.loads(line)
            event |= {"sequence": place + 1} | ({"prevhash": before} if before else {})
            lines[place] = serialize_event(event)
            before = compute_digest(lines[place])

    def rewrite_manifest(self) -> None:
        """Rewrite the bundle list to match the events and blobs that are there now."""
        sessions = tuple(
            BundledSession(session=name, events=len(lines), head=compute_digest(lines[-1]))
            for name, lines in self.sessions.items()
        )
        changed = {"sessions": sessions, "blobs": tuple(self.blobs)}
        self.bundle_list = self.bundle_list.model_copy(update=changed)


def serialize_event(event: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an event."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def list_context_sequences(copy: BundleCopy, session: str) -> list[int]:
    """Return the sequences of the events that record prompts."""
    lines = enumerate(copy.sessions[session], 1)
    return [sequence for sequence, line in lines if b'"turnlog.context-assembled.v1"' in line]


def read_positioned_events(lines: Sequence[bytes]) -> tuple[RecordedEvent, ...]:
    """Read a session's lines; each event gets the place in the stream where it lay.

    The first event of a batch names the position of the event before it, and the events of a batch
    are adjacent. Nothing names the position of the last batch and nothing refers to it, so it is
    placed directly after the batch before.
    """
    before = [Envelope.model_validate_json(line).prevstreamseq for line in lines[1:]]
    last = next(
        (n for n, previous in enumerate(reversed(before)) if previous is not None), len(before)
    )
    place = max(filter(None, before), default=0) + last + 1
    places = [place]
    for previous in reversed(before):
        place = place - 1 if previous is None else previous
        places.append(place)
    return tuple(map(decode_event, lines, reversed(places)))
