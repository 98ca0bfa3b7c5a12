"""What a call asks of a model and what streams back.

Plain values, so that the worker, its tests and any other carrier share them without litellm. A
stream ends with exactly one `Finished`, or with a `ModelFailure`; a stream that just stops has not
happened.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from turnlog.events.turn import Finish

FinishReason = Finish


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request, as the manifest records it."""

    model: str
    """As litellm names it: `openai/gpt-4o`, `scripted/demo`."""
    messages: tuple[Mapping[str, object], ...]
    tools: tuple[Mapping[str, object], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """Names out of `PARAMETERS` of the blueprint; addresses and keys are never among them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt."""

    input_tokens: int
    """Tokens sent, cached ones included."""
    output_tokens: int
    """Tokens received, reasoning included."""
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reported:
    """The provider counted."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Estimated:
    """We counted, since the provider did not."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody counted: the attempt was lost. Never the same as zero."""


Accounted = Reported | Estimated | Unknown


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model wants called; `arguments` is its JSON, unread."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the reply, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is whole, or as whole as `finish_reason` says."""

    finish_reason: FinishReason
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None
    """None where the provider gave none: it is not estimated here."""
    model: str
    """The model that answered, by the provider's own account where it gives one."""
    response_id: str | None


class Model(Protocol):
    """Anything that answers requests."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | Finished, None]:
        """Answer; closing the generator closes the provider's connection.

        Raises `ModelFailure` and nothing else of its own.
        """
        ...
