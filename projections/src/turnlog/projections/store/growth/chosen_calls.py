"""Chooses the calls that a sum is over: by conditions, times and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Subquery, and_, select

from turnlog.projections.store.schema.hour_tables import TEN_MINUTES_CHARACTERS, truncate_time
from turnlog.projections.store.schema.read_model_tables import CALLS, PINNED_BLUEPRINTS, SESSIONS

SESSION_OF_CALL: Final = and_(
    SESSIONS.c.build == CALLS.c.build,
    SESSIONS.c.tenant == CALLS.c.tenant,
    SESSIONS.c.session == CALLS.c.session,
)

_VERSION_OF_CALL: Final = (
    select(PINNED_BLUEPRINTS.c.version)
    .where(
        PINNED_BLUEPRINTS.c.build == CALLS.c.build,
        PINNED_BLUEPRINTS.c.tenant == CALLS.c.tenant,
        PINNED_BLUEPRINTS.c.session == CALLS.c.session,
        PINNED_BLUEPRINTS.c.pinned_in < CALLS.c.sequence,
    )
    .order_by(PINNED_BLUEPRINTS.c.pinned_in.desc())
    .limit(1)
    .scalar_subquery()
)

_DIMENSIONS: Final[dict[str, ColumnElement[Any]]] = {
    "hour": truncate_time(CALLS.c.at, TEN_MINUTES_CHARACTERS),
    "session": CALLS.c.session,
    "blueprint": SESSIONS.c.blueprint,
    "version": _VERSION_OF_CALL,
    "profile": CALLS.c.profile,
    "kind": CALLS.c.kind,
    "model": CALLS.c.model,
}

_COUNTED: Final = (
    *("build", "tenant", "session", "turn", "call", "model", "tokens", "savings"),
    *("optimizations", "prefix_call", "prefix_tokens", "prefix_ended_by"),
)
"""The columns of a call that the sums read."""


def choose_calls(conditions: Iterable[ColumnElement[bool]], dimensions: Iterable[str]) -> Subquery:
    """Return the calls that meet the conditions and that no fork copied, with these dimensions."""
    named = {name: CALLS.c[name] for name in _COUNTED} | {
        name: _DIMENSIONS[name] for name in dimensions
    }
    return (
        select(*(column.label(name) for name, column in named.items()))
        .join_from(CALLS, SESSIONS, SESSION_OF_CALL)
        .where(CALLS.c.copied.is_(False), *conditions)
        .subquery()
    )


def match_times(begin: str | None, end: str | None) -> Sequence[ColumnElement[bool]]:
    """Match the calls that were made from one time to before another, None for any."""
    return (
        *(() if begin is None else (CALLS.c.at >= begin,)),
        *(() if end is None else (CALLS.c.at < end,)),
    )


def end_of_hour(hour: str) -> str:
    """Return a text that is after every time of an hour, or of ten minutes, and of none later."""
    return hour + ("9:61" if len(hour) == TEN_MINUTES_CHARACTERS else ":59:61")
