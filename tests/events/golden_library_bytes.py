"""Golden bytes of library events.

`python -m tests.events.golden_library_bytes` writes the bytes of event types that have none yet.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.generators.event_samples import build_library_samples
from turnlog.events.codec import CommandRef, EventDraft, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.registry import LIBRARY_FAMILIES, LibraryEvent
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.events.testing import FIRST_EVENT_TIME, TENANT, make_id

GOLDEN = Path(__file__).parent / "golden_library"


def encode_event(event: LibraryEvent) -> bytes:
    """Write an event with every field of the envelope filled."""
    command = CommandRef("import-17", compute_digest("the command's body"))
    draft = EventDraft(
        event=event,
        id=make_id(7),
        at=FIRST_EVENT_TIME,
        source="/turnlog/test",
        actor="user:ann",
        command=command,
    )
    full = replace(
        draft,
        causation=make_id(6),
        correlation=make_id(1),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    after = ChainHead(6, 41, compute_digest("the event before"))
    family = LIBRARY_FAMILIES[type(event)]
    return (
        encode_batch(
            tenant=TENANT, session=family, after=after, drafts=[full], kind=LIBRARY_HISTORY
        )
        .messages[0]
        .payload
    )


def get_golden_path(name: str, event: LibraryEvent) -> Path:
    """Return the path of a sample's bytes."""
    return GOLDEN / f"{name}.{event.type.rpartition('.')[2]}.json"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, event in build_library_samples().items():
        path = get_golden_path(name, event)
        if not path.exists():
            path.write_bytes(encode_event(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
