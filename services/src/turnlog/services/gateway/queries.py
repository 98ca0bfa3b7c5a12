"""Queries: what may stand behind the question mark, on every route alike.

A parameter that nobody knows is refused and not overlooked: whoever misspells `min_sequence`
would take old rows for fresh ones. One that is given twice is refused too, since whichever of
the two were taken, the other one would be lost. What a value may be is for the route to say.
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
from turnlog.projections.blueprint.faults import instead_of


async def check_query(request: Request) -> None:
    """Refuse parameters that the route does not know, and those that came more than once."""
    route: object = request.scope["route"]
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in given.items():
        if times > 1:
            raise _refused(name, "it is given twice", "give it once")
    known = frozenset(_known(route.dependant)) if isinstance(route, APIRoute) else frozenset[str]()
    for name in given:
        if name not in known and _ANY not in known:
            raise _refused(name, "no such parameter", instead_of(name[:80], known))


_ANY = "*"
"""Stands for a route that looks at further names by itself."""


def _known(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind: object = parameter.field_info.annotation
        if isclass(kind) and issubclass(kind, BaseModel):
            yield from kind.model_fields
            yield from (_ANY,) if kind.model_config.get("extra") == "allow" else ()
        else:
            yield parameter.alias
    for below in dependant.dependencies:
        yield from _known(below)


def _refused(name: str, detail: str, fix: str) -> Refused:
    return Refused("invalid", detail, field=name[:80], fix=fix)
