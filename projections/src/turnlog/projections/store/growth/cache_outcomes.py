"""What became of the cache of a prompt: what it could have read, and what it did not.

An outcome follows from what is recorded only: how far the prompt repeats the earlier one of its
kind, what the provider reported of both, and the terms of its cache. Two calls are never compared
by their cached tokens alone, for these fall as well where there was less to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    RowMapping,
    ScalarSelect,
    Select,
    Subquery,
    and_,
    case,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.sql.elements import KeyedColumnElement

from turnlog.projections.session_views.cost_totals import GUESSED_PRICES, NO_COST
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, build_cost_sum
from turnlog.projections.store.read.row_filters import read_figures
from turnlog.projections.store.read.row_types import CacheUse
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CALLS

NO_CAUSE: Final = ""
"""The cause of an outcome by which nothing was lost."""

_MILLION: Final = 1_000_000

_TOLERATED_SHARE: Final = 50
"""A fiftieth of what could be read may be missing: our count of a prefix is an estimate."""

_SENT: Final = ATTEMPTS.alias("sent")
"""The first attempt at the call whose tokens the provider reported."""

_EARLIER: Final = CALLS.alias("earlier")
"""The earlier call of its kind."""

_EARLIER_SENT: Final = ATTEMPTS.alias("earlier_sent")
"""The last attempt at that one whose tokens the provider reported."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the outcome of a call follows from."""

    chosen: Subquery

    @staticmethod
    def _count_cached(tokens: ColumnElement[int]) -> ColumnElement[int]:
        """Return how many tokens are cached of a prompt of this length."""
        minimum, step = _SENT.c.cache_minimum, _SENT.c.cache_step
        cached = minimum + (tokens - minimum) // step * step
        return case((tokens >= minimum, cached), else_=0)

    @property
    def cacheable(self) -> ColumnElement[int]:
        """What could be read if the whole earlier prompt was repeated.

        Where prompts are cached up to their marks, that is what the provider had of it then.
        """
        marked = _EARLIER_SENT.c.cached_tokens + _EARLIER_SENT.c.cache_write_tokens
        return case(
            (_SENT.c.cache_step.is_(None), marked),
            else_=self._count_cached(_EARLIER_SENT.c.input_tokens),
        )

    @property
    def cacheable_prefix(self) -> ColumnElement[int]:
        """What could be read of what is repeated, our count made the provider's."""
        # Of a known type, so that the division is one of integers on Postgres too.
        counted = func.nullif(_EARLIER.c.tokens, 0, type_=BigInteger)
        prefix = _EARLIER_SENT.c.input_tokens * self.chosen.c.prefix_tokens // counted
        return self._count_cached(prefix)

    @property
    def is_unknown(self) -> ColumnElement[bool]:
        """Whether the provider did not say what it read, or nobody knows what it could have."""
        minimum, sent = _SENT.c.cache_minimum, _EARLIER_SENT.c.input_tokens
        return or_(minimum.is_(None), sent.is_(None))

    @property
    def is_broken(self) -> ColumnElement[bool]:
        """Whether what is missing is missing because the prompt changed, and the rest was read."""
        is_rest_read = _SENT.c.cached_tokens + self._tolerance >= self.cacheable_prefix
        return and_(
            self.chosen.c.prefix_ended_by.is_not(None),
            or_(_SENT.c.cache_step.is_(None), is_rest_read),
        )

    @property
    def is_kept(self) -> ColumnElement[bool]:
        """Whether the provider read what it could."""
        return _SENT.c.cached_tokens + self._tolerance >= self.cacheable

    @property
    def _tolerance(self) -> ColumnElement[int]:
        share = self.cacheable // _TOLERATED_SHARE
        step = func.coalesce(_SENT.c.cache_step, 0)
        return case((share > step, share), else_=step)

    @property
    def miss(self) -> ColumnElement[str]:
        """Why the provider read less than the prompt repeats, whatever changed in it."""
        is_late = _SENT.c.started_at > _EARLIER_SENT.c.cached_until
        return case(
            (self.chosen.c.model != _EARLIER.c.model, "model"),
            (is_late, "expired"),
            else_="provider",
        )


