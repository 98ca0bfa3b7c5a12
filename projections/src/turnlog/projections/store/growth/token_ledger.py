"""The token ledger: what each component used in each call of a session, and what was saved.

The ledger is folded from manifests, so its figures are those of each call's own counter. A sum over
calls with different counters, as `group_growth` has it, is only an approximation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Table,
    select,
)

from turnlog.events.codec import format_rfc3339
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.growth.cache_outcomes import build_cache_use, select_cache_outcomes
from turnlog.projections.store.growth.chosen_calls import SESSION_OF_CALL, choose_calls
from turnlog.projections.store.read.row_filters import (
    match_session,
    match_tenant,
    select_columns,
)
from turnlog.projections.store.read.row_types import (
    CallGrowth,
)
from turnlog.projections.store.schema.read_model_tables import (
    CALLS,
    SESSIONS,
    WINDOW_PARTS,
    replace_nul,
)

_CALL_COLUMNS: Final = CALLS.c

_PART_COLUMNS: Final = WINDOW_PARTS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFilter:
    """Which calls to count; a condition that is None is not applied."""

    session: str | None = None
    blueprint: str | None = None
    profile: str | None = None
    kind: str | None = None
    model: str | None = None
    since: datetime | None = None
    """They were made at or after this time, in UTC."""
    until: datetime | None = None
    """They were made before this time, in UTC."""

    def build_conditions(self, tenant: str) -> tuple[ColumnElement[bool], ...]:
        """Return what the rows of `calls`, joined with those of `sessions`, meet."""
        session, columns = self.session, _CALL_COLUMNS
        return (
            match_session(CALLS, tenant, session) if session else match_tenant(CALLS, tenant),
            *self._match_values(CALLS, SESSIONS.c.blueprint),
            *((columns.at >= format_rfc3339(self.since),) if self.since else ()),
            *((columns.at < format_rfc3339(self.until),) if self.until else ()),
        )

    def build_hour_conditions(self, hours: Table, tenant: str) -> tuple[ColumnElement[bool], ...]:
        """Return what the sums by the hour meet that no session and no time is asked of."""
        return match_tenant(hours, tenant), *self._match_values(hours, hours.c.blueprint)

    def _match_values(
        self, table: Table, blueprint: ColumnElement[str]
    ) -> Iterator[ColumnElement[bool]]:
        equal = {
            blueprint: self.blueprint,
            table.c.profile: self.profile,
            table.c.kind: self.kind,
            table.c.model: self.model,
        }
        for column, value in equal.items():
            if value is not None:
                yield column == replace_nul(value)


async def list_call_growth(
    connection: AsyncConnection, tenant: str, session: str, sought: GrowthFilter
) -> tuple[CallGrowth, ...]:
    """Return the calls sought of a session in order, each with its components in prompt order."""
    components_by_call: defaultdict[str, dict[str, int]] = defaultdict(dict)
    cut_turns_by_call: defaultdict[str, int] = defaultdict(int)
    parts = (
        select(
            _PART_COLUMNS.call,
            _PART_COLUMNS.component,
            _PART_COLUMNS.tokens,
            _PART_COLUMNS.cut_turns,
        )
        .where(match_session(WINDOW_PARTS, tenant, session))
        .order_by(_PART_COLUMNS.place)
    )
    for call, component, tokens, cut_turns in await connection.execute(parts):
        components_by_call[call][component] = tokens
        cut_turns_by_call[call] += cut_turns
    conditions = replace(sought, session=session).build_conditions(tenant)
    calls = (
        select(*select_columns(CALLS, CallGrowth))
        .join_from(CALLS, SESSIONS, SESSION_OF_CALL)
        .where(*conditions)
        .order_by(_CALL_COLUMNS.sequence)
    )
    chosen = choose_calls(conditions, ())
    outcomes = select_cache_outcomes(chosen, [chosen.c.call])
    caches = {
        row["call"]: build_cache_use(row) for row in (await connection.execute(outcomes)).mappings()
    }
    return tuple(
        CallGrowth(
            **{**row, "optimizations": json.loads(row["optimizations"])},
            components=components_by_call[row["call"]],
            cut_turns=cut_turns_by_call[row["call"]],
            cache=caches.get(row["call"]),
        )
        for row in (await connection.execute(calls)).mappings()
    )
