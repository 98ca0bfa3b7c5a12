"""Typed events of a session, and the log that stores them.

The names below are what a consumer needs. Each is imported on first access, so a program that only
needs an error does not load the event classes. `make docs` adds the events of the registry. The
NATS log is in `turnlog.events.jetstream`, because it needs more dependencies than this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnlog.events.codec import CommandRef, EventBatch, EventDraft, decode_event, encode_batch
    from turnlog.events.content import (
        Content,
        Digest,
        ErasedText,
        PlainText,
        SealedText,
        compute_digest,
        parse_structured_text,
    )
    from turnlog.events.envelope import ChainHead, Envelope, RecordedEvent
    from turnlog.events.errors import (
        Conflict,
        Corrupt,
        Refused,
        TooLarge,
        TurnlogError,
        Unavailable,
    )
    from turnlog.events.model.call_events import (
        AttemptEnded,
        AttemptStarted,
        CallCompleted,
        ContextAssembled,
    )
    from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled
    from turnlog.events.model.manifest import Manifest, PromptPart
    from turnlog.events.model.memory_events import (
        HistorySummarised,
        MemoryPurged,
        SummaryBegun,
        SummaryFailed,
        SummaryUndone,
    )
    from turnlog.events.model.prompt_events import PromptsSnapshotted
    from turnlog.events.model.redaction_events import (
        ContentErased,
        ErasureBegun,
        ReplyRedacted,
        TextRedacted,
    )
    from turnlog.events.model.retrieval_events import (
        EntryFeedbackGiven,
        FeedbackGiven,
        KnowledgeRetrieved,
        QueriesFailed,
        QueriesRequested,
    )
    from turnlog.events.model.session_events import (
        BlueprintMoved,
        PhaseEntered,
        ProfileSwitched,
        SessionClosed,
        SessionDescribed,
        SessionOpened,
        ShareChanged,
    )
    from turnlog.events.model.tool_events import (
        ApprovalDecided,
        ApprovalRequested,
        PlanMade,
        SchemasRequested,
        StepPlanned,
        ToolCalled,
        ToolListChanged,
        ToolReturned,
        ToolsSnapshotted,
        ToolStarted,
    )
    from turnlog.events.model.turn_events import (
        ChoiceRecorded,
        ReferenceUpdated,
        TurnCancelled,
        TurnCompleted,
        TurnDisplayed,
        TurnExcluded,
        TurnFailed,
        TurnQueued,
        TurnReleased,
        TurnResolved,
        TurnRestored,
        TurnSubmitted,
    )
    from turnlog.events.registry import (
        EVENT_NAMES,
        Event,
        KnownEvent,
        UnknownEvent,
        format_event_name,
    )
    from turnlog.events.tokens import (
        AttemptAbandoned,
        AttemptAlive,
        AttemptClosed,
        AttemptReset,
        Token,
        TokenEvent,
    )

__all__ = [
    "EVENT_NAMES",
    "ApprovalDecided",
    "ApprovalRequested",
    "AttemptAbandoned",
    "AttemptAlive",
    "AttemptClosed",
    "AttemptEnded",
    "AttemptReset",
    "AttemptStarted",
    "BlueprintMoved",
    "CallCompleted",
    "ChainHead",
    "ChildEnded",
    "ChildRequested",
    "ChildSettled",
    "ChoiceRecorded",
    "CommandRef",
    "Conflict",
    "Content",
    "ContentErased",
    "ContextAssembled",
    "Corrupt",
    "Digest",
    "EntryFeedbackGiven",
    "Envelope",
    "ErasedText",
    "ErasureBegun",
    "Event",
    "EventBatch",
    "EventDraft",
    "FeedbackGiven",
    "HistorySummarised",
    "KnowledgeRetrieved",
    "KnownEvent",
    "Manifest",
    "MemoryPurged",
    "PhaseEntered",
    "PlainText",
    "PlanMade",
    "ProfileSwitched",
    "PromptPart",
    "PromptsSnapshotted",
    "QueriesFailed",
    "QueriesRequested",
    "RecordedEvent",
    "ReferenceUpdated",
    "Refused",
    "ReplyRedacted",
    "SchemasRequested",
    "SealedText",
    "SessionClosed",
    "SessionDescribed",
    "SessionOpened",
    "ShareChanged",
    "StepPlanned",
    "SummaryBegun",
    "SummaryFailed",
    "SummaryUndone",
    "TextRedacted",
    "Token",
    "TokenEvent",
    "TooLarge",
    "ToolCalled",
    "ToolListChanged",
    "ToolReturned",
    "ToolStarted",
    "ToolsSnapshotted",
    "TurnCancelled",
    "TurnCompleted",
    "TurnDisplayed",
    "TurnExcluded",
    "TurnFailed",
    "TurnQueued",
    "TurnReleased",
    "TurnResolved",
    "TurnRestored",
    "TurnSubmitted",
    "TurnlogError",
    "Unavailable",
    "UnknownEvent",
    "compute_digest",
    "decode_event",
    "encode_batch",
    "format_event_name",
    "parse_structured_text",
]

# With imports on demand `turnlog --help` takes 0.42 times the processor time
# (`python -m benchmarks.library_patches`).
_MODULES = (
    *("errors", "content", "envelope", "registry", "model.manifest", "tokens", "codec"),
    *("model.turn_events", "model.call_events", "model.tool_events", "model.session_events"),
    *("model.memory_events", "model.prompt_events", "model.child_events"),
    *("model.retrieval_events", "model.redaction_events"),
)
"""The modules searched for a name, the cheapest to import first."""

if not TYPE_CHECKING:  # Hidden from type checkers, which would otherwise accept any name.

    def __getattr__(name: str) -> object:
        for module in _MODULES if name in __all__ else ():
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
