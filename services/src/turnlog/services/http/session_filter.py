"""The filter of sessions as query parameters, for every route that selects sessions by it."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract.request_values import USER_NAME_PATTERN, SessionLabel
from turnlog.events.content import SHA256_PATTERN
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.store.read.session_queries import SessionQuery
from turnlog.services.http.request_checks import QueryTime, convert_to_utc

ATTRIBUTE_PARAMETER: Final = re.compile(
    r"attribute(?:\.(?P<dotted>.+)|\[(?P<bracketed>.+)\])", re.DOTALL
)
"""A query parameter that filters by an attribute: `attribute.NAME` or `attribute[NAME]`."""

_ATTRIBUTE_SPELLING: Final = "attribute.NAME"

ATTRIBUTE_FILTER: Final = {
    "name": "attribute",
    "in": "query",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    "example": {"language": "lt"},
    "description": (
        "Values of attributes by name, as `attribute[NAME]=VALUE`; `attribute.NAME=VALUE` is the "
        "same. A session matches if it has all of them."
    ),
}
"""How the OpenAPI document describes the filter: FastAPI has no parameter with such a style."""

MAX_ATTRIBUTE_FILTERS: Final = 32
"""How many attributes one list may filter by; a database has a limit too, some hundreds later."""


_CONDITIONS: Final = {each.name for each in fields(SessionQuery)} - {"attributes", "since", "until"}
"""The parameters that are conditions of the query as they are."""


class SessionFilter(BaseModel):
    """The query parameters that select sessions: those that meet all that are given.

    Unknown parameters are refused: a request that ignored a filter would select too much. The
    options of the command line are those of `SessionFilterOptions`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    q: Annotated[str, Field(max_length=200)] | None = None
    """Text that the id, the title or the first turn's text contains."""
    blueprint: str | None = None
    """The name of the session's blueprint."""
    since: QueryTime | None = None
    """Sessions whose latest event is at or after this time."""
    until: QueryTime | None = None
    """Sessions that were opened before this time."""
    user: Annotated[str, Field(pattern=USER_NAME_PATTERN)] | None = None
    """Sessions with a turn that this user asked for."""
    owner: Annotated[str, Field(pattern=USER_NAME_PATTERN)] | None = None
    """Sessions of this user."""
    origin: str | None = None
    """The id of the session they were forked or spawned from."""
    digest: Annotated[str, Field(pattern=SHA256_PATTERN)] | None = None
    """The digest of a blueprint, cartridge, memory policy or prompt file they are pinned to; see
    `/v1/pins`.
    """
    open: bool | None = None
    """Whether the session is not closed."""
    redacted: bool | None = None
    """Whether a reply of the session was redacted."""
    profile: str | None = None
    """The current profile."""
    phase: str | None = None
    """The current phase."""
    failed: bool | None = None
    """Whether a turn of the session failed."""
    failure: str | None = None
    """The code that a turn of the session failed with, such as `timeout`."""
    label: SessionLabel | None = None
    """A label that the session has."""
    near: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """Sessions whose last prompt took at least so many per cent of its budget."""

    def create_query(self) -> SessionQuery:
        """Return the query for the read models.

        Raises `Refused` for text that cannot be stored and for unknown parameters.
        """
        for name in ("q", "blueprint", "origin", "profile", "phase", "failure", "label"):
            check_text(getattr(self, name) or "", name)
        return SessionQuery(
            **self.model_dump(include=_CONDITIONS),
            attributes=parse_attribute_filters(self),
            since=convert_to_utc(self.since, "since") if self.since else None,
            until=convert_to_utc(self.until, "until") if self.until else None,
        )


def parse_attribute_filters(query: BaseModel) -> dict[str, str]:
    """Return the value by attribute, of the parameters that a model does not know.

    Raises `Refused` for those that are no attributes, in either spelling.
    """
    parameters: dict[str, str] = query.model_extra or {}
    if len(parameters) > MAX_ATTRIBUTE_FILTERS:
        detail = f"the request filters by {len(parameters)} attributes"
        fix = f"filter by at most {MAX_ATTRIBUTE_FILTERS}"
        raise Refused("too-many-filters", detail, field=_ATTRIBUTE_SPELLING, fix=fix)
    attributes: dict[str, str] = {}
    for parameter, value in parameters.items():
        found = ATTRIBUTE_PARAMETER.fullmatch(parameter)
        if found is None:
            near = suggest_word(parameter[:80], (*type(query).model_fields, _ATTRIBUTE_SPELLING))
            field = format_sent_name(parameter)
            raise Refused("invalid", "no such parameter", field=field, fix=near)
        name = check_text(found["dotted"] or found["bracketed"], "query")
        if name in attributes:
            detail = "the attribute is given twice"
            field = format_sent_name(parameter)
            raise Refused("invalid", detail, field=field, fix="send it once")
        attributes[name] = check_text(value, format_sent_name(parameter))
    return attributes
