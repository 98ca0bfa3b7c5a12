"""Sums over calls: what rows of a call count in each, and the table of the same sum by the hour.

One query per sum serves both who asks and the sums by the hour, so the two cannot differ. What a
fork copied counts in the session that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from sqlalchemy.sql.elements import KeyedColumnElement

from turnlog.projections.store.growth.cache_outcomes import select_cache_outcomes
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, IS_GUESSED, is_unpriced
from turnlog.projections.store.schema.hour_tables import (
    ATTEMPT_HOURS,
    CACHE_HOURS,
    CALL_HOURS,
    COMPONENT_HOURS,
    PREFIX_HOURS,
    RULE_HOURS,
    SIZE_HOURS,
)
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    WINDOW_PARTS,
    encode_json,
)

_Keys = Sequence[KeyedColumnElement[Any]]


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
    is_cut = chosen.c.optimizations != encode_json({})
    return select(
        *keys,
        literal(1).label("calls"),
        chosen.c.tokens,
        chosen.c.savings,
        _count_if(is_cut).label("cut_calls"),
    )


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


def _select_cache_outcomes(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    del dialect
    return select_cache_outcomes(chosen, keys)


_EXACT_SIZE: Final = 64
"""Tokens below which sizes of prompts are not rounded."""

_SIZE_DOUBLINGS: Final = 20
"""Doublings from there on in which they are, to 67 million tokens."""


def _select_sizes(chosen: Subquery, keys: _Keys, dialect: str) -> Select[Any]:
    """Select sizes rounded to the middle of a step, of which each doubling has 32.

    So the sum of an hour has few of them, and none is off by more than 1.6 percent.
    """
    del dialect
    tokens = chosen.c.tokens
    steps = [2 << doubling for doubling in range(_SIZE_DOUBLINGS)]
    size = case(
        (tokens < _EXACT_SIZE, tokens),
        *((tokens < _EXACT_SIZE * step, tokens // step * step + step // 2) for step in steps[:-1]),
        else_=tokens // steps[-1] * steps[-1] + steps[-1] // 2,
    )
    return select(*keys, size.label("size"), literal(1).label("calls"))


CALL_SUMS: Final = (
    CallSum(
        hours=CALL_HOURS,
        figures=("calls", "tokens", "savings", "cut_calls"),
        select_terms=_select_calls,
    ),
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
    CallSum(
        hours=CACHE_HOURS,
        labels=("outcome", "cause"),
        figures=("calls", "tokens", *COST_COLUMNS),
        select_terms=_select_cache_outcomes,
    ),
    CallSum(hours=SIZE_HOURS, labels=("size",), figures=("calls",), select_terms=_select_sizes),
)
