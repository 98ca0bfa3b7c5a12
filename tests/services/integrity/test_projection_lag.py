"""The lag of the rows is reported, and rows ahead of the log are an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import StoredSession, build_opened, build_submitted
from turnlog.events.errors import Corrupt
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.integrity.projection_lag import measure_projection_lag


async def test_projection_lag_is_the_number_of_unfolded_events(tmp_path: Path) -> None:
    store, log = open_store(f"sqlite:///{tmp_path / 'rows.db'}"), MemoryLog()
    await prepare_schema(store)
    assert await measure_projection_lag(log, store, "t") == 0
    story = StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    assert await measure_projection_lag(log, store, "t") == 2
    await fold_log(store, log)
    assert await measure_projection_lag(log, store, "t") == 0
    await story.append_events(build_submitted(2, "two"))
    assert await measure_projection_lag(log, store, "t") == 1
    with pytest.raises(Corrupt, match="turnlog rebuild"):
        await measure_projection_lag(MemoryLog(), store, "t")
    await store.close()
