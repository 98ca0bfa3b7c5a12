"""One event of the log of reads, with every field filled."""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.model.installation.read_events import RecordRead


def build_read_samples() -> Mapping[str, RecordRead]:
    """Return one event of every type of the stream of reads."""
    return {
        "record-read": RecordRead(
            what="diff",
            session="s1",
            call="3.1",
            turn=3,
            other_session="s2",
            other_call="4.1",
            sign_in="key",
            key="k7Qm",
            address="10.0.0.7",
            reason="complaint 4711",
        )
    }
