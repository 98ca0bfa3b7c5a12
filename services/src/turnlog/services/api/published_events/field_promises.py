"""Which fields of published events are not promised, each with the reason.

All other fields keep their name, type and meaning for as long as their event has its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FOR_PEOPLE: Final = "a text for people, which may be worded otherwise"

_PROCESS: Final = "the name of a process, which has no fixed form"

_PROVIDER: Final = "a word of the provider, passed on as it is"

_ASSEMBLER: Final = "how a prompt is divided depends on the version of the assembler"

_FOR_WORKERS: Final = "it is for workers; the events that end the call and the turn have it"

_OWN_USE: Final = "a bound for the reads of the release that wrote it"

UNPROMISED_FIELDS: Final[Mapping[str, str]] = {
    "Envelope.source": _PROCESS,
    **{
        f"AttemptClosed.{name}": _FOR_WORKERS
        for name in (
            "usage",
            "first_token",
            "total",
            "tools",
            "response_id",
            "ratings",
            "finish_sent",
            "reasoning",
            "parts",
        )
    },
    "AttemptCost.table": "the name of a price table, which has no fixed form",
    "AttemptEnded.response_id": _PROVIDER,
    "AttemptFault.detail": _FOR_PEOPLE,
    "AttemptStarted.worker": _PROCESS,
    "BlueprintMoved.reach": _OWN_USE,
    "BlueprintMoved.warnings": _FOR_PEOPLE,
    "CallCompleted.repairs": _FOR_PEOPLE,
    "Manifest.parts": _ASSEMBLER,
    "Manifest.steps": _ASSEMBLER,
    "PromptPart.rule": _ASSEMBLER,
    "ReplyFallback.detail": _FOR_PEOPLE,
    "SafetyRating.category": _PROVIDER,
    "SafetyRating.probability": _PROVIDER,
    "SafetyRating.severity": _PROVIDER,
    "SegmentOmission.reason": _FOR_PEOPLE,
    "SessionOpened.reach": _OWN_USE,
    "SessionOpened.warnings": _FOR_PEOPLE,
    "SummaryFailed.detail": _FOR_PEOPLE,
    "QueriesFailed.detail": _FOR_PEOPLE,
    "ToolReturned.detail": _FOR_PEOPLE,
    "ToolsSnapshotted.left_out": _FOR_PEOPLE,
    "ToolsSnapshotted.servers_left_out": _FOR_PEOPLE,
    "TurnFailed.detail": _FOR_PEOPLE,
    "UnreadablePayload.detail": _FOR_PEOPLE,
    "UnreadablePayload.subject": "a subject, or another name of the place",
}
"""Reason by class and field."""
