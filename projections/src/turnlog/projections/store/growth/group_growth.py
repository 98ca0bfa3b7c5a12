"""The growth of context by group: what the calls of a group used, what was saved, and what was cut.

The calls of a group have values in common, the day or the hour that they were made in, or both. Of
hours whose sums are there these are read, and of others the rows of their calls: the answer is the
same, and a month takes no longer than its hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, get_args

from sqlalchemy import (
    ColumnElement,
    Label,
    RowMapping,
    Select,
    Subquery,
    Table,
    Text,
    case,
    cast,
    func,
    select,
    union_all,
)

from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.layer_specs import RAG_COMPONENT
from turnlog.projections.session_views.cost_totals import NO_COST
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.growth.cache_outcomes import build_cache_use
from turnlog.projections.store.growth.call_sums import CALL_SUMS, CallSum
from turnlog.projections.store.growth.chosen_calls import choose_calls, end_of_hour, match_times
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, build_cost_sum
from turnlog.projections.store.read.row_filters import match_tenant, read_figures, sum_column
from turnlog.projections.store.read.row_types import (
    CacheUse,
    GroupGrowth,
    PrefixBreaks,
    PromptSizes,
    RuleSavings,
)
from turnlog.projections.store.schema.hour_tables import (
    ATTEMPT_HOURS,
    CACHE_HOURS,
    CALL_HOURS,
    CHANGED_HOURS,
    COMPONENT_HOURS,
    HOUR_CHARACTERS,
    PREFIX_HOURS,
    RULE_HOURS,
    SIZE_HOURS,
    truncate_time,
)

GrowthGrouping = Literal["session", "blueprint", "version", "profile", "kind", "model"]
"""What calls have in common; a version is that of the session's blueprint at the call."""

GROWTH_GROUPINGS: Final[tuple[GrowthGrouping, ...]] = get_args(GrowthGrouping)

MAX_GROUPINGS: Final = 2
"""Values that the calls of a group are told apart by, beside their time."""

GrowthBucket = Literal["day", "hour"]
"""The time that the calls of a group were made in, in UTC."""

_BUCKETS: Final[dict[GrowthBucket, tuple[int, str]]] = {
    "day": (len("2026-11-23"), "T00:00:00Z"),
    "hour": (HOUR_CHARACTERS, ":00:00Z"),
}
"""How much of an hour a bucket has, and what makes that its beginning."""

_KEPT_STATEMENTS: Final = 8 * len(CALL_SUMS)
"""Statements that are kept, as who watches asks the same again, and building one takes 2 ms."""

MAX_GROWTH_GROUPS: Final = 10_000
"""Groups in one answer; a question that has more is refused."""


async def list_group_growth(
    connection: AsyncConnection,
    tenant: str,
    by: Sequence[GrowthGrouping],
    sought: GrowthFilter,
    bucket: GrowthBucket | None = None,
    *,
    has_sizes: bool = True,
) -> tuple[GroupGrowth, ...]:
    """Return the totals of the calls sought by group, or by time and group.

    What a fork copied counts in the session that made it. Whoever does not need the sizes of
    prompts spares a fifth of the time. Raises `Refused` for too many groups.
    """
    question = _Question(tenant, tuple(by), sought, bucket)
    sources = await _choose_sources(connection, question)
    found = {
        each.hours.name: await _sum_groups(connection, question, each, sources)
        for each in CALL_SUMS
        if has_sizes or each.hours is not SIZE_HOURS
    }
    return tuple(
        _build_group(question, key, {name: sums.get(key, ()) for name, sums in found.items()})
        for key in found[CALL_HOURS.name]
    )


async def sum_calls(
    connection: AsyncConnection, tenant: str, sought: GrowthFilter, hours: Table
) -> Sequence[RowMapping]:
    """Return one sum over the calls sought, that of these hours: a row for each of its labels."""
    question = _Question(tenant, (), sought, None)
    sources = await _choose_sources(connection, question)
    (each,) = (found for found in CALL_SUMS if found.hours is hours)
    return (await _sum_groups(connection, question, each, sources)).get((), ())


