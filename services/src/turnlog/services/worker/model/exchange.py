from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from turnlog.events.turn import FinishReason

FinishReason = FinishReason


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request, as the manifest records it."""

    model: str
    """The name as litellm spells it: `openai/gpt-4o`, `scripted/demo`."""
    messages: tuple[Mapping[str, object], ...]
    tools: tuple[Mapping[str, object], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """Names from the blueprint's `PARAMETERS`; never addresses or keys."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one attempt."""

    input_tokens: int
    """Tokens sent, cached ones included."""
    output_tokens: int
    """Tokens received, reasoning included."""
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """Tokens that the provider counted."""

    usage: ModelUsage


@dataclass(frozen=True, slots=True)
class EstimatedUsage:
    """Tokens that we estimated, since the provider reported none."""

    usage: ModelUsage


@dataclass(frozen=True, slots=True)
class UnknownUsage:
    """The tokens of a lost attempt, which are unknown; not the same as zero."""


AccountedUsage = ReportedUsage | EstimatedUsage | UnknownUsage


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool that the model requests; `arguments` is unparsed JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the reply, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class FinishedAnswer:
    """The end of a reply; `finish_reason` says whether it is whole."""

    finish_reason: FinishReason
    tool_calls: tuple[ModelToolCall, ...]
    usage: ModelUsage | None
    """None if the provider reported none."""
    model: str
    """The model that answered, by the provider's account if it gives one."""
    response_id: str | None


class LanguageModel(Protocol):
    """Answers requests."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | FinishedAnswer, None]:
        """Stream the answer to a request; closing the generator closes the provider's connection.

        The stream ends with exactly one `FinishedAnswer` or raises `ModelFailure`.
        """
        ...
