"""The growth of context by group: what the calls of a group used, what was saved, and what was cut.

A group has a value in common, the day or the hour that its calls were made in, or both. Its figures
are sums over the rows of its calls, so a rebuild from the log gives the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Subquery,
    Table,
    Text,
    and_,
    case,
    cast,
    func,
    null,
    select,
    true,
)

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.layer_specs import RAG_COMPONENT
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, build_cost_sum
from turnlog.projections.store.read.row_filters import (
    label_columns,
    read_figures,
    sum_column,
)
from turnlog.projections.store.read.row_types import (
    GroupGrowth,
    PrefixBreaks,
    RuleSavings,
)
from turnlog.projections.store.read.token_ledger import SESSION_OF_CALL, GrowthFilter
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    PINNED_BLUEPRINTS,
    SESSIONS,
    WINDOW_PARTS,
    encode_json,
)

GrowthGrouping = Literal["all", "session", "blueprint", "version", "profile", "kind", "model"]
"""How calls are grouped; a version is that of the session's blueprint when the call was made."""

GrowthBucket = Literal["day", "hour"]
"""The time that the calls of a group were made in, in UTC."""

_BUCKETS: Final[dict[GrowthBucket, tuple[int, str]]] = {
    "day": (len("2026-11-23"), "T00:00:00Z"),
    "hour": (len("2026-11-23T08"), ":00:00Z"),
}
"""How much of a time a bucket has, and what makes that its beginning."""

MAX_GROWTH_GROUPS: Final = 10_000
"""Groups in one answer; a question that has more is refused."""

_CALL_COLUMNS: Final = CALLS.c

_PART_COLUMNS: Final = WINDOW_PARTS.c

_VERSION_OF_CALL: Final = (
    select(PINNED_BLUEPRINTS.c.version)
    .where(
        PINNED_BLUEPRINTS.c.build == _CALL_COLUMNS.build,
        PINNED_BLUEPRINTS.c.tenant == _CALL_COLUMNS.tenant,
        PINNED_BLUEPRINTS.c.session == _CALL_COLUMNS.session,
        PINNED_BLUEPRINTS.c.pinned_in < _CALL_COLUMNS.sequence,
    )
    .order_by(PINNED_BLUEPRINTS.c.pinned_in.desc())
    .limit(1)
    .scalar_subquery()
)


async def list_group_growth(
    connection: AsyncConnection,
    tenant: str,
    by: GrowthGrouping,
    sought: GrowthFilter,
    bucket: GrowthBucket | None = None,
) -> tuple[GroupGrowth, ...]:
    """Return the totals of the calls sought by group, or by time and group.

    What a fork copied counts in the session that made it. Raises `Refused` for too many groups.
    """
    chosen = _choose_calls(tenant, by, sought, bucket)
    key = (chosen.c.at, chosen.c.group)
    totals = (
        select(*key, func.count(), sum_column(chosen.c.tokens), sum_column(chosen.c.savings))
        .group_by(*key)
        .order_by(*key)
        .limit(MAX_GROWTH_GROUPS + 1)
    )
    rows = (await connection.execute(totals)).all()
    if len(rows) > MAX_GROWTH_GROUPS:
        detail = f"there are more than {MAX_GROWTH_GROUPS:,} groups"
        fix = "narrow the time by `since` and `until`, or group by less"
        raise Refused("too-many-groups", detail, field="group_by", fix=fix)
    components_by_group = await _sum_group_components(connection, chosen)
    spent_by_group = await _sum_group_attempts(connection, chosen)
    rules_by_group = await _sum_group_rules(connection, chosen)
    breaks_by_group = await _sum_group_prefix_breaks(connection, chosen)
    return tuple(
        GroupGrowth(
            group=name,
            at=at + _BUCKETS[bucket][1] if bucket else None,
            calls=calls,
            tokens=tokens,
            savings=savings,
            **components_by_group.get((at, name), _NO_COMPONENTS),
            rules=rules_by_group.get((at, name), ()),
            prefix_breaks=breaks_by_group.get((at, name), ()),
            **spent_by_group.get((at, name), {}),
        )
        for at, name, calls, tokens, savings in rows
    )


_GroupKey = tuple[str | None, str | None]
"""The beginning of a group's time, and the value that its calls have in common."""


def _choose_calls(
    tenant: str, by: GrowthGrouping, sought: GrowthFilter, bucket: GrowthBucket | None
) -> Subquery:
    """Return the calls sought that no fork copied, each with the key of its group."""
    at = func.substr(_CALL_COLUMNS.at, 1, _BUCKETS[bucket][0]) if bucket else null()
    names = (
        *("build", "tenant", "session", "turn", "call", "tokens", "savings", "optimizations"),
        *("prefix_call", "prefix_tokens", "prefix_ended_by"),
    )
    return (
        select(
            *(_CALL_COLUMNS[name] for name in names),
            at.label("at"),
            _choose_group_column(by).label("group"),
        )
        .join_from(CALLS, SESSIONS, SESSION_OF_CALL)
        .where(_CALL_COLUMNS.copied.is_(False), *sought.build_conditions(tenant))
        .subquery()
    )


def _match_rows_of_call(table: Table, chosen: Subquery) -> ColumnElement[bool]:
    names = ("build", "tenant", "session", "call")
    return and_(*(table.c[name] == chosen.c[name] for name in names))


class _ComponentFigures(TypedDict):
    components: dict[str, int]
    cut_turns: int
    retrieval_hit_rate: float | None


