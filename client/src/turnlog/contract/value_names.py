"""The values that a field may have, where it is one of a closed set of words."""

from __future__ import annotations

from typing import Literal

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "safety", "recitation", "other"
]
"""Why a model stopped, in one vocabulary for all providers."""

MediaKind = Literal["image", "audio", "file"]
"""What a part of a turn that is no text is sent as."""

TurnRole = Literal["user", "system"]
"""Who a turn's text is from. A turn of the system has no reply."""

InputFindingAction = Literal["mask", "note"]
"""What was done with a finding in a turn that was recorded."""

RedactedPart = Literal["reply", "text", "turn"]
"""What of a turn is redacted: its reply, what a person submitted, or both."""

ApprovalDecision = Literal["approve", "refuse"]
"""What was decided about a tool that needs approval."""

ChildOutcome = Literal["answered", "failed", "cancelled", "timed-out", "waiting", "withdrawn"]
"""What came of a child's turn, as its parent sees it."""

ApprovalStatus = Literal["pending", "approved", "refused"]
"""Whether an approval waits for a person, or how it was decided."""

SessionOrder = Literal["opened", "last", "near", "cost", "failed"]
"""What comes first in a list of sessions: the latest opened, the latest active, the nearest to its
budget, the dearest, or the one with most failed turns.
"""

FeedbackVote = Literal["up", "down", "none"]
"""A vote; `none` takes the vote before it back."""

ShareAccess = Literal["read", "submit"]
"""What a user may do in a session that another one shares: read it, or take part in it."""

RoleName = Literal["caller", "watcher", "operator", "auditor", "administrator"]
"""What a principal is for."""

SignIn = Literal["key", "root-key", "oidc", "browser-token", "proxy", "none"]
"""How a principal proved who it is; `none` where a service asks nobody."""

ErasedPart = Literal["text", "work", "turn"]
"""What of a turn is erased: what was submitted with it, what came of it, or both."""

ErasureStatus = Literal["planned", "begun", "erased", "incomplete"]
"""How far an erasure is; `incomplete` where words were found that it should have reached."""
