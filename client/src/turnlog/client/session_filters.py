"""Which sessions or looks a list contains: the conditions that both clients take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict


class SessionFilters(TypedDict, total=False):
    """Conditions that the listed sessions meet; those that are None or left out are not applied."""

    text: str | None
    """Words in the id, the title or the first turn."""
    blueprint: str | None
    """The name of the blueprint."""
    attributes: Mapping[str, str] | None
    """Values of attributes by name."""
    profile: str | None
    """The current profile."""
    phase: str | None
    """The current phase."""
    user: str | None
    """Who asked for one of the turns."""
    owner: str | None
    """The user whose session it is."""
    since: datetime | None
    """There is an event at or after this time, which needs a zone."""
    until: datetime | None
    """It was opened before this time, which needs a zone."""
    label: str | None
    """A label that it has."""
    failed: bool | None
    """Whether a turn failed."""
    failure: str | None
    """The code that a turn failed with."""
    redacted: bool | None
    """Whether a reply or a text was redacted."""
    origin: str | None
    """The session it was forked or spawned from."""
    near: int | None
    """Its last prompt took at least so many per cent of its budget."""
    digest: str | None
    """The digest of a text it is pinned to."""
    open: bool | None
    """Whether it is not closed."""


class ReadFilters(TypedDict, total=False):
    """Conditions that the listed looks meet, and the page of them."""

    actor: str | None
    """Who looked: `user:` or `key:` and a name."""
    session: str | None
    """The session that was looked at."""
    what: str | None
    """The kind, such as `prompt` or `bundle`."""
    since: datetime | None
    """At or after this time, which needs a zone; by default those of 31 days."""
    until: datetime | None
    """Before this time, which needs a zone."""
    before: str | None
    """The `next` of the page before this one."""
    limit: int | None
    """Most looks of a page: 1,000, and 100 by default."""