_NO_COMPONENTS: Final[_ComponentFigures] = {
    "components": {},
    "cut_turns": 0,
    "retrieval_hit_rate": None,
}


async def _sum_group_components(
    connection: AsyncConnection, chosen: Subquery
) -> Mapping[_GroupKey, _ComponentFigures]:
    key = (chosen.c.at, chosen.c.group)
    parts = (
        select(
            *key,
            _PART_COLUMNS.component,
            sum_column(_PART_COLUMNS.tokens),
            sum_column(_PART_COLUMNS.cut_turns),
            func.avg(case((_PART_COLUMNS.parts > 0, 1.0), else_=0.0)),
        )
        .join_from(chosen, WINDOW_PARTS, _match_rows_of_call(WINDOW_PARTS, chosen))
        .group_by(*key, _PART_COLUMNS.component)
        .order_by(_PART_COLUMNS.component)
    )
    found: dict[_GroupKey, _ComponentFigures] = {}
    for at, name, component, tokens, cut_turns, included_share in await connection.execute(parts):
        figures = found.setdefault((at, name), {**_NO_COMPONENTS, "components": {}})
        figures["components"][component] = tokens
        figures["cut_turns"] += cut_turns
        if component == RAG_COMPONENT:
            figures["retrieval_hit_rate"] = float(included_share)
    return found


async def _sum_group_attempts(
    connection: AsyncConnection, chosen: Subquery
) -> Mapping[_GroupKey, _SpentFigures]:
    of_call = and_(
        _match_rows_of_call(ATTEMPTS, chosen),
        ATTEMPTS.c.turn == chosen.c.turn,
        ATTEMPTS.c.copied.is_(False),
    )
    columns = {
        **COST_COLUMNS,
        "input_tokens": sum_column(ATTEMPTS.c.input_tokens),
        "cached_tokens": sum_column(ATTEMPTS.c.cached_tokens),
    }
    spent = (
        select(chosen.c.at, chosen.c.group, *label_columns(columns))
        .join_from(chosen, ATTEMPTS, of_call)
        .group_by(chosen.c.at, chosen.c.group)
    )
    return {
        (row["at"], row["group"]): {
            "input_tokens": row["input_tokens"],
            "cached_tokens": row["cached_tokens"],
            "cost": build_cost_sum(read_figures(row, COST_COLUMNS)),
        }
        for row in (await connection.execute(spent)).mappings()
    }


class _SpentFigures(TypedDict, total=False):
    input_tokens: int
    cached_tokens: int
    cost: CostTotal


async def _sum_group_rules(
    connection: AsyncConnection, chosen: Subquery
) -> Mapping[_GroupKey, tuple[RuleSavings, ...]]:
    """Sum what each rule saved, which is JSON in the rows of calls."""
    is_postgres = connection.dialect.name == "postgresql"
    stored = cast(chosen.c.optimizations, JSON) if is_postgres else chosen.c.optimizations
    pairs = func.json_each(stored).table_valued("key", "value")
    # The value is JSON on Postgres, which becomes a number by way of its text only.
    tokens = sum_column(cast(cast(pairs.c.value, Text), BigInteger))
    key = (chosen.c.at, chosen.c.group, pairs.c.key)
    saved = (
        select(*key, func.count(), tokens)
        .select_from(chosen)
        .join(pairs, true())
        .where(chosen.c.optimizations != encode_json({}))
        .group_by(*key)
        .order_by(tokens.desc(), pairs.c.key)
    )
    return _collect_groups(await connection.execute(saved), RuleSavings)


async def _sum_group_prefix_breaks(
    connection: AsyncConnection, chosen: Subquery
) -> Mapping[_GroupKey, tuple[PrefixBreaks, ...]]:
    """Sum what the earlier prompts had from where these differ, by the layer that does."""
    earlier = CALLS.alias()
    of_prefix = and_(
        *(earlier.c[name] == chosen.c[name] for name in ("build", "tenant", "session")),
        earlier.c.call == chosen.c.prefix_call,
    )
    lost = earlier.c.tokens - chosen.c.prefix_tokens
    # A counter that was corrected in between counts the same prompt differently.
    tokens = sum_column(case((lost > 0, lost), else_=0))
    key = (chosen.c.at, chosen.c.group, chosen.c.prefix_ended_by)
    broken = (
        select(*key, func.count(), tokens)
        .join_from(chosen, earlier, of_prefix)
        .where(chosen.c.prefix_ended_by.is_not(None))
        .group_by(*key)
        .order_by(tokens.desc(), chosen.c.prefix_ended_by)
    )
    return _collect_groups(await connection.execute(broken), PrefixBreaks)


_Sum = TypeVar("_Sum", RuleSavings, PrefixBreaks)


def _collect_groups(
    rows: Iterable[Sequence[Any]], shape: type[_Sum]
) -> Mapping[_GroupKey, tuple[_Sum, ...]]:
    found: defaultdict[_GroupKey, tuple[_Sum, ...]] = defaultdict(tuple)
    for at, name, common, calls, tokens in rows:
        found[at, name] += (shape(common, calls, tokens),)
    return found


def _choose_group_column(by: GrowthGrouping) -> ColumnElement[Any]:
    match by:
        case "all":
            return null()
        case "session" | "profile" | "kind" | "model":
            return _CALL_COLUMNS[by]
        case "blueprint":
            return SESSIONS.c.blueprint
        case "version":
            return SESSIONS.c.blueprint.concat(" v").concat(cast(_VERSION_OF_CALL, Text))
