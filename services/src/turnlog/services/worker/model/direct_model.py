"""A language model behind a server that speaks OpenAI's protocol, without litellm.

vLLM, Ollama, llama.cpp and OpenAI itself take the recorded request as it is: the body is sent byte
for byte, so the digest on the log is that of what crossed the wire. Addresses and keys come from
the environment under the names that litellm reads. Of an answer no more is read than through
litellm, an answer counts only if the provider said why it ended, and the worker alone retries.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, cast
from urllib.parse import urlsplit

import aiohttp
from pydantic import JsonValue, SecretStr

from turnlog.events.content import encode_canonical
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.prompt.chat_request import encode_chat_body
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.answers.answer_end import build_finished
from turnlog.services.worker.model.answers.chunk_fields import (
    get_choice,
    get_field,
    read_finish_reason,
)
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.answers.reported_usage import has_usage, read_reported_usage
from turnlog.services.worker.model.bounded_responses import (
    MAX_ERROR_BYTES,
    MAX_HELD_FRAME_BYTES,
    PIECE_BYTES,
    FrameBounds,
    is_compressed,
    reserve_frame,
)
from turnlog.services.worker.model.call_timeouts import CallTimeouts, CallTimer, open_call_timer
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    MediaDelta,
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    check_parameters,
    convert_to_plain,
)
from turnlog.services.worker.model.provider_errors import (
    ProviderRefusal,
    map_error_frame,
    map_refusal,
)

_EVENT_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolServer:
    """Where the servers of one provider are, by variables of the environment."""

    address_variables: tuple[str, ...]
    """The first that is set has the address."""
    key_variable: str
    default_address: str | None = None
    needs_key: bool = False
    """Whether the server at the default address takes no request without a key."""
    is_root_address: bool = False
    """Whether the variable has the address without the `/v1` of the protocol."""


PROTOCOL_SERVERS: Final[Mapping[str, ProtocolServer]] = MappingProxyType(
    {
        "hosted_vllm": ProtocolServer(
            address_variables=("HOSTED_VLLM_API_BASE",), key_variable="HOSTED_VLLM_API_KEY"
        ),
        "llamafile": ProtocolServer(
            address_variables=("LLAMAFILE_API_BASE",),
            key_variable="LLAMAFILE_API_KEY",
            default_address="http://127.0.0.1:8080/v1",
        ),
        "lm_studio": ProtocolServer(
            address_variables=("LM_STUDIO_API_BASE",), key_variable="LM_STUDIO_API_KEY"
        ),
        "ollama": ProtocolServer(
            address_variables=("OLLAMA_API_BASE",),
            key_variable="OLLAMA_API_KEY",
            default_address="http://localhost:11434",
            is_root_address=True,
        ),
        "ollama_chat": ProtocolServer(
            address_variables=("OLLAMA_API_BASE",),
            key_variable="OLLAMA_API_KEY",
            default_address="http://localhost:11434",
            is_root_address=True,
        ),
        "openai": ProtocolServer(
            address_variables=("OPENAI_API_BASE", "OPENAI_BASE_URL"),
            key_variable="OPENAI_API_KEY",
            default_address="https://api.openai.com/v1",
            needs_key=True,
        ),
    }
)
"""Providers whose servers speak the protocol, with the variables that litellm reads."""


def is_protocol_model(model: str) -> bool:
    """Return whether the provider in a model's name speaks OpenAI's chat protocol.

    `openai/responses/gpt-5` is how litellm names a model that it calls over another protocol.
    """
    provider, slash, name = model.partition("/")
    return bool(slash) and provider in PROTOCOL_SERVERS and not name.startswith("responses/")


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """The address and the key of a model server."""

    url: str
    key: str | None = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def find_chat_endpoint(
    model: str, environ: Mapping[str, str], own_key: SecretStr | None = None
) -> ChatEndpoint:
    """Return where the requests of a model go, with a tenant's own key or the environment's.

    Fails where the environment lacks it.
    """
    provider = model.partition("/")[0]
    server = PROTOCOL_SERVERS[provider]
    named = next(filter(None, map(environ.get, server.address_variables)), None)
    key = environ.get(server.key_variable, "").strip() or None
    if own_key is not None:
        key = own_key.get_secret_value()
    base = named or server.default_address
    if base is None:
        raise ModelFailure("bad_request", f"{server.address_variables[0]} is not set")
    if not base.startswith(("http://", "https://")):
        raise ModelFailure("bad_request", f"{server.address_variables[0]} is no http address")
    if key is None and named is None and server.needs_key:
        raise ModelFailure("unauthorised", f"{server.key_variable} is not set")
    base = base.rstrip("/")
    if server.is_root_address:
        base = base.removesuffix("/v1") + "/v1"
    return ChatEndpoint(f"{base}/chat/completions", key)


class DirectModel:
    """A `LanguageModel` of the servers in `PROTOCOL_SERVERS`; `close` it in the end."""

    def __init__(
        self,
        environ: Mapping[str, str],
        timeouts: CallTimeouts | None = None,
        frame_room: MediaRoom | None = None,
    ) -> None:
        self._environ = environ
        self._timeouts = timeouts or CallTimeouts()
        self._frame_room = frame_room or MediaRoom(MAX_HELD_FRAME_BYTES)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections that are kept for later requests."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        check_parameters(request.parameters)
        address = find_chat_endpoint(request.model, self._environ, request.key)
        body = _encode_body(request) if request.body is None else request.body
        answer, timeouts = ProtocolAnswer(), self._timeouts.apply_spec(request.timeouts)
        try:
            with open_call_timer(timeouts) as timer, self._frame_room.open_share() as share:
                response = await timer.wait_for(self._send_body(address, body, timeouts))
                try:
                    await timer.wait_for(_check_response(response))
                    timer.mark_accepted()
                    while not answer.is_over:
                        for text, token in await _read_tokens(response, answer, timer):
                            if reasoning := answer.pop_reasoning():
                                yield reasoning
                            for delta in answer.split_deltas(text):
                                yield delta
                            # Only now: time that the consumer took is not silence of the provider.
                            timer.mark_alive()
                            if token:
                                timer.mark_token()
                        if answer.is_in_large_frame:
                            if not share.size:
                                await timer.wait_for(reserve_frame(share, timer))
                        elif share.size:
                            share.release()
                    await _await_end(response)
                finally:
                    response.release()  # which closes a connection whose answer is not at its end
            yield answer.build_finished(request.model, response.headers.get("content-type", ""))
        except ModelFailure as failure:
            failure.address = address.host
            raise

    async def _send_body(
        self, address: ChatEndpoint, body: bytes, timeouts: CallTimeouts
    ) -> aiohttp.ClientResponse:
        headers = {
            "accept": _EVENT_STREAM,
            # Bytes that were unpacked could be a thousand times those that arrived.
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        if address.key:
            headers["authorization"] = f"Bearer {address.key}"
        # Another server must not get the prompt or the key.
        return await self._open_session().post(
            address.url,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # The worker limits how many calls there are at a time.
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=True,
            )
        return self._session


def _encode_body(request: ModelRequest) -> bytes:
    parameters, tools = convert_to_plain(request.parameters), convert_to_plain(request.tools)
    messages = (
        encode_canonical(cast("JsonValue", convert_to_plain(message))).encode()
        for message in request.messages
    )
    return encode_chat_body(
        request.model,
        messages,
        cast("Sequence[JsonValue]", tools),
        cast("Mapping[str, JsonValue]", parameters),
    )


_REFUSAL_SECONDS: Final = 5.0
"""Seconds in which the body of a refusal is read; its status says the most."""

_END_SECONDS: Final = 0.05
"""Seconds for the end of the body after that of the answer; its connection is then used again."""


async def _check_response(response: aiohttp.ClientResponse) -> None:
    """Raise `ModelFailure` unless an answer begins."""
    compressed = is_compressed(response.headers)
    if response.status < HTTPStatus.MULTIPLE_CHOICES:
        if compressed:
            raise ModelFailure("malformed", "it is compressed, which was not requested")
        return
    if response.status < HTTPStatus.BAD_REQUEST:
        detail = f"HTTP {response.status}: a redirection is not followed"
        raise ModelFailure("bad_request", detail)
    body = b"" if compressed else await _read_refusal_body(response.content)
    raise map_refusal(ProviderRefusal(response.status, response.headers, body), time.time())


async def _read_refusal_body(content: aiohttp.StreamReader) -> bytes:
    """Return the part of a body that arrives within the limits, even if the rest fails."""
    body = bytearray()
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            while piece := await content.read(MAX_ERROR_BYTES - len(body)):
                body += piece
    return bytes(body)


async def _read_tokens(
    response: aiohttp.ClientResponse, answer: ProtocolAnswer, timer: CallTimer
) -> Iterable[tuple[str, bool]]:
    """Wait for the next bytes of an answer, and read them."""
    try:
        piece = await timer.wait_for(_read_piece(response.content))
    except ModelFailure as failure:
        # The provider has said why it ended; what is missing is the usage at most.
        if answer.finish is None or failure.code not in {"disconnected", "timeout_stalled"}:
            raise
        piece = b""
    return answer.add_bytes(piece) if piece else answer.add_rest()


async def _read_piece(content: aiohttp.StreamReader) -> bytes:
    """Return the next bytes, none at the end; other tasks run between many of them."""
    piece = await content.read(PIECE_BYTES)
    if len(piece) == PIECE_BYTES:
        await asyncio.sleep(0)
    return piece


async def _await_end(response: aiohttp.ClientResponse) -> None:
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await response.content.readany()


_END_MARK: Final = "[DONE]"

_LINE: Final = re.compile(r"\r\n|\r|\n")


class ProtocolAnswer:
    """Reads the events of one answer as their bytes arrive."""

    def __init__(self) -> None:
        self.is_over = False
        """The server has said so, or its bytes have ended."""
        self.finish: str | None = None
        """The finish reason in the server's words."""
        self._bounds = FrameBounds(_EVENT_STREAM)
        self._reading = ChunkReader()
        self._response_id: str | None = None
        self._usages: list[object] = []
        self._has_events = False

    @property
    def is_in_large_frame(self) -> bool:
        """See `FrameBounds.is_in_large_frame`."""
        return self._bounds.is_in_large_frame

    def add_bytes(self, piece: bytes) -> Iterator[tuple[str, bool]]:
        """Yield what `ChunkReader.read_chunk` returns, for each event that a piece completes."""
        for frame in self._bounds.add_bytes(piece):
            if not self.is_over:
                yield from self._read_frame(frame)

    def add_rest(self) -> Iterator[tuple[str, bool]]:
        """Yield the same for an event without its end, which the last one may lack."""
        self.is_over = True
        yield from self._read_frame(self._bounds.check_rest())
        yield self._reading.read_rest(), False

    def pop_reasoning(self) -> ReasoningDelta | None:
        """Return what the latest event had of the model's reasoning, once."""
        return self._reading.pop_reasoning()

    def split_deltas(self, text: str) -> Iterator[TextDelta | MediaDelta]:
        """Yield the text of the latest event and the media in it, in their order, once."""
        return self._reading.split_deltas(text)

    def build_finished(self, requested_model: str, content_type: str) -> FinishedAnswer:
        """Return the end of the answer, or fail if it is none."""
        if not self._has_events and content_type and not content_type.startswith(_EVENT_STREAM):
            raise ModelFailure("malformed", "it is no event stream")
        return build_finished(
            self._reading,
            reason_name=self.finish,
            usage=read_reported_usage(self._usages),
            requested_model=requested_model,
            response_id=self._response_id,
        )

    def _read_frame(self, frame: bytes) -> Iterator[tuple[str, bool]]:
        if not self._has_events and frame.lstrip().startswith(b"{"):
            # A server that does not stream answers with one object
            chunk = self._record_chunk(frame.decode(errors="replace"))
            self._has_events = get_choice(chunk) is not None
            yield self._reading.read_chunk(chunk)
            return
        data = _read_event_data(frame)
        if not data:
            yield "", False  # A comment says that the provider is alive
            return
        self._has_events = True
        if data.strip() == _END_MARK:
            self.is_over = True
            yield self._reading.read_rest(), False
            return
        yield self._reading.read_chunk(self._record_chunk(data))

    def _record_chunk(self, data: str) -> Mapping[str, object]:
        try:
            # As written: half of a surrogate pair may have its other half in the next chunk
            parsed = parse_json(data, as_written=True)
        except InvalidJson:
            parsed = None
        if not isinstance(parsed, dict):
            raise ModelFailure("malformed", "a frame is not a JSON object")
        chunk = cast("Mapping[str, JsonValue]", parsed)
        if chunk.get("error") or chunk.get("object") == "error":
            raise map_error_frame(chunk)
        response_id = chunk.get("id")
        reason = read_finish_reason(get_field(get_choice(chunk), "finish_reason"))
        if self._response_id is None and isinstance(response_id, str):
            self._response_id = response_id or None
        if has_usage(chunk):
            self._usages[1:] = [chunk]  # Some servers report what they have counted in each chunk
        if reason is not None:
            self.finish = reason
        return chunk


def _read_event_data(frame: bytes) -> str:
    """Return the data of an event; empty if it has none, such as a comment."""
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:  # Not above: the error below it would hold the answer
        raise ModelFailure("malformed", "a frame is not UTF-8")
    fields = (line.partition(":") for line in _LINE.split(text.removeprefix("\ufeff")))
    return "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
