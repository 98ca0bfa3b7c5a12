"""Golden bytes of events of the library, of alerts and of the log of reads.

`python -m tests.events.golden_library_bytes` writes the bytes of event types that have none yet.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.generators.alert_samples import build_alert_samples
from tests.support.generators.event_samples import build_library_samples
from tests.support.generators.read_samples import build_read_samples
from turnlog.events.codec import CommandRef, EventDraft, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.registry import ALERT_EVENT_TYPES, LIBRARY_FAMILIES, TenantEvent
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY, READ_HISTORY, HistoryKind
from turnlog.events.testing import FIRST_EVENT_TIME, TENANT, make_id

GOLDEN = Path(__file__).parent / "golden_library"

GOLDEN_ALERTS = Path(__file__).parent / "golden_alerts"

GOLDEN_READS = Path(__file__).parent / "golden_reads"


def encode_event(event: TenantEvent) -> bytes:
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
    kind, history = _find_history(event)
    batch = encode_batch(tenant=TENANT, session=history, after=after, drafts=[full], kind=kind)
    return batch.messages[0].payload


def _find_history(event: TenantEvent) -> tuple[HistoryKind, str]:
    if isinstance(event, RecordRead):
        return READ_HISTORY, "2026-11-29"
    if event.type in ALERT_EVENT_TYPES:
        return ALERT_HISTORY, "turns-fail"
    return LIBRARY_HISTORY, LIBRARY_FAMILIES[type(event)]  # type: ignore[index]


def get_golden_path(name: str, event: TenantEvent) -> Path:
    """Return the path of a sample's bytes."""
    folders = {ALERT_HISTORY: GOLDEN_ALERTS, READ_HISTORY: GOLDEN_READS}
    folder = folders.get(_find_history(event)[0], GOLDEN)
    return folder / f"{name}.{event.type.rpartition('.')[2]}.json"


def main() -> None:
    for folder in (GOLDEN, GOLDEN_ALERTS, GOLDEN_READS):
        folder.mkdir(exist_ok=True)
    samples = {**build_library_samples(), **build_alert_samples(), **build_read_samples()}
    for name, event in samples.items():
        path = get_golden_path(name, event)
        if not path.exists():
            path.write_bytes(encode_event(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
