"""Requests to a model, the answers that stream back, and failures, as plain values.

All adapters and the worker share them. A failure has a code,
the same for all providers, and a detail that is safe to store: a provider's message is never copied
into it, since messages repeat keys and prompts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal, Protocol, cast

from pydantic import JsonValue, SecretStr

from turnlog.events.errors import TurnlogError
from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.call_events import ContextOverflow
from turnlog.events.model.content_parts import MAX_MEDIA_BYTES
from turnlog.events.model.turn_events import FinishReason
from turnlog.projections.blueprint.schema.call_specs import ALLOWED_MODEL_PARAMETERS
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec

FailureCode = Literal[
    "rate_limited",
    "server_error",
    "timeout_connect",
    "timeout_first_token",
    "timeout_stalled",
    "timeout_total",
    "disconnected",
    "error_in_stream",
    "incomplete",
    "malformed",
    "empty",
    "tools_not_offered",
    "content_filtered",
    "context_overflow",
    "too_long",
    "model_off",
    "unauthorised",
    "out_of_credit",
    "unknown_model",
    "bad_request",
    "response_format_refused",
]
"""`incomplete` is an end without a finish reason, `malformed` an unreadable chunk, `empty` an end
without text, `tools_not_offered` a reply that consists of calls of tools that its request did not
offer. `content_filtered` is a refusal before the answer began; an answer that a filter
stopped is a `FinishedAnswer` with that reason. `too_long` is an answer that no event could hold.
`model_off` is a service that was started without a model. `response_format_refused` is a request
that the provider, or litellm for it, refused because of the schema of its answer, and
`out_of_credit` one for which nothing is left to pay with.
"""

RETRYABLE_CODES: frozenset[FailureCode] = frozenset(
    {
        "rate_limited",
        "server_error",
        "timeout_connect",
        "timeout_first_token",
        "timeout_stalled",
        "disconnected",
        "error_in_stream",
        "incomplete",
        "malformed",
        "empty",
        "tools_not_offered",
    }
)
"""Codes for which the same request may succeed later. A call that used up its whole time is not
among them: the next one would take as long.
"""


class ModelFailure(TurnlogError):
    """A failed attempt; `retry_after` is the provider's requested delay in seconds, if any."""

    def __init__(
        self,
        code: FailureCode,
        detail: str = "",
        *,
        retry_after: float | None = None,
        address: str = "",
        unread: str = "",
        is_final: bool = False,
        overflow: ContextOverflow | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code: FailureCode = code
        self.detail = detail
        self.retry_after = retry_after
        self.address = address
        """Host and port that the request was for, for the worker's log; never recorded."""
        self.is_final = is_final
        """Whether the same request would fail again, whatever the code says."""
        self.overflow = overflow
        """The numbers of a `context_overflow`; None if the provider named none."""
        self.unread = unread
        """What the model sent and nothing here can read, as it came, which is recorded."""

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE_CODES and not self.is_final


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request, as the manifest records it."""

    model: str
    """The name as litellm spells it: `openai/gpt-4o`, `scripted/demo`."""
    messages: tuple[Mapping[str, object], ...]
    tools: tuple[Mapping[str, object], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """Names from the blueprint's `PARAMETERS`; never addresses or keys."""
    media_tokens: int = 0
    """Tokens of its pictures, recordings and files, by estimate."""
    timeouts: TimeoutSpec = field(default_factory=TimeoutSpec)
    """How long the model may take, where the blueprint or the operator says it."""
    key: SecretStr | None = None
    """The tenant's own key of the provider; None for the installation's."""
    body: bytes | None = None
    """The body whose digest is on the log, for an adapter that sends it as it is; or None."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one attempt."""

    input_tokens: int
    """Tokens sent, cached ones included."""
    output_tokens: int
    """Tokens received, reasoning included."""
    _: KW_ONLY
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    """Tokens sent that the provider put into its cache, where that has a price."""
    reasoning_tokens: int = 0
    """Zero if litellm reports none."""


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool that the model requests; `arguments` is unparsed JSON."""

    id: str
    name: str
    arguments: str
    signature: str = ""
    """What the provider sent beside it and wants back, as a JSON object; empty if nothing."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of what the model reasons, which is no part of the reply."""

    fields: Mapping[str, JsonValue]
    """The piece as it was sent, by the provider's field."""
    text: str
    """The part of it that can be read; empty for a signature or what is encrypted."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the reply, never empty."""

    text: str


MAX_ENCODED_MEDIA: Final = (MAX_MEDIA_BYTES + 2) // 3 * 4
"""Characters in base64 of the largest picture, recording or file."""

RAW_SOUND_TYPE: Final = "audio/pcm"
"""The type of a recording whose bytes do not say it: samples, as OpenAI streams them."""


@dataclass(frozen=True, slots=True)
class MediaDelta:
    """A picture, a recording or a file in the reply, at the place that the stream has reached."""

    pieces: tuple[str, ...] = field(repr=False)
    """Its bytes in base64; each piece is whole in itself."""
    media_type: str
    """Its type as the provider calls it; empty if it does not."""
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAnswer:
    """The end of a reply; `finish_reason` says whether it is whole."""

    finish_reason: FinishReason
    tool_calls: tuple[ModelToolCall, ...]
    usage: ModelUsage | None
    """None if the provider reported none."""
    model: str
    """The model that answered, by the provider's account if it gives one."""
    response_id: str | None
    """The provider's id of the answer; None if it gives none, whatever litellm makes up then."""
    finish_sent: str | None = None
    """The finish reason in the provider's words, if it is none that we know."""
    ratings: tuple[SafetyRating, ...] = ()
    """The provider's ratings of an answer that its filter cut."""


ModelDelta = TextDelta | ReasoningDelta | MediaDelta | FinishedAnswer


class LanguageModel(Protocol):
    """Answers requests."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Stream the answer to a request; closing the generator closes the provider's connection.

        The stream ends with exactly one `FinishedAnswer` or raises `ModelFailure`.
        """
        ...


def convert_to_plain(value: object) -> object:
    """Return a deep copy with mappings as dicts and sequences as lists.

    Every call gets its own copy: some of litellm's providers remove keys from the messages they
    get.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: convert_to_plain(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(each) for each in cast("list[object]", value)]
    return value


def check_parameters(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parameters; fails with `bad_request` if one is not allowed.

    litellm takes addresses, keys, headers and callbacks by the same arguments as the temperature.
    What a blueprint may not set is therefore refused here as well.
    """
    unknown = sorted(parameters.keys() - ALLOWED_MODEL_PARAMETERS)
    if unknown:
        raise ModelFailure("bad_request", f"parameters not allowed: {', '.join(unknown)}")
    return parameters
