"""The routes of a gateway below `/v1`, for tests that try all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fastapi.routing import APIRoute, iter_route_contexts

from turnlog.services.gateway.app import create_routed_app


def iterate_routes() -> Iterator[tuple[str, str]]:
    """Yield method and path of each route below `/v1`."""
    for context in iter_route_contexts(create_routed_app().routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.path.startswith("/v1/"):
            for method in sorted(route.methods or ()):
                yield method, route.path


def fill_path(path: str, session: str = "none") -> str:
    """Return a path with its fields filled in."""
    return re.sub(r"\{(\w+)(:path)?\}", "1", path.replace("{session}", session))
