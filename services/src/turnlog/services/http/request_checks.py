"""Checks that all routes share: paths, query names, unexpected bodies, times and sequences.

The gateway refuses unknown query parameters, because a misspelt `min_sequence` would return stale
rows. It also refuses repeated parameters, because one of the values would be ignored. Each route
validates the values themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import isclass
from typing import Annotated, Final

from fastapi import Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AwareDatetime, BaseModel, BeforeValidator, JsonValue
from pydantic_core import PydanticCustomError

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.services.http.streamed_bodies import has_streamed_body

MAX_PARAMETERS: Final = 64
"""Maximum number of query parameters; FastAPI compares each with all others."""


def check_query_size(query: bytes) -> None:
    """Raise `Refused` for more query parameters than any route has, before they are parsed."""
    if query.count(b"&") >= MAX_PARAMETERS:
        detail = f"the query has more than {MAX_PARAMETERS} parameters"
        raise Refused("invalid", detail, field="query", fix="send each parameter once")


async def check_path(request: Request) -> None:
    """Refuse a last field with a line break at its end, which the router would leave out."""
    template, path = request.scope["route"].path, request.scope["path"]
    if template.endswith(":path}") and path.endswith("\n"):
        name = template.rpartition("{")[2].removesuffix(":path}")
        raise _create_refusal(name, "it ends with a line break", "leave the line break out")


async def check_query(request: Request) -> None:
    """Refuse query parameters that the route does not declare, and repeated ones."""
    route: object = request.scope["route"]
    counts = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in counts.items():
        if times > 1:
            raise _create_refusal(name, "the parameter is repeated", "send it once")
    known = (
        frozenset(_iterate_parameter_names(route.dependant))
        if isinstance(route, APIRoute)
        else frozenset[str]()
    )
    for name in counts:
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
    return Refused("invalid", detail, field=format_sent_name(name), fix=fix)


async def check_body(request: Request) -> None:
    """Refuse a non-empty body on a route that takes none.

    Request models refuse unknown fields, but a route without a request model would ignore its body
    silently. An empty object is allowed.
    """
    route: object = request.scope["route"]
    if not isinstance(route, APIRoute) or route.body_field is not None:
        return
    if has_streamed_body(request.scope):
        return
    sent: JsonValue = json.loads(await request.body() or b"{}")
    field = next(iter(sent), None) if isinstance(sent, dict) else "body"
    if field is not None:
        raise _create_refusal(field, "this route takes no body", "leave it out")


_RFC3339_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}"


def _require_date_and_time(written: object) -> object:
    """Refuse what pydantic would take for seconds since 1970."""
    if isinstance(written, str) and re.match(_RFC3339_PATTERN, written):
        return written
    message = "Input should be a date and time with a zone, such as 2026-01-31T12:00:00Z"
    raise PydanticCustomError("bad_time", message)


QueryTime = Annotated[AwareDatetime, BeforeValidator(_require_date_and_time)]
"""A time of RFC 3339 with its zone."""


def convert_to_utc(moment: datetime, field: str) -> datetime:
    """Return a time in UTC; raises `Refused` when it is outside the calendar there."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        detail = "the time is outside the calendar in UTC"
        raise Refused("invalid", detail, field=field, fix="send another time") from None


MinSequenceQuery = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="Wait until the read models contain this sequence"),
]

TurnPath = Annotated[int, Path(ge=1, le=MAX_INT)]

AtSequence = Annotated[
    int | None,
    Query(
        ge=1, le=MAX_INT, description="The sequence of the state to return; by default the last one"
    ),
]
