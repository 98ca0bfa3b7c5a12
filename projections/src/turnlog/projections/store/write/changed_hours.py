"""Notes the hours whose sums are to be computed again, beside the rows that changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import and_, bindparam, select

from turnlog.projections.store.schema.hour_tables import (
    CALL_HOURS,
    CHANGED_HOURS,
    HOUR_CHARACTERS,
    truncate_time,
)
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CALLS
from turnlog.projections.store.write.row_changes import (
    MergedChanges,
    RowStatement,
    compile_statement,
    create_insert,
)


def build_hour_marks(changes: MergedChanges, build: int, dialect: str) -> Sequence[RowStatement]:
    """Return what notes the hours from the calls of ended attempts to these ends.

    An attempt may end hours after its call was made, and its event does not have the time of that.
    What the next call could read from a cache follows from it too, and that was made in between.
    What was never summed is noted already. The statement reads the rows, so these are written
    first.
    """
    sql, columns = _compile_mark(dialect)
    ended = [
        (build, *each.key)
        for each in changes.list_changes()
        if each.table is ATTEMPTS and "ended_at" in each.values
    ]
    mark = RowStatement(
        table=CHANGED_HOURS.name, is_put=False, sql=sql, columns=columns, rows=ended
    )
    return [mark] if ended else []


@cache
def _compile_mark(dialect: str) -> tuple[str, tuple[str, ...]]:
    attempt, call, summed = ATTEMPTS.c, CALLS.c, CALL_HOURS.c
    of_call = and_(
        *(attempt[name] == call[name] for name in ("build", "tenant", "session", "call"))
    )
    since_call = and_(
        *(summed[name] == attempt[name] for name in ("build", "tenant")),
        summed.hour >= truncate_time(call.at, HOUR_CHARACTERS),
        # An hour, and its ten minutes, are before each time of theirs.
        summed.hour <= attempt.ended_at,
    )
    keys = [column == bindparam(column.name) for column in ATTEMPTS.primary_key.columns]
    hours = (
        select(summed.build, summed.tenant, summed.hour)
        .select_from(ATTEMPTS.join(CALLS, of_call).join(CALL_HOURS, since_call))
        .where(*keys)
        .distinct()
    )
    names = [column.name for column in CHANGED_HOURS.c]
    rows = create_insert(CHANGED_HOURS, dialect)
    return compile_statement(rows.from_select(names, hours).on_conflict_do_nothing(), dialect)
