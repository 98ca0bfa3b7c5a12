"""Golden bytes: the stored form of each event type when it was first released.

`python -m tests.events.golden_events` writes the bytes of event types that have none yet. It never
changes existing files, because every released version must stay readable.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from turnlog.events.codec import Command, write
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head
from turnlog.events.kinds import KnownEvent
from turnlog.events.testing import SESSION, TENANT, an_id, draft
from turnlog.events.testing.samples import samples

GOLDEN = Path(__file__).parent / "golden"


def bytes_of(event: KnownEvent) -> bytes:
    """Encode an event with every field of the envelope filled."""
    command = Command("order-17", digest_of("the command's body"))
    full = replace(
        draft(event, 7, command=command),
        causation=an_id(6),
        correlation=an_id(1),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    after = Head(6, 41, digest_of("the event before"))
    return write(TENANT, SESSION, after, [full]).messages[0].payload


def path_of(name: str, event: KnownEvent) -> Path:
    """Return the path of a sample's bytes, as in `turn-submitted.v1.json`."""
    version = event.type.rpartition(".")[2]
    return GOLDEN / f"{name}.{version}.json"


def main() -> None:
    for name, event in samples().items():
        path = path_of(name, event)
        if not path.exists():
            path.write_bytes(bytes_of(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
