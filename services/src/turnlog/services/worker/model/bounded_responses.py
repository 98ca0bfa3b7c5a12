"""Bounds on what is taken of a provider's response, before a parser sees it.

litellm reads error bodies and frames whole: an error of 250 kB takes 0.84 s of processor time on
the event loop, and 0.24 s when it is cut (`python -m benchmarks.library_patches`). So the body of
an error is cut, and an answer fails where a frame or the whole body is too large. Other tasks run
every few kilobytes, however fast those come. A frame with a picture may be large, so all calls of a
process reserve memory for theirs from one room, and wait without reading where it is full.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Final, NoReturn, cast

import httpx

from turnlog.services.worker.media_room import MediaRoom, MediaShare
from turnlog.services.worker.model.call_timeouts import CallTimer, find_reading_call
from turnlog.services.worker.model.model_types import ModelFailure

MAX_ERROR_BYTES: Final = 8_192
"""Bytes of an error that are read; litellm takes two microseconds or more for each."""

MAX_FRAME_BYTES: Final = 256 * 1024
"""Maximum size of a frame of an answer, a quarter of what an answer may be."""

MAX_MEDIA_FRAME_BYTES: Final = 12 * 1024**2
"""Maximum size of a frame with a picture or a recording in base64, which parsers only copy."""

MAX_HELD_FRAME_BYTES: Final = 4 * MAX_MEDIA_FRAME_BYTES
"""Bytes of the large frames that all calls of a process may have begun to read: four at a time."""

_MEDIA_MARK: Final = re.compile(rb';base64,|"(?:data|file_data)"\s*:\s*"')
"""How such a frame is recognised."""

_MARK_REACH: Final = 64 * 1024
"""In how many bytes of a frame the mark is looked for; text may come before it."""

_LONG_PIECE_BYTES: Final = 1024**2
"""Bytes of a large frame that are passed on at once: clients copy what they have with each."""

MAX_BODY_BYTES: Final = 256 * 1024**2
"""Maximum size of a streamed body, three times the longest answer in frames of one token."""

PIECE_BYTES: Final = 4_096
"""Bytes that are processed before other tasks run."""

_ERROR_MARK: Final = re.compile(rb'"error"\s*:\s*["{]|:exception-type')
"""How an error frame is recognised; inside a string of JSON, quotation marks are escaped."""

_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")

_LINE_END: Final = re.compile(rb"\n")

_AWS_FRAMES: Final = "application/vnd.amazon.eventstream"

_LENGTH_BYTES: Final = 4
"""Bytes of the length that a frame of AWS begins with."""


class FrameBounds:
    """Checks the frames of one answer as their bytes arrive."""

    def __init__(self, content_type: str) -> None:
        self._has_lengths = content_type.startswith(_AWS_FRAMES)
        is_event_stream = content_type.startswith("text/event-stream")
        self._frame_end = _EVENT_END if is_event_stream else _LINE_END
        self._frame = bytearray()
        self._total = 0

    def add_bytes(self, piece: bytes) -> list[bytes]:
        """Return the frames that end within a piece; raise `ModelFailure` if one is too large."""
        searched = len(self._frame)
        self._frame += piece
        self._total += len(piece)
        if self._total > MAX_BODY_BYTES:
            raise ModelFailure("too_long", f"its frames are more than {MAX_BODY_BYTES} bytes")
        if self._has_lengths:
            frames = self._remove_counted_frames()
        else:
            frames = self._remove_ended_frames(max(0, searched - 3))
        _check_size(self._frame)
        return frames

    @property
    def is_in_large_frame(self) -> bool:
        """Whether the frame that has begun is larger than frames of text may be."""
        return len(self._frame) > MAX_FRAME_BYTES

    def check_rest(self) -> bytes:
        """Return what follows the last frame, once the body has ended; the bounds apply to it."""
        return _check_frame(self._frame)

    def _remove_ended_frames(self, start: int) -> list[bytes]:
        frames: list[bytes] = []
        begin = 0
        for found in self._frame_end.finditer(self._frame, start):
            frames.append(_check_frame(self._frame[begin : found.start()]))
            begin = found.end()
        del self._frame[:begin]
        return frames

    def _remove_counted_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        while len(self._frame) >= _LENGTH_BYTES:
            length = int.from_bytes(self._frame[:_LENGTH_BYTES])
            if length > MAX_FRAME_BYTES:
                _refuse_frame(MAX_FRAME_BYTES)
            if not _LENGTH_BYTES <= length <= len(self._frame):
                break
            frames.append(_check_frame(self._frame[:length]))
            del self._frame[:length]
        return frames


async def reserve_frame(share: MediaShare, timer: CallTimer | None) -> None:
    """Reserve memory for a large frame that has begun, unless it is reserved.

    A call whose frame has no room beside those of others waits, which is no silence of its server.
    """
    if not share.size and not share.try_reserve(MAX_MEDIA_FRAME_BYTES):
        with timer.suspend_silence() if timer else nullcontext():
            await share.wait_for_room()


def _check_size(frame: bytearray) -> None:
    if len(frame) <= MAX_FRAME_BYTES:
        return
    if len(frame) > MAX_MEDIA_FRAME_BYTES:
        _refuse_frame(MAX_MEDIA_FRAME_BYTES)
    if not _MEDIA_MARK.search(frame, 0, _MARK_REACH):
        _refuse_frame(MAX_FRAME_BYTES)


def _check_frame(frame: bytearray) -> bytes:
    _check_size(frame)
    if len(frame) > MAX_ERROR_BYTES and _ERROR_MARK.search(frame):
        detail = f"an error of more than {MAX_ERROR_BYTES} bytes"
        raise ModelFailure("error_in_stream", detail)
    return bytes(frame)


def _refuse_frame(most: int) -> NoReturn:
    raise ModelFailure("too_long", f"a frame of it is more than {most} bytes")


class BoundedBody(httpx.AsyncByteStream):
    """A body that is cut if it is an error, and fails at a frame that is too large otherwise."""

    def __init__(self, body: httpx.AsyncByteStream, response: httpx.Response) -> None:
        self._body = body
        self._is_error = response.status_code >= httpx.codes.BAD_REQUEST
        self._bounds = FrameBounds(response.headers.get("content-type", ""))
        call = find_reading_call()
        self._timer = call.timer if call else None
        room = MediaRoom(MAX_HELD_FRAME_BYTES)
        self._share = call.frame_share if call else MediaShare(room)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._cut_error() if self._is_error else self._check_frames()
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        await self._body.aclose()

    async def _cut_error(self) -> AsyncGenerator[bytes]:
        left = MAX_ERROR_BYTES
        async with aclosing(_split_pieces(self._body)) as pieces:
            async for piece in pieces:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

    async def _check_frames(self) -> AsyncGenerator[bytes]:
        held = bytearray()
        async with aclosing(_split_pieces(self._body)) as pieces:
            async for piece in pieces:
                if self._bounds.add_bytes(piece) and self._timer is not None:
                    self._timer.mark_alive()
                is_in_large_frame = self._bounds.is_in_large_frame
                if is_in_large_frame:
                    await reserve_frame(self._share, self._timer)
                held += piece
                if not is_in_large_frame or len(held) >= _LONG_PIECE_BYTES:
                    yield bytes(held)
                    held.clear()
                if self._share.size and not is_in_large_frame:
                    # Only now: the library has parsed it when it reads on.
                    self._share.release()
        self._bounds.check_rest()
        if held:
            yield bytes(held)


async def _split_pieces(body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield a body in small pieces, and let other tasks run in between."""
    passed = 0
    chunks = cast("AsyncGenerator[bytes]", aiter(body))
    async with aclosing(chunks):
        async for chunk in chunks:
            for start in range(0, len(chunk), PIECE_BYTES):
                piece = chunk[start : start + PIECE_BYTES]
                passed += len(piece)
                if passed >= PIECE_BYTES:
                    passed = 0
                    await asyncio.sleep(0)
                yield piece


