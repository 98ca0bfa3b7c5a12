"""Golden bytes of events of the library and of alerts.

`python -m tests.events.golden_library_bytes` writes the bytes of event types that have none yet.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.generators.alert_samples import build_alert_samples
from tests.support.generators.event_samples import build_library_samples
from turnlog.events.codec import CommandRef, EventDraft, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.registry import ALERT_EVENT_TYPES, LIBRARY_FAMILIES, TenantEvent
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY
from turnlog.events.testing import FIRST_EVENT_TIME, TENANT, make_id

GOLDEN = Path(__file__).parent / "golden_library"

GOLDEN_ALERTS = Path(__file__).parent / "golden_alerts"


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
    is_alert = event.type in ALERT_EVENT_TYPES
    family = "turns-fail" if is_alert else LIBRARY_FAMILIES[type(event)]  # type: ignore[index]
    kind = ALERT_HISTORY if is_alert else LIBRARY_HISTORY
    batch = encode_batch(tenant=TENANT, session=family, after=after, drafts=[full], kind=kind)
    return batch.messages[0].payload


def get_golden_path(name: str, event: TenantEvent) -> Path:
    """Return the path of a sample's bytes."""
    folder = GOLDEN_ALERTS if event.type in ALERT_EVENT_TYPES else GOLDEN
    return folder / f"{name}.{event.type.rpartition('.')[2]}.json"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    GOLDEN_ALERTS.mkdir(exist_ok=True)
    for name, event in {**build_library_samples(), **build_alert_samples()}.items():
        path = get_golden_path(name, event)
        if not path.exists():
            path.write_bytes(encode_event(event))
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