@dataclass(frozen=True, slots=True)
class _Question:
    tenant: str
    by: tuple[GrowthGrouping, ...]
    sought: GrowthFilter
    bucket: GrowthBucket | None

    @property
    def dimensions(self) -> tuple[str, ...]:
        """What is read of each call."""
        blueprint = ("blueprint",) if "version" in self.by else ()
        hour = ("hour",) if self.bucket else ()
        return tuple(dict.fromkeys((*hour, *self.by, *blueprint)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Which hours are read as sums, and when the calls were made that are read as rows."""

    begin: str
    end: str
    """The hours from `begin` to before `end` are read as sums."""
    times: tuple[tuple[str | None, str | None], ...]
    """From when to before when the calls were made; None for any time."""


async def _choose_sources(connection: AsyncConnection, question: _Question) -> _Sources:
    """Read sums of the hours before what changed first, as far as these are asked for whole."""
    sought = question.sought
    since = format_rfc3339(sought.since) if sought.since else None
    until = format_rfc3339(sought.until) if sought.until else None
    # The latest ten minutes always changed, so there are no calls where none did.
    end = await connection.scalar(_select_first_changed(question.tenant)) or ""
    if until:
        end = min(end, until[:HOUR_CHARACTERS])
    hour = since[:HOUR_CHARACTERS] if since else ""
    is_whole = since is None or since == f"{hour}:00:00.000000Z"
    begin = hour if is_whole else end_of_hour(hour)
    # The sums do not tell sessions apart.
    if sought.session is not None or "session" in question.by or begin >= end:
        return _Sources(begin="", end="", times=((since, until),))
    edge = () if is_whole else ((since, begin),)
    return _Sources(begin=begin, end=end, times=(*edge, (end, until)))


def _select_first_changed(tenant: str) -> Select[Any]:
    changed, summed = CHANGED_HOURS.c, CALL_HOURS.c
    hour = truncate_time(changed.hour, HOUR_CHARACTERS)
    mine = summed.build == changed.build, summed.tenant == changed.tenant
    # A clock that is late makes calls of an hour that was summed as a whole.
    has_whole = select(summed.hour).where(*mine, summed.hour == hour).exists()
    first = func.min(case((has_whole, hour), else_=changed.hour))
    return select(first).where(match_tenant(CHANGED_HOURS, tenant))


def _select_terms(question: _Question, each: CallSum, sources: _Sources, dialect: str) -> Subquery:
    """Return what hours and calls add to a sum."""
    untimed = replace(question.sought, since=None, until=None).build_conditions(question.tenant)
    terms: list[Select[Any]] = []
    for begin, end in sources.times:
        chosen = choose_calls((*untimed, *match_times(begin, end)), question.dimensions)
        keys = [chosen.c[name] for name in question.dimensions]
        terms.append(each.select_terms(chosen, keys, dialect))
    if sources.end:
        columns = each.hours.c
        names = (*question.dimensions, *each.labels, *each.figures)
        terms.append(
            select(*(columns[name] for name in names)).where(
                *question.sought.build_hour_conditions(each.hours, question.tenant),
                columns.hour >= sources.begin,
                columns.hour < sources.end,
            )
        )
    return union_all(*terms).subquery()


_GroupKey = tuple[str | None, ...]
"""The beginning of a group's time if there are buckets, and the values its calls have in common."""

_Sums = Sequence[RowMapping]
"""Those of one group, one for each of the labels."""


async def _sum_groups(
    connection: AsyncConnection, question: _Question, each: CallSum, sources: _Sources
) -> Mapping[_GroupKey, _Sums]:
    sums = _select_sums(question, each, sources, connection.dialect.name)
    keys = [f"by_{name}" for name in question.by]
    if question.bucket:
        keys.insert(0, "at")
    found: defaultdict[_GroupKey, list[RowMapping]] = defaultdict(list)
    for row in (await connection.execute(sums)).mappings():
        found[tuple(row[key] for key in keys)].append(row)
    if len(found) > MAX_GROWTH_GROUPS:
        detail = f"there are more than {MAX_GROWTH_GROUPS:,} groups"
        fix = "narrow the time by `since` and `until`, or group by less"
        raise Refused("too-many-groups", detail, field="group_by", fix=fix)
    return found


@lru_cache(maxsize=_KEPT_STATEMENTS)
def _select_sums(
    question: _Question, each: CallSum, sources: _Sources, dialect: str
) -> Select[Any]:
    terms = _select_terms(question, each, sources, dialect)
    keys = _choose_key_columns(question, terms)
    labels = [terms.c[name] for name in each.labels]
    return (
        select(*keys, *labels, *(sum_column(terms.c[name]).label(name) for name in each.figures))
        .group_by(*keys, *labels)
        # Without a group there is one sum, even of nothing.
        .having(func.count() > 0)
        .order_by(*keys, *labels)
        # A group has few labels, in their order; only the sum without any limits the groups.
        .limit(None if labels else MAX_GROWTH_GROUPS + 1)
    )


def _choose_key_columns(question: _Question, terms: Subquery) -> list[Label[Any]]:
    columns: dict[str, ColumnElement[Any]] = {}
    if question.bucket:
        columns["at"] = func.substr(terms.c.hour, 1, _BUCKETS[question.bucket][0])
    for name in question.by:
        column: ColumnElement[Any] = terms.c[name]
        if name == "version":
            column = terms.c.blueprint.concat(" v").concat(cast(column, Text))
        columns[f"by_{name}"] = column
    return [column.label(name) for name, column in columns.items()]


def _build_group(question: _Question, key: _GroupKey, sums: Mapping[str, _Sums]) -> GroupGrowth:
    at, values = (key[0], key[1:]) if question.bucket else (None, key)
    (calls,) = sums[CALL_HOURS.name]
    components = sums[COMPONENT_HOURS.name]
    retrieved = [row for row in components if row["component"] == RAG_COMPONENT]
    (spent,) = sums[ATTEMPT_HOURS.name] or (None,)
    return GroupGrowth(
        key=dict(zip(question.by, values, strict=True)),
        at=at + _BUCKETS[question.bucket][1] if at and question.bucket else None,
        calls=calls["calls"],
        tokens=calls["tokens"],
        prompt_sizes=_find_sizes(sums[SIZE_HOURS.name]) if SIZE_HOURS.name in sums else None,
        savings=calls["savings"],
        cut_calls=calls["cut_calls"],
        components={row["component"]: row["tokens"] for row in components},
        cut_turns=sum(row["cut_turns"] for row in components),
        rules=_list_largest(RuleSavings, sums[RULE_HOURS.name]),
        prefix_breaks=_list_largest(PrefixBreaks, sums[PREFIX_HOURS.name]),
        caches=_list_dearest(sums[CACHE_HOURS.name]),
        input_tokens=spent["input_tokens"] if spent else 0,
        cached_tokens=spent["cached_tokens"] if spent else 0,
        cost=build_cost_sum(read_figures(spent, COST_COLUMNS)) if spent else NO_COST,
        retrieval_hit_rate=retrieved[0]["included"] / retrieved[0]["calls"] if retrieved else None,
    )


def _find_sizes(sums: _Sums) -> PromptSizes:
    """Return the sizes of which so many hundredths of the prompts are no larger: nearest ranks."""
    calls = sum(row["calls"] for row in sums)

    def find_size(hundredths: int) -> int:
        reached = 0
        for row in sums:
            reached += row["calls"]
            if reached * 100 >= calls * hundredths:
                return int(row["size"])
        return 0

    return PromptSizes(p10=find_size(10), p50=find_size(50), p95=find_size(95))


def _list_dearest(sums: _Sums) -> tuple[CacheUse, ...]:
    """Return what became of caches, what cost most first."""
    uses = map(build_cache_use, sums)
    return tuple(sorted(uses, key=lambda use: (-(use.cost.micro_dollars or 0), -use.tokens)))


_Labelled = TypeVar("_Labelled", RuleSavings, PrefixBreaks)


def _list_largest(shape: type[_Labelled], sums: _Sums) -> tuple[_Labelled, ...]:
    """Return the sums by label, that of the most tokens first."""
    (label,) = fields(shape)[:1]
    by_tokens = sorted(sums, key=lambda row: -row["tokens"])
    return tuple(shape(row[label.name], row["calls"], row["tokens"]) for row in by_tokens)
