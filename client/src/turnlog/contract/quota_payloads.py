"""Requests and responses of quotas."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import MAX_INT, RequestModel, ResponseModel

LimitName = Literal[
    "input_tokens", "output_tokens", "requests_per_hour", "requests_per_day", "unsettled_turns"
]

LimitNumber = Annotated[int, Field(ge=0, le=MAX_INT)]


class QuotaRequest(RequestModel):
    """Sets all limits of a user; null is unlimited."""

    input_tokens: LimitNumber | None = None
    """Tokens that the user's turns may send to models in a calendar month, UTC."""
    output_tokens: LimitNumber | None = None
    """Tokens that the user's turns may receive from models in a calendar month, UTC."""
    requests_per_hour: LimitNumber | None = None
    """Turns that the user may begin in a clock hour, UTC."""
    requests_per_day: LimitNumber | None = None
    """Turns that the user may begin in a calendar day, UTC."""


class LimitUseView(ResponseModel):
    """One limit of a user, and how much of it is left."""

    name: LimitName
    """Which limit: `input_tokens`, `output_tokens`, `requests_per_hour`, `requests_per_day`, or
    `unsettled_turns`, which nobody sets: so many turns of one user may be unsettled at once.
    """
    limit: int
    """The limit."""
    used: int
    """What is used of it."""
    reserved: int
    """What turns that are not settled may still use."""
    left: int
    """What is left; a turn is allowed while it is not 0, and may use more than that."""
    resets_at: str
    """When nothing of it is used any more, RFC 3339, in whole seconds."""


class UserLimitsView(ResponseModel):
    """The limits of a user; null is unlimited."""

    user: str
    """The user's name."""
    input_tokens: int | None
    """Tokens sent to models in a calendar month, UTC."""
    output_tokens: int | None
    """Tokens received from models in a calendar month, UTC."""
    requests_per_hour: int | None
    """Turns that begin in a clock hour, UTC."""
    requests_per_day: int | None
    """Turns that begin in a calendar day, UTC."""


class QuotaPage(ResponseModel):
    """The users who have a limit."""

    sequence: int
    """The sequence of the last edit; 0 before the first."""
    quotas: tuple[UserLimitsView, ...]
    """By name."""


class QuotaView(ResponseModel):
    """The quota of a user in a month, and whether a turn is allowed now."""

    sequence: int
    """The sequence of the last edit of any limit; 0 before the first."""
    period: str
    """The month, such as `2026-11`, UTC."""
    allowed: bool
    """Whether a turn is allowed now: something is left of every limit."""
    message: str
    """Why it is not allowed; empty if it is."""
    limits: UserLimitsView
    """All limits."""
    uses: tuple[LimitUseView, ...]
    """The limits that the user has, with what is left of each."""
    input_tokens: int
    """Tokens sent by the turns that were settled since the user has a quota."""
    output_tokens: int
    """Tokens received by them."""
    unsettled_turns: int
    """Turns that are not settled yet."""
