"""One sample of each event of retention, with every field filled."""

from __future__ import annotations

from turnlog.events.model.installation.retention_events import (
    HoldPlaced,
    HoldReleased,
    RetentionEvent,
    RetentionPolicyRemoved,
    RetentionPolicySet,
    RetentionScope,
)


def build_retention_samples() -> dict[str, RetentionEvent]:
    """Return a sample by the name of each event."""
    return {
        "retention-policy-set": RetentionPolicySet(
            name="invoices",
            where=RetentionScope(blueprint="billing", labels=("invoice", "paid")),
            keep_seconds=315_360_000,
            law="Commercial Code, section 257",
            erase_seconds=320_000_000,
        ),
        "retention-policy-removed": RetentionPolicyRemoved(name="invoices"),
        "hold-placed": HoldPlaced(
            name="case-4711",
            where=RetentionScope(session="s", user="ann"),
            reason="subject of case 4711",
        ),
        "hold-released": HoldReleased(name="case-4711", reason="case 4711 is closed"),
    }