class BoundedTransportFactory:
    """Creates the transports of litellm's clients so that they bound every response."""

    def __init__(self, create: Callable[..., httpx.AsyncBaseTransport | None]) -> None:
        self._create = create

    def __call__(self, *arguments: object, **named: object) -> httpx.AsyncBaseTransport | None:
        transport = self._create(*arguments, **named)
        if transport is not None:
            bound_transport(transport)
        return transport


def bound_transport(transport: httpx.AsyncBaseTransport) -> None:
    """Make a transport bound its responses; its class stays, since litellm decides by it."""
    setattr(  # noqa: B010 - a method of one object
        transport, "handle_async_request", partial(_send_request, transport.handle_async_request)
    )


async def _send_request(
    send: Callable[[httpx.Request], Awaitable[httpx.Response]], request: httpx.Request
) -> httpx.Response:
    # Bytes that were unpacked could be a thousand times those that arrived.
    request.headers["accept-encoding"] = "identity"
    response = await send(request)
    if is_compressed(response.headers):
        await response.aclose()
        if response.is_success:
            raise ModelFailure("malformed", "it is compressed, which was not requested")
        del response.headers["content-encoding"]
        response.stream = httpx.ByteStream(b"")
    else:
        response.stream = BoundedBody(cast("httpx.AsyncByteStream", response.stream), response)
    return response


def is_compressed(headers: Mapping[str, str]) -> bool:
    """Return whether a body is compressed; the headers' names are in lower case or of any case."""
    return headers.get("content-encoding", "identity").lower() != "identity"
