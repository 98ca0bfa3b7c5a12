"""What the headers of requests and answers say about forms and versions.

An answer about a session carries the session's sequence as its ETag. Which form an answer has
follows from Accept; what is not offered is refused rather than sent anyway.
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
    """Spell a sequence as an ETag."""
    return f'"{sequence}"'


def stamp(response: Response, sequence: int) -> None:
    """Say up to which sequence of its session an answer is true."""
    response.headers["ETag"] = etag(sequence)


def accepted(request: Request, *offered: str) -> str:
    """Choose the form the client likes best; the first one offered where it does not care."""
    asked = ",".join(request.headers.getlist("accept")) or "*/*"
    liked = {offer: _liking(asked, offer) for offer in offered}
    best = max(offered, key=lambda offer: liked[offer])
    if liked[best] <= 0:
        fix = f"accept one of {', '.join(offered)}"
        raise Refused("not-acceptable", "no such form is offered", field="Accept", fix=fix)
    return best


def _liking(asked: str, offer: str) -> float:
    """Weigh an offer; what names it outright counts more than what happens to match it."""
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
    """Give the cursor a reconnecting client sends; an empty one says that it has none."""
    return request.headers.get(CURSOR) or None
