"""How much of an answer a client reads: a body, a line and an event have a limit each.

A client asks for answers as they are, and reads none that is compressed: a few kilobytes of a
compressed body may be gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import httpx

from turnlog.client.request_errors import AnswerTooLarge, UnusableAnswer

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of an answer that is read whole."""

LIMIT_EXTENSION: Final = "turnlog.answer_bytes"
"""The extension of a request whose answer has another limit."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a line, or of the data of an event, of an answer that is read as it comes."""

PLAIN_ENCODING: Final = {"Accept-Encoding": "identity"}
"""The header that asks for an answer as it is."""


def check_encoding(response: httpx.Response) -> None:
    """Raise `UnusableAnswer` for a compressed answer."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        detail = f"the answer is encoded as {encoding[:40]}, and it was asked for as it is"
        fix = "let the proxy before the service compress nothing"
        raise UnusableAnswer(detail, status=response.status_code, code="bad-answer", fix=fix)


@dataclass(slots=True)
class BodyCollector:
    """Collects the body of a response within its limit, which the request may state."""

    response: httpx.Response
    _body: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        check_encoding(self.response)

    def add_piece(self, piece: bytes) -> None:
        """Add the next piece; raise `AnswerTooLarge` where it is one too many."""
        limit = self.response.request.extensions.get(LIMIT_EXTENSION, MAX_BODY_BYTES)
        check_size(len(self._body) + len(piece), limit, "the answer")
        self._body += piece

    def build_response(self) -> httpx.Response:
        """Return the response with its whole body."""
        return httpx.Response(
            self.response.status_code,
            headers=self.response.headers,
            content=bytes(self._body),
            request=self.response.request,
        )


def check_size(size: int, limit: int, what: str) -> None:
    """Raise `AnswerTooLarge` for more than is read."""
    if size > limit:
        fix = "ask for less of it, such as a page"
        raise AnswerTooLarge(
            f"{what} has more than {limit} bytes", code="answer-too-large", fix=fix
        )
