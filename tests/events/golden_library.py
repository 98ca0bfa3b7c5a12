"""Golden bytes of segment events.

`python -m tests.events.golden_segment_events` writes the bytes of event types that have none yet.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from turnlog.events.codec import Command, Draft, write_library
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head
from turnlog.events.library import SEGMENTS, LibraryEvent
from turnlog.events.testing import AT, TENANT, an_id
from turnlog.events.testing.library_samples import library_samples

GOLDEN = Path(__file__).parent / "golden_library"


def bytes_of(event: LibraryEvent) -> bytes:
    """Encode an event with every field of the envelope filled."""
    command = Command("import-17", digest_of("the command's body"))
    draft = Draft(event, an_id(7), AT, "/turnlog/test", "user:ann", command=command)
    full = replace(
        draft,
        causation=an_id(6),
        correlation=an_id(1),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    after = Head(6, 41, digest_of("the event before"))
    return write_library(TENANT, SEGMENTS, after, [full]).messages[0].payload


def path_of(name: str, event: LibraryEvent) -> Path:
    """Return the path of a sample's bytes."""
    return GOLDEN / f"{name}.{event.type.rpartition('.')[2]}.json"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, event in library_samples().items():
        path = path_of(name, event)
        if not path.exists():
            path.write_bytes(bytes_of(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
