"""The contract of a resolver: what it is asked, what it answers, and how it may fail.

A resolver is asked before any model, and may be asked twice: once with what the text says, and
again with what the turn inherits. So asking must change nothing. What it answers is checked
before anything of it is recorded; nothing it said is repeated in a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from turnlog.events.errors import TurnlogError
from turnlog.projections.blueprint.storable import checked_json

Code = Literal["resolver_timeout", "resolver_unreachable", "resolver_failed", "resolver_malformed"]
"""`failed` is one that says so, or raises; `malformed` an answer that is not one."""


class ResolverFailure(TurnlogError):
    """A resolver did not answer; nothing it said is repeated in the detail."""

    retry_after: float | None = None

    def __init__(self, code: Code, detail: str, *, retryable: bool) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: Code = code
        self.detail = detail
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class Question:
    """What a resolver is asked."""

    text: str
    identifiers: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What the turn is known to be about, beside its text."""
    history: tuple[Mapping[str, JsonValue], ...] = ()
    """What was said before, as far as the planner may be told: role, content, created_at, meta."""

    def wire(self) -> dict[str, JsonValue]:
        """Give it as plain values."""
        told: list[JsonValue] = [dict(message) for message in self.history]
        return {"question": self.text, "identifiers": dict(self.identifiers), "history": told}


class Resolver(Protocol):
    """Answers a question; what it gives has the fields of `Outcome`."""

    async def __call__(self, question: Question) -> dict[str, JsonValue]:
        """Answer it; any exception is a failure."""
        ...


class Outcome(BaseModel):
    """What a resolver answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    intent: str | None = Field(default=None, max_length=128)
    """What is wanted."""
    entity: str | None = Field(default=None, min_length=1, max_length=128)
    """What kind of thing it is about; none for a question that leads nowhere."""
    identifiers: dict[str, JsonValue] = {}
    """Which one, as far as the question and what it was asked with say."""
    results: list[JsonValue] | dict[str, JsonValue] = []
    """What was found."""
    meta: dict[str, JsonValue] = {}
    """About the results; given out, never interpreted."""
    answer: str = ""
    """What is answered where no model answers."""


def outcome_of(said: object, name: str) -> Outcome:
    """Check what a resolver answered; raises `ResolverFailure` `resolver_malformed`."""
    try:
        outcome = Outcome.model_validate(said)
        checked_json(outcome.model_dump(), "outcome")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step)[:80] for step in first["loc"]) or "the answer"
        raise malformed(f"{name}: {where}: {first['msg']}") from None
    except (TurnlogError, TypeError, ValueError, RecursionError) as error:
        raise malformed(f"{name}: {type(error).__name__}") from None
    return outcome


def malformed(detail: str) -> ResolverFailure:
    """Make the failure of an answer that is none."""
    return ResolverFailure("resolver_malformed", detail, retryable=False)
