"""Golden bytes: the stored form of each event type when it was first released.

`python -m tests.events.golden_bytes` writes the bytes of event types that have none yet. It never
changes existing files, because every released version must stay readable.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.generators.event_samples import build_samples
from turnlog.events.codec import CommandRef, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import SESSION, TENANT, make_draft, make_id

GOLDEN = Path(__file__).parent / "golden"


def encode_event(event: KnownEvent) -> bytes:
    """Write an event with every field of the envelope filled."""
    command = CommandRef("order-17", compute_digest("the command's body"))
    full = replace(
        make_draft(event, 7, command=command),
        causation=make_id(6),
        correlation=make_id(1),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    after = ChainHead(6, 41, compute_digest("the event before"))
    return encode_batch(TENANT, SESSION, after, [full]).messages[0].payload


def get_golden_path(name: str, event: KnownEvent) -> Path:
    """Return the path of a sample's bytes, as in `turn-submitted.v1.json`."""
    version = event.type.rpartition(".")[2]
    return GOLDEN / f"{name}.{version}.json"


def main() -> None:
    for name, event in build_samples().items():
        path = get_golden_path(name, event)
        if not path.exists():
            path.write_bytes(encode_event(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
