"""Request and response headers: media types, ETags and stream cursors.

A response about a session has the session's sequence as its ETag. The media type follows from
`Accept`; the gateway refuses media types that it does not offer.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from turnlog.events.errors import Refused

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
SSE: Final = "text/event-stream"
CURSOR: Final = "Last-Event-ID"


def etag(sequence: int) -> str:
    """Return a sequence as an ETag."""
    return f'"{sequence}"'


def stamp(response: Response, sequence: int) -> None:
    """Set the ETag to the sequence that a response reflects."""
    response.headers["ETag"] = etag(sequence)


def accepted(request: Request, *offered: str) -> str:
    """Return the offered media type that the client prefers; the first one without a preference.

    Raises `Refused` `not-acceptable` when the client accepts none of them.
    """
    asked = ",".join(request.headers.getlist("accept")) or "*/*"
    liked = {offer: _liking(asked, offer) for offer in offered}
    best = max(offered, key=lambda offer: liked[offer])
    if liked[best] <= 0:
        fix = f"accept one of {', '.join(offered)}"
        raise Refused("not-acceptable", "no such form is offered", field="Accept", fix=fix)
    return best


def _liking(asked: str, offer: str) -> float:
    """Return the quality of an offer; an exact media range takes precedence over wildcards."""
    ranges = (spelt.split(";") for spelt in asked.lower().split(","))
    weights = {media.strip(): _weight(rest) for media, *rest in ranges}
    wild = f"{offer.partition('/')[0]}/*"
    return next((weights[name] for name in (offer, wild, "*/*") if name in weights), 0.0)


def _weight(parameters: list[str]) -> float:
    spelt = next((p.strip()[2:] for p in parameters if p.strip().startswith("q=")), "1")
    try:
        return float(spelt)
    except ValueError:
        return 0.0


def last_event_id(request: Request) -> str | None:
    """Return the cursor of a reconnecting client; None when the header is missing or empty."""
    return request.headers.get(CURSOR) or None