def select_cache_outcomes(chosen: Subquery, keys: Sequence[KeyedColumnElement[Any]]) -> Select[Any]:
    """Select the outcome of each of the calls chosen, what caused it, and what was lost.

    Lost is what could have been read of the whole earlier prompt, and was not. In money it is by
    the prices that were recorded with the attempt.
    """
    facts = _Facts(chosen)
    found = (
        select(
            *keys,
            _find_harmless_outcome(facts).label("harmless"),
            # What is gone for another reason was not lost by the change.
            and_(facts.miss == "provider", facts.is_broken).label("is_broken"),
            facts.miss.label("miss"),
            chosen.c.prefix_ended_by.label("layer"),
            (facts.cacheable - _SENT.c.cached_tokens).label("missing"),
            _SENT.c.cache_spared.label("spared"),
            _SENT.c.price.in_(GUESSED_PRICES).label("is_guessed"),
        )
        .select_from(_join_facts(chosen))
        .subquery()
    )
    is_lost = found.c.harmless.is_(None)
    has_price = is_lost & found.c.spared.is_not(None)
    cost = (found.c.missing * found.c.spared + _MILLION // 2) // _MILLION
    lost = case((found.c.is_broken, "broken"), else_="missed")
    cause = case((found.c.is_broken, found.c.layer), else_=found.c.miss)
    columns: dict[str, ColumnElement[Any]] = {
        **{key.name: found.c[key.name] for key in keys},
        "outcome": func.coalesce(found.c.harmless, lost),
        "cause": case((is_lost, cause), else_=NO_CAUSE),
        "calls": literal(1, BigInteger),
        "tokens": case((is_lost, found.c.missing), else_=0),
        "micro_dollars": case((has_price, cost), else_=0),
        "priced_attempts": case((has_price, 1), else_=0),
        "guessed_attempts": case((has_price & found.c.is_guessed, 1), else_=0),
        "unpriced_calls": case((is_lost & found.c.spared.is_(None), 1), else_=0),
    }
    return select(*[column.label(name) for name, column in columns.items()])


def build_cache_use(row: Mapping[str, Any] | RowMapping) -> CacheUse:
    """Build what became of caches from a row of `select_cache_outcomes`, or of sums over them."""
    return CacheUse(
        outcome=row["outcome"],
        cause=row["cause"] or None,
        calls=row["calls"],
        tokens=row["tokens"],
        cost=build_cost_sum(read_figures(row, COST_COLUMNS)) if row["tokens"] else NO_COST,
    )


def _find_harmless_outcome(facts: _Facts) -> ColumnElement[str]:
    """Return the outcome of a call that lost nothing that is known; null for one that did."""
    return case(
        (facts.chosen.c.prefix_call.is_(None), "first"),
        (facts.is_unknown, "unknown"),
        (facts.cacheable == 0, "small"),
        (facts.is_kept, "kept"),
    )


def _join_facts(chosen: Subquery) -> FromClause:
    of_earlier = and_(
        *(_EARLIER.c[name] == chosen.c[name] for name in ("build", "tenant", "session")),
        _EARLIER.c.call == chosen.c.prefix_call,
    )
    tried = ATTEMPTS.alias()
    first = _find_reported(tried, func.min(tried.c.attempt), chosen)
    last = _find_reported(tried, func.max(tried.c.attempt), _EARLIER)
    is_sent = and_(_match_turn(_SENT, chosen), _SENT.c.attempt == first)
    was_sent = and_(_match_turn(_EARLIER_SENT, _EARLIER), _EARLIER_SENT.c.attempt == last)
    return (
        chosen.outerjoin(_EARLIER, of_earlier)
        .outerjoin(_SENT, is_sent)
        .outerjoin(_EARLIER_SENT, was_sent)
    )


def _find_reported(
    tried: FromClause, choice: ColumnElement[int], call: FromClause
) -> ScalarSelect[int]:
    """Choose of the attempts at a call whose tokens the provider reported."""
    is_meant = (tried.c.call == call.c.call) & (tried.c.known == "reported")
    return (
        select(choice).where(_match_turn(tried, call), is_meant).correlate(call).scalar_subquery()
    )


def _match_turn(attempts: FromClause, call: FromClause) -> ColumnElement[bool]:
    names = ("build", "tenant", "session", "turn")
    return and_(*(attempts.c[name] == call.c[name] for name in names))
