"""The asynchronous connection to a service: requests that are sent again, and streams that resume.

`sync_connection` is written from this file by `make docs` and is the same without `async`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from turnlog.client import operations, request_retries
from turnlog.client.answer_bounds import PLAIN_ENCODING, BodyCollector, check_encoding
from turnlog.client.operations import AnswerT, ClientOperation
from turnlog.client.request_errors import create_error
from turnlog.client.request_retries import compute_retry_delay
from turnlog.client.sse_events import LineDecoder, SseDecoder, SseMessage
from turnlog.client.tenant_operations import (
    OFFSET_CONFLICT,
    BlobUpload,
    build_blob_request,
    parse_blob_headers,
)
from turnlog.client.trusted_certificates import create_tls_context
from turnlog.contract.api_paths import REASON_HEADER
from turnlog.contract.turn_payloads import StoredBlobView


class AsyncServiceConnection:
    """A connection to a service; use it in `async with`, or call `close`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_tries: int = request_retries.MAX_TRIES,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Prepare requests to the service at `url`; `headers` go with each of them.

        `key` is what the service knows the sender by, where it asks for one.

        Each request is sent `max_tries` times at most; 1 never sends one again. `http` is a client
        of yours, with its certificates, proxies and time limits; `close` closes it too.
        """
        self._http = http or httpx.AsyncClient(
            timeout=operations.REQUEST_TIMEOUT, verify=create_tls_context(url)
        )
        self._http.base_url = httpx.URL(url)
        signed_in = operations.build_sign_in(key)
        self._http.headers.update({**PLAIN_ENCODING, **signed_in, **(headers or {})})
        self._max_tries = max_tries

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    @property
    def url(self) -> str:
        """The address of the service."""
        return str(self._http.base_url)

    def set_reason(self, reason: str | None) -> None:
        """Say why prompts, withheld texts and exports are read from now on; None says nothing."""
        if reason is None:
            self._http.headers.pop(REASON_HEADER, None)
        else:
            # As bytes: a text would have to be ASCII.
            self._http.headers.update([(REASON_HEADER.encode(), reason.encode())])

    async def send(self, operation: ClientOperation[AnswerT]) -> AnswerT:
        """Return the answer of an operation."""
        return operation.parse_answer(await self.request(operation))

    async def request(self, operation: ClientOperation[Any]) -> httpx.Response:
        """Return the successful response to an operation, sent again while that may help."""
        request, tries = operation.build_request(self._http), 0
        while True:
            tries += 1
            response: httpx.Response | None = None
            failure: httpx.RequestError | None = None
            try:
                response = await self._fetch_response(request)
            except httpx.RequestError as error:
                failure = error
            if response is not None and response.is_success:
                return response
            delay = compute_retry_delay(tries, response, max_tries=self._max_tries)
            if delay is None:
                raise create_error(request.url, response, failure) from failure
            await asyncio.sleep(delay)

    async def send_upload(
        self, upload: BlobUpload, *, max_tries: int | None = None
    ) -> StoredBlobView:
        """Store bytes, unless the service has them; after a failure the rest of them suffices.

        It is tried so often, or as often as other requests by default.

        Each try asks first how many bytes the service has. Behind it may be several gateways, of
        which one alone has the beginning: where the rest is refused, the whole is sent.
        """
        tries, most = 0, max_tries or self._max_tries
        while True:
            tries += 1
            lookup = build_blob_request(upload.digest, "HEAD").build_request(self._http)
            response: httpx.Response | None = None
            failure: httpx.RequestError | None = None
            try:
                response = await self._fetch_response(lookup)
                if response.is_success:
                    return parse_blob_headers(upload.digest, response.headers)
                if response.status_code == httpx.codes.NOT_FOUND.value:
                    offset, response = upload.read_offset(response.headers), None
                    response = await self._send_rest(upload, offset)
                    if response.is_success:
                        return upload.build_rest(0).parse_answer(response)
            except httpx.RequestError as error:
                failure = error
            delay = compute_retry_delay(tries, response, max_tries=most)
            if delay is None:
                raise create_error(lookup.url, response, failure) from failure
            await asyncio.sleep(delay)

    async def _send_rest(self, upload: BlobUpload, offset: int) -> httpx.Response:
        response = await self._fetch_response(upload.build_rest(offset).build_request(self._http))
        if offset and response.status_code == OFFSET_CONFLICT:
            return await self._fetch_response(upload.build_rest(0).build_request(self._http))
        return response

    async def _fetch_response(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request with its body; a redirection is not followed."""
        response = await self._http.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            return await _load_body(response)

    @asynccontextmanager
    async def open_response(
        self, operation: ClientOperation[Any]
    ) -> AsyncGenerator[httpx.Response]:
        """Yield the successful response to an operation, whose body is still to be read.

        The request is sent once, for what was read already cannot be read again. Raises also when
        the service breaks off while the body is read.
        """
        request = operation.build_request(self._http)
        try:
            response = await self._http.send(request, stream=True, follow_redirects=False)
            async with aclosing(response):
                if not response.is_success:
                    raise create_error(request.url, await _load_body(response))
                check_encoding(response)
                yield response
        except httpx.RequestError as error:
            raise create_error(request.url, None, error) from error

    async def stream_lines(self, operation: ClientOperation[Any]) -> AsyncGenerator[str]:
        """Yield the lines of an answer as they arrive, such as those of NDJSON."""
        decoder = LineDecoder()
        async with self.open_response(operation) as response:
            async for piece in response.aiter_bytes():
                for line in decoder.decode_bytes(piece):
                    yield line
        for line in decoder.flush():
            yield line

    async def stream_messages(self, operation: ClientOperation[Any]) -> AsyncGenerator[SseMessage]:
        """Yield the server-sent events of one answer; `watch_stream` opens it again instead."""
        async with self.open_response(operation) as response:
            async for message in _decode_messages(response, None):
                yield message

    async def watch_stream(self, path: str, cursor: str | None) -> AsyncGenerator[SseMessage]:
        """Yield the messages of a stream; go on after the last one when it breaks off.

        Raises when the service cannot be reached, or the stream gets no further, for long.
        """
        tries = 0
        while True:
            tries, begun = tries + 1, time.monotonic()
            refusal: httpx.Response | None = None
            failure: httpx.RequestError | None = None
            try:
                async with self._open_stream(path, cursor) as response:
                    if response.status_code == httpx.codes.NO_CONTENT.value:
                        return  # It was read to its end already.
                    if response.is_success:
                        check_encoding(response)
                        async for message in _decode_messages(response, cursor):
                            if message.cursor not in {"", cursor}:
                                cursor, tries = message.cursor, 1
                            yield message
                    else:
                        refusal = await _load_body(response)
            except httpx.RequestError as error:  # Broken off, it goes on after the cursor.
                failure = error
            if time.monotonic() - begun > request_retries.LASTING_STREAM:
                tries = 1
            delay = compute_retry_delay(tries, refusal, max_tries=self._max_tries)
            if delay is None:
                url = self._http.build_request("GET", path).url
                raise create_error(url, refusal, failure) from failure
            await asyncio.sleep(delay)

    @asynccontextmanager
    async def _open_stream(self, path: str, cursor: str | None) -> AsyncGenerator[httpx.Response]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {})
        timeout = operations.STREAM_TIMEOUT
        request = self._http.build_request("GET", path, headers=headers, timeout=timeout)
        response = await self._http.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            yield response


async def _load_body(response: httpx.Response) -> httpx.Response:
    collector = BodyCollector(response)
    async for piece in response.aiter_bytes():
        collector.add_piece(piece)
    return collector.build_response()


async def _decode_messages(
    response: httpx.Response, cursor: str | None
) -> AsyncGenerator[SseMessage]:
    decoder = SseDecoder(cursor=cursor or "")
    async for piece in response.aiter_bytes():
        for message in decoder.decode_bytes(piece):
            yield message
