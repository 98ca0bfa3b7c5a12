from __future__ import annotations

import json

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import JsonValue

from turnlog.events.errors import Refused


async def check_body(request: Request) -> None:
    """Refuse a non-empty body on a route that takes none.

    Request models refuse unknown fields, but a route without a request model would ignore its body
    silently. An empty object is allowed.
    """
    route: object = request.scope["route"]
    if not isinstance(route, APIRoute) or route.body_field is not None:
        return
    sent: JsonValue = json.loads(await request.body() or b"{}")
    field = next(iter(sent), None) if isinstance(sent, dict) else "body"
    if field is not None:
        raise Refused("invalid", "this takes no body", field=field[:80], fix="leave it out")
