"""Checks that all routes share: query names, unexpected bodies, times and `min_sequence`.

The gateway refuses unknown query parameters, because a misspelt `min_sequence` would return stale
rows. It also refuses repeated parameters, because one of the values would be ignored. Each route
validates the values themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from inspect import isclass

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import suggest_word


async def check_query(request: Request) -> None:
    """Refuse query parameters that the route does not declare, and repeated ones."""
    route: object = request.scope["route"]
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in given.items():
        if times > 1:
            raise _create_refusal(name, "it is given twice", "give it once")
    known = frozenset(_iterate_parameter_names(route.dependant)) if isinstance(route, APIRoute) else frozenset[str]()
    for name in given:
        if name not in known and _ANY_NAME not in known:
            raise _create_refusal(name, "no such parameter", suggest_word(name[:80], known))


_ANY_NAME = "*"
"""Marks a route that validates undeclared parameter names itself."""


def _iterate_parameter_names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind: object = parameter.field_info.annotation
        if isclass(kind) and issubclass(kind, BaseModel):
            yield from kind.model_fields
            yield from (_ANY_NAME,) if kind.model_config.get("extra") == "allow" else ()
        else:
            yield parameter.alias
    for below in dependant.dependencies:
        yield from _iterate_parameter_names(below)


def _create_refusal(name: str, detail: str, fix: str) -> Refused:
    return Refused("invalid", detail, field=name[:80], fix=fix)
