"""Bodies: what may be sent to a route that takes none.

Forms refuse fields that they do not know; a route without a form would not look at its body at all.
Whoever sends it fields means something by them, and is told that nothing came of it. An empty
object says nothing, and passes.
"""

from __future__ import annotations

import json

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import JsonValue

from turnlog.events.errors import Refused


async def check_body(request: Request) -> None:
    """Refuse a body that says something where the route takes none."""
    route: object = request.scope["route"]
    if not isinstance(route, APIRoute) or route.body_field is not None:
        return
    sent: JsonValue = json.loads(await request.body() or b"{}")
    field = next(iter(sent), None) if isinstance(sent, dict) else "body"
    if field is not None:
        raise Refused("invalid", "this takes no body", field=field[:80], fix="leave it out")
