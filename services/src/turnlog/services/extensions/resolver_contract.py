"""The contract of a resolver: its request, its answer, and how it may fail.

A resolver is called before any model, and may be called twice: with what the text says, and again
with what the turn inherits. So a call must not change anything. The answer is validated before any
of it is recorded, and failures do not quote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from turnlog.events.errors import TurnlogError
from turnlog.projections.blueprint.storable_json import check_json

ResolverFailureCode = Literal[
    "resolver_timeout", "resolver_unreachable", "resolver_failed", "resolver_malformed"
]
"""`resolver_failed` is an error or an exception, `resolver_malformed` an invalid answer."""


class ResolverFailure(TurnlogError):
    """A resolver did not answer; the detail quotes nothing of what it sent."""

    retry_after: float | None = None

    def __init__(self, code: ResolverFailureCode, detail: str, *, retryable: bool) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: ResolverFailureCode = code
        self.detail = detail
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class ResolverRequest:
    """The request to a resolver."""

    text: str
    identifiers: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Known identifiers of the turn's subject, besides its text."""
    history: tuple[Mapping[str, JsonValue], ...] = ()
    """Earlier messages that the resolver may see: role, content, created_at and meta."""

    def render_json(self) -> dict[str, JsonValue]:
        """Return the request as JSON values."""
        history: list[JsonValue] = [dict(message) for message in self.history]
        return {"question": self.text, "identifiers": dict(self.identifiers), "history": history}


class Resolver(Protocol):
    """Answers a request; the returned dict has the fields of `ResolverOutcome`."""

    async def __call__(self, question: ResolverRequest) -> dict[str, JsonValue]:
        """Return the answer; any exception is a failure."""
        ...


class ResolverOutcome(BaseModel):
    """The answer of a resolver."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    intent: str | None = Field(default=None, max_length=128)
    """What the user wants."""
    entity: str | None = Field(default=None, min_length=1, max_length=128)
    """Kind of the subject; None for an unroutable question."""
    identifiers: dict[str, JsonValue] = {}
    """Which subject it is, as far as the request shows."""
    found: bool = True
    """Whether there is such a subject; later turns inherit nothing of one that there is not."""
    results: list[JsonValue] | dict[str, JsonValue] = []
    """The data that was found."""
    meta: dict[str, JsonValue] = {}
    """Data about the results; it is returned to clients but never interpreted."""
    answer: str = ""
    """The reply when no model answers."""


def validate_outcome(answer: object, name: str) -> ResolverOutcome:
    """Validate an answer; raise `ResolverFailure` with `resolver_malformed`."""
    try:
        outcome = ResolverOutcome.model_validate(answer)
        check_json(outcome.model_dump(), "outcome")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field_path = ".".join(str(step)[:80] for step in first["loc"]) or "the answer"
        raise create_malformed_failure(f"{name}: {field_path}: {first['msg']}") from None
    except (TurnlogError, TypeError, ValueError, RecursionError) as error:
        raise create_malformed_failure(f"{name}: {type(error).__name__}") from None
    return outcome


def create_malformed_failure(detail: str) -> ResolverFailure:
    """Return the failure for an invalid answer."""
    return ResolverFailure("resolver_malformed", detail, retryable=False)
