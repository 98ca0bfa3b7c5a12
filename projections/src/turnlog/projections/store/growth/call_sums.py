"""Sums over calls: what rows of a call count in each, and the table of the same sum by the hour.

One query per sum serves both who asks and the sums by the hour, so the two cannot differ. What a
fork copied counts in the session that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    Subquery,
    Table,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
    select,
    true,
)

from turnlog.projections.store.growth.token_ledger import SESSION_OF_CALL
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, IS_GUESSED, is_unpriced
from turnlog.projections.store.schema.hour_tables import (
    ATTEMPT_HOURS,
    CALL_HOURS,
    COMPONENT_HOURS,
    HOUR_OF_CALL,
    PREFIX_HOURS,
    RULE_HOURS,
)
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    PINNED_BLUEPRINTS,
    SESSIONS,
    WINDOW_PARTS,
    encode_json,
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
    "hour": HOUR_OF_CALL,
    "session": CALLS.c.session,
    "blueprint": SESSIONS.c.blueprint,
    "version": _VERSION_OF_CALL,
    "profile": CALLS.c.profile,
    "kind": CALLS.c.kind,
    "model": CALLS.c.model,
}

_COUNTED: Final = (
    *("build", "tenant", "session", "turn", "call", "tokens", "savings", "optimizations"),
    *("prefix_call", "prefix_tokens", "prefix_ended_by"),
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
    """Return a text that is after every time of an hour, and before those of the next one."""
    return f"{hour}:59:61"


_Keys = Sequence[ColumnElement[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSum:
    """A sum over calls: its labels tell its terms apart, and its figures add up."""

    hours: Table
    """The same sum by the hour."""
    labels: tuple[str, ...] = ()
    figures: tuple[str, ...]
    select_terms: Callable[[Subquery, _Keys, str], Select[Any]]
    """What each of the calls chosen adds: these keys of the call, the labels and the figures. The
    last argument is the dialect of the database.
    """


def _match_rows_of_call(table: FromClause, chosen: Subquery) -> ColumnElement[bool]:
    names = ("build", "tenant", "session", "call")
    return and_(*(table.c[name] == chosen.c[name] for name in names))


def _select_calls(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    del dialect
    return select(*keys, literal(1).label("calls"), chosen.c.tokens, chosen.c.savings)


def _select_attempts(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    del dialect
    attempt, earlier = ATTEMPTS.c, ATTEMPTS.alias()
    of_call = and_(
        _match_rows_of_call(ATTEMPTS, chosen),
        attempt.turn == chosen.c.turn,
        attempt.copied.is_(False),
    )
    # A call is without a price once, however many of its attempts are.
    is_counted = (
        select(earlier.c.attempt)
        .where(
            _match_rows_of_call(earlier, chosen),
            earlier.c.turn == chosen.c.turn,
            earlier.c.attempt < attempt.attempt,
            is_unpriced(earlier),
        )
        .exists()
    )
    return select(
        *keys,
        attempt.input_tokens,
        attempt.cached_tokens,
        attempt.micro_dollars,
        _count_if(attempt.micro_dollars.is_not(None)).label("priced_attempts"),
        _count_if(IS_GUESSED).label("guessed_attempts"),
        _count_if(and_(is_unpriced(ATTEMPTS), ~is_counted)).label("unpriced_calls"),
    ).join_from(chosen, ATTEMPTS, of_call)


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return case((condition, 1), else_=0)


def _select_components(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    del dialect
    part = WINDOW_PARTS.c
    return select(
        *keys,
        part.component,
        literal(1).label("calls"),
        _count_if(part.parts > 0).label("included"),
        part.tokens,
        part.cut_turns,
    ).join_from(chosen, WINDOW_PARTS, _match_rows_of_call(WINDOW_PARTS, chosen))


def _select_rules(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    """Select what each rule saved, which is JSON in the rows of calls."""
    stored = (
        cast(chosen.c.optimizations, JSON) if dialect == "postgresql" else chosen.c.optimizations
    )
    pairs = func.json_each(stored).table_valued("key", "value")
    # The value is JSON on Postgres, which becomes a number by way of its text only.
    tokens = cast(cast(pairs.c.value, Text), BigInteger)
    return (
        select(*keys, pairs.c.key.label("rule"), literal(1).label("calls"), tokens.label("tokens"))
        .select_from(chosen)
        .join(pairs, true())
        .where(chosen.c.optimizations != encode_json({}))
    )


def _select_prefix_breaks(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    del dialect
    earlier = CALLS.alias()
    of_prefix = and_(
        *(earlier.c[name] == chosen.c[name] for name in ("build", "tenant", "session")),
        earlier.c.call == chosen.c.prefix_call,
    )
    lost = earlier.c.tokens - chosen.c.prefix_tokens
    # A counter that was corrected in between counts the same prompt differently.
    tokens = case((lost > 0, lost), else_=0)
    return (
        select(
            *keys,
            chosen.c.prefix_ended_by.label("layer"),
            literal(1).label("calls"),
            tokens.label("tokens"),
        )
        .join_from(chosen, earlier, of_prefix)
        .where(chosen.c.prefix_ended_by.is_not(None))
    )


CALL_SUMS: Final = (
    CallSum(hours=CALL_HOURS, figures=("calls", "tokens", "savings"), select_terms=_select_calls),
    CallSum(
        hours=ATTEMPT_HOURS,
        figures=("input_tokens", "cached_tokens", *COST_COLUMNS),
        select_terms=_select_attempts,
    ),
    CallSum(
        hours=COMPONENT_HOURS,
        labels=("component",),
        figures=("calls", "included", "tokens", "cut_turns"),
        select_terms=_select_components,
    ),
    CallSum(
        hours=RULE_HOURS, labels=("rule",), figures=("calls", "tokens"), select_terms=_select_rules
    ),
    CallSum(
        hours=PREFIX_HOURS,
        labels=("layer",),
        figures=("calls", "tokens"),
        select_terms=_select_prefix_breaks,
    ),
)
