"""Notes the hours whose sums are to be computed again, beside the rows that changed."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from turnlog.projections.store.schema.hour_tables import CHANGED_HOURS, HOUR_OF_CALL
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CALLS
from turnlog.projections.store.write.row_changes import MergedChanges


def mark_hours_of_attempts(connection: Connection, build: int, changes: MergedChanges) -> None:
    """Note that the hours in which the calls of these attempts were made changed.

    An attempt may end hours after its call was made, and its event does not have the time of that.
    """
    changed = [each.key for each in changes.list_changes() if each.table is ATTEMPTS]
    if not changed:
        return
    attempt, call = ATTEMPTS.c, CALLS.c
    hours = (
        select(call.build, call.tenant, HOUR_OF_CALL)
        .join_from(
            ATTEMPTS,
            CALLS,
            and_(
                *(attempt[name] == CALLS.c[name] for name in ("build", "tenant", "session", "call"))
            ),
        )
        .where(
            attempt.build == build,
            tuple_(attempt.tenant, attempt.session, attempt.turn, attempt.attempt).in_(changed),
        )
        .distinct()
    )
    # Both dialects have the same syntax, but their classes have no common base.
    is_sqlite = connection.dialect.name == "sqlite"
    rows = sqlite.insert(CHANGED_HOURS) if is_sqlite else postgresql.insert(CHANGED_HOURS)
    names = [column.name for column in CHANGED_HOURS.c]
    connection.execute(rows.from_select(names, hours).on_conflict_do_nothing())
