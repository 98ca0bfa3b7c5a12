"""Request and response headers, and the lines of a response: media types, ETags and cursors.

A response about a session has the session's sequence as its ETag. The media type follows from
`Accept`; the gateway refuses media types that it does not offer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from turnlog.events.errors import Refused

JSON_MEDIA_TYPE: Final = "application/json"

NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"

SSE_MEDIA_TYPE: Final = "text/event-stream"

CURSOR_HEADER: Final = "Last-Event-ID"


def format_etag(sequence: int) -> str:
    """Return a sequence as an ETag."""
    return f'"{sequence}"'


def set_etag(response: Response, sequence: int) -> None:
    """Set the ETag to the sequence that a response reflects."""
    response.headers["ETag"] = format_etag(sequence)


class SequencedBody(Protocol):
    """A response body that says which sequence it reflects."""

    @property
    def sequence(self) -> int:
        """The sequence."""
        ...


BodyT = TypeVar("BodyT", bound=SequencedBody)


def tag_body(response: Response, body: BodyT) -> BodyT:
    """Return a body after its sequence was set as the ETag of the response."""
    set_etag(response, body.sequence)
    return body


def choose_media_type(request: Request, *offered: str) -> str:
    """Return the offered media type that the client prefers; the first one without a preference.

    Raises `Refused` `not-acceptable` when the client accepts none of them.
    """
    accept = ",".join(request.headers.getlist("accept")) or "*/*"
    qualities = {offer: _compute_preference(accept, offer) for offer in offered}
    best = max(offered, key=lambda offer: qualities[offer])
    if qualities[best] <= 0:
        fix = f"accept one of {', '.join(offered)}"
        raise Refused(
            "not-acceptable",
            "the route offers no media type that the request accepts",
            field="Accept",
            fix=fix,
        )
    return best


def _compute_preference(accept_header: str, offer: str) -> float:
    """Return the quality of an offer; an exact media range takes precedence over wildcards."""
    ranges = (media_range.split(";") for media_range in accept_header.lower().split(","))
    weights = {media.strip(): _parse_quality(rest) for media, *rest in ranges}
    wildcard = f"{offer.partition('/')[0]}/*"
    return next((weights[name] for name in (offer, wildcard, "*/*") if name in weights), 0.0)


def _parse_quality(parameters: list[str]) -> float:
    quality = next((p.strip()[2:] for p in parameters if p.strip().startswith("q=")), "1")
    try:
        return float(quality)
    except ValueError:
        return 0.0


def get_last_event_id(request: Request) -> str | None:
    """Return the cursor of a reconnecting client; None when the header is missing or empty."""
    return request.headers.get(CURSOR_HEADER) or None


async def encode_lines(answers: AsyncGenerator[BaseModel]) -> AsyncGenerator[bytes]:
    """Yield each answer as a line of JSON."""
    async with aclosing(answers):
        async for each in answers:
            yield each.model_dump_json().encode() + b"\n"
