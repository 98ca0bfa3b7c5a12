"""The request bodies of erasures."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.contract.payload_models import RequestModel
from turnlog.contract.request_values import USER_NAME_PATTERN, CommandReason, TurnNumber
from turnlog.contract.value_names import ErasedPart


class EraseRequest(RequestModel):
    """Erases all words of a session, or something of one turn, for good."""

    turn: TurnNumber | None = None
    """The number of the turn; without one all words of the session are erased, and it is closed."""
    of: ErasedPart = "turn"
    """What of the turn: the `text` that was submitted with it, the `work` that came of it, or both.
    """
    with_replies: bool = False
    """Whether what came of later turns whose prompts had the words is erased too: it may repeat
    them.
    """
    reason: CommandReason
    """The reason, recorded for good and never sealed: name no person."""
    dry_run: bool = False
    """Only says what would be erased."""


class EraseUserRequest(RequestModel):
    """Erases what a user said, in all sessions."""

    user: Annotated[str, Field(pattern=USER_NAME_PATTERN)]
    """The user: sessions of this user are erased as a whole, and turns that this user asked in
    sessions of others.
    """
    with_replies: bool = False
    """Whether what came of other turns whose prompts had the words is erased too."""
    reason: CommandReason
    """The reason, recorded for good and never sealed: name no person."""
    dry_run: bool = False
    """Only says what would be erased."""


class EraseSourceRequest(RequestModel):
    """Erases texts of the library for good."""

    source: Annotated[str, Field(min_length=1, max_length=1_000)]
    """What is erased, in all versions: `document:COLLECTION/ENTRY`, `collection:COLLECTION`,
    `segment:NUMBER`, one version as `segment:NUMBER@VERSION`,
    `override:BLUEPRINT/CATEGORY/USER`, or `overrides:USER` for all own prompts of a user.
    """
    reason: CommandReason
    """The reason, recorded for good and never sealed: name no person."""
    dry_run: bool = False
    """Only says what would be erased."""
