"""The parts of litellm that are used, imported on demand and kept quiet.

Importing litellm takes seconds, fetches tables from the network and reads a `.env` file unless the
environment prevents it, and its logs repeat prompts. So only this module imports it, after setting
the environment. The protocols name what the model layer uses: a litellm release that changes any of
it fails the tests of this package.
"""

from __future__ import annotations

import logging
import os
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from importlib import import_module
from itertools import islice
from typing import Final, Protocol, Self, cast, runtime_checkable

import httpx
from pydantic import JsonValue

from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.services.worker.model.answers.chunk_fields import (
    get_choice,
    get_field,
    read_finish_reason,
    read_sequence,
)
from turnlog.services.worker.model.answers.reported_usage import has_usage
from turnlog.services.worker.model.bounded_responses import BoundedTransportFactory
from turnlog.services.worker.model.model_types import ModelFailure

_ENVIRONMENT: Mapping[str, str] = {
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Prevents tables from the network and settings from a `.env` file in the working directory."""

_OLLAMA_PREFIXES = ("ollama/", "ollama_chat/")

_DEFERRED_FLAG = "_on_deferred_stream_complete"

DETAILS_FIELD: Final = "reasoning_details"
"""The field of OpenRouter's reasoning, whose chunks litellm drops where they have nothing else."""

_LITELLM_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class LitellmStream(Protocol):
    """A streamed answer of litellm."""

    chunks: list[object]
    """Where litellm keeps the raw chunks, with the provider's own usage."""
    completion_stream: object
    logging_obj: object
    """Computes usage and cost once the answer is whole."""
    received_finish_reason: str | None
    """The provider's finish reason; the chunks say `stop` if there was none."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> object: ...

    async def fetch_stream(self) -> object: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class LitellmParser(Protocol):
    """One of litellm's parsers of streamed lines."""

    streaming_response: AsyncIterable[object]


class LitellmLibrary(Protocol):
    model_cost: MutableMapping[str, Mapping[str, object]]
    suppress_debug_info: bool

    async def acompletion(self, **arguments: object) -> LitellmStream: ...


class LitellmHandler(Protocol):
    """The class of litellm that creates the transports of all its clients."""

    create_async_transport: Callable[..., httpx.AsyncBaseTransport | None]


def load_litellm() -> LitellmLibrary:
    """Import litellm and configure it; takes seconds the first time."""
    os.environ.update(_ENVIRONMENT)
    for name in _LITELLM_LOGGERS:
        logging.getLogger(name).disabled = True
    import litellm  # noqa: PLC0415  # seconds, and only the worker needs it

    library = cast("LitellmLibrary", litellm)
    library.suppress_debug_info = True
    _bound_responses()
    return library


def _bound_responses() -> None:
    """Make every client of litellm, its own ones and those of OpenAI, bound what it reads."""
    module = import_module("litellm.llms.custom_httpx.http_handler")
    handler = cast("LitellmHandler", module.AsyncHTTPHandler)
    if not isinstance(handler.create_async_transport, BoundedTransportFactory):
        handler.create_async_transport = BoundedTransportFactory(handler.create_async_transport)


def register_ollama_model(library: LitellmLibrary, model: str) -> None:
    """Register an Ollama model with litellm before it is called.

    Otherwise litellm asks the server about it and blocks the event loop meanwhile.
    """
    if model.startswith(_OLLAMA_PREFIXES):
        library.model_cost.setdefault(model, {"litellm_provider": "ollama", "mode": "chat"})


MAX_USAGES: Final = 16
"""Maximum number of the latest chunks with usage that are kept beside the first: some servers
report what they have counted in each chunk.
"""


class ReportedUsages(list[object]):
    """Keeps the chunks with the provider's usage aside, and is itself an empty list.

    litellm keeps every chunk, and builds the whole answer from them again in a thread at its end,
    for callbacks that nobody registers. Of no chunks it builds nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[object] = []

    def append(self, chunk: object) -> None:
        if has_usage(chunk):
            self.chunks.append(chunk)
            del self.chunks[1:-MAX_USAGES]


def stop_accounting(stream: LitellmStream) -> ReportedUsages:
    """Make litellm neither keep, build nor price the answer; return the usage that it receives.

    It would price the whole answer on the event loop before the end of it is reported. An answer of
    400 tokens takes 0.63 times the processor time (`python -m benchmarks.library_patches`).
    """
    setattr(stream.logging_obj, _DEFERRED_FLAG, True)
    stream.chunks = usages = ReportedUsages()
    return usages


async def attach_stream_check(stream: LitellmStream) -> RawStreamCheck | None:
    """Insert a `RawStreamCheck` between the provider's lines and litellm's parser.

    Returns None where litellm does not parse lines itself: the OpenAI client is strict, and boto's
    frames and those of the scripted model are no lines.
    """
    await stream.fetch_stream()
    parser = stream.completion_stream
    if not isinstance(parser, LitellmParser):
        return None
    witness = RawStreamCheck(aiter(parser.streaming_response), strict=_is_skipping_parser(parser))
    parser.streaming_response = witness
    return witness


def find_finish_reason(stream: LitellmStream, witness: RawStreamCheck | None) -> str | None:
    """Return the provider's own finish reason, or None if it sent none."""
    if witness is None or not (witness.finish or witness.openai):
        return stream.received_finish_reason
    return witness.finish


def is_read_by_openai_client(stream: LitellmStream) -> bool:
    """Return whether the OpenAI client reads an open stream, so that the ids are the provider's.

    litellm's own parsers and those of scripted models and boto's frames make ids up.
    """
    from openai import AsyncStream  # noqa: PLC0415  # seconds, and only the worker needs it

    return isinstance(stream.completion_stream, AsyncStream)


def _is_skipping_parser(parser: object) -> bool:
    """Return whether a parser skips frames that are not JSON; others buffer them."""
    from litellm.llms.base_llm.base_model_iterator import (  # noqa: PLC0415  # as above
        BaseModelResponseIterator,
    )

    return isinstance(parser, BaseModelResponseIterator)


class RawStreamCheck:
    """Reads a provider's raw lines while litellm parses them.

    litellm skips a frame that it cannot parse and takes the closing `[DONE]` for a finish reason,
    so half an answer would pass for a whole one. This iterator passes every line on unchanged,
    fails at a frame that is not JSON where litellm would skip it, and records the provider's own
    finish reason, id and safety ratings of the answer. It stores no text.
    """

    def __init__(self, lines: AsyncIterator[object], *, strict: bool) -> None:
        self._lines = lines
        self._strict = strict
        self.finish: str | None = None
        self.response_id: str | None = None
        self.ratings: tuple[SafetyRating, ...] = ()
        """The last safety ratings, of the answer so far or of a prompt that was refused."""
        self.openai = False
        """The provider speaks the OpenAI protocol, so a finish reason would have been seen."""
        self._details: list[JsonValue] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        line = await anext(self._lines)
        if isinstance(line, str) and line.startswith("data:") and "[DONE]" not in line:
            self._check_frame(line.removeprefix("data:"))
        return line

    def _check_frame(self, frame: str) -> None:
        try:
            parsed = parse_json(frame)
        except InvalidJson:
            if self._strict:
                raise ModelFailure("malformed", "a frame is not JSON") from None
            return
        if isinstance(parsed, dict):
            self._record_finish(cast("Mapping[str, object]", parsed))
            self._record_response_id(cast("Mapping[str, object]", parsed))
            self._record_ratings(cast("Mapping[str, object]", parsed))
            self._record_details(cast("Mapping[str, object]", parsed))

    def pop_details(self) -> list[JsonValue]:
        """Return the new items of `DETAILS_FIELD`, once."""
        details, self._details = self._details, []
        return details

    def _record_details(self, frame: Mapping[str, object]) -> None:
        delta = get_field(get_choice(frame), "delta")
        self._details += cast("Sequence[JsonValue]", read_sequence(get_field(delta, DETAILS_FIELD)))

    def _record_finish(self, frame: Mapping[str, object]) -> None:
        self.openai = self.openai or "choices" in frame
        for reason in (
            *(choice.get("finish_reason") for choice in _filter_objects(frame.get("choices"))),
            *(
                candidate.get("finishReason")
                for candidate in _filter_objects(frame.get("candidates"))
            ),
            *(delta.get("stop_reason") for delta in _filter_objects([frame.get("delta")])),
            # A refused prompt has no candidate, and litellm forgets the reason it made up for it.
            *(
                refusal.get("blockReason")
                for refusal in _filter_objects([frame.get("promptFeedback")])
            ),
        ):
            # Half an answer must not end with a word by which a server says that nothing ended.
            self.finish = read_finish_reason(reason) or self.finish

    def _record_response_id(self, frame: Mapping[str, object]) -> None:
        begun = (message.get("id") for message in _filter_objects([frame.get("message")]))
        for found in (frame.get("id"), frame.get("responseId"), *begun):
            if self.response_id is None and isinstance(found, str):
                self.response_id = found or None

    def _record_ratings(self, frame: Mapping[str, object]) -> None:
        rated = (
            *_filter_objects(frame.get("candidates")),
            *_filter_objects([frame.get("promptFeedback")]),
        )
        for each in rated:
            self.ratings = read_safety_ratings(each.get("safetyRatings")) or self.ratings


MAX_SAFETY_RATINGS: Final = 16
"""Maximum number of ratings that are recorded of one answer."""

_MAX_RATING_CHARACTERS: Final = 64


def read_safety_ratings(value: object) -> tuple[SafetyRating, ...]:
    """Return the ratings of Gemini and Vertex AI; what is none of theirs is left out."""
    ratings = (
        SafetyRating(
            category=category,
            probability=_read_rating_text(each, "probability"),
            severity=_read_rating_text(each, "severity"),
            blocked=each.get("blocked") is True,
        )
        for each in _filter_objects(value)
        if (category := _read_rating_text(each, "category"))
    )
    return tuple(islice(ratings, MAX_SAFETY_RATINGS))


def _read_rating_text(rating: Mapping[str, object], name: str) -> str | None:
    text = rating.get(name)
    return replace_unstorable(text[:_MAX_RATING_CHARACTERS]) if isinstance(text, str) else None


def _filter_objects(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list):
        return []
    entries = cast("Sequence[object]", value)
    return [cast("Mapping[str, object]", entry) for entry in entries if isinstance(entry, dict)]
