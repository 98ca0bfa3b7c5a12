"""One sample of each event of keys and of tenants."""

from __future__ import annotations

from turnlog.events.content import compute_digest
from turnlog.events.model.installation.access_events import (
    AccessEvent,
    KeyCreated,
    KeyRevoked,
    KeyRotated,
    KeyUsed,
)
from turnlog.events.model.installation.tenant_events import TenantConfigured


def build_key_samples() -> dict[str, AccessEvent | TenantConfigured]:
    """Return a sample by the name of each event."""
    return {
        "key-created": KeyCreated(
            id="0a1b2c3d4e5f",
            name="travel-desk",
            tenant="travel",
            roles=("caller", "watcher"),
            user="ann",
            hash=compute_digest("a key"),
            expires="2027-01-31T12:00:00.000000Z",
        ),
        "key-rotated": KeyRotated(
            id="0a1b2c3d4e5f",
            hash=compute_digest("another key"),
            previous_until="2026-12-01T12:00:00.000000Z",
            expires="2027-06-30T12:00:00.000000Z",
        ),
        "key-revoked": KeyRevoked(id="0a1b2c3d4e5f"),
        "key-used": KeyUsed(id="0a1b2c3d4e5f", at="2026-12-01T08:30:00.000000Z"),
        "tenant-configured": TenantConfigured(
            tenant="travel",
            models=("openai/gpt-4o", "mistral/*"),
            provider_keys={"openai": "env:TRAVEL_OPENAI_KEY"},
            max_open_turns=200,
            max_waiting_turns=1_000,
            body_bytes_per_minute=10_000_000,
        ),
    }
