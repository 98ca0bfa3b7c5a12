"""What the garbage collector skips, for a while and for good."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from turnlog.services.platform.gc_control import (
    freeze_live_objects,
    pause_collection,
    reduce_collection,
    reduce_start_collection,
)


@pytest.fixture(autouse=True)
def nothing_aside() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()  # As `tests/conftest.py` has it for the other tests


def test_reading_in_bulk_sets_aside_what_is_alive_for_a_while_only() -> None:
    often = gc.get_threshold()
    with reduce_collection():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() > often
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, often)


def test_the_collector_rests_for_one_session_and_looks_again_behind_it() -> None:
    with pause_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_a_process_has_set_aside_for_good_stays_so_whatever_is_read_in_bulk() -> None:
    freeze_live_objects()
    frozen_count = gc.get_freeze_count()
    with reduce_collection():
        pass
    # All but what was let go meanwhile by whoever had held it
    assert gc.get_freeze_count() > frozen_count - frozen_count // 1_000 > 0


def test_collections_are_rare_until_a_process_has_started_and_frozen_what_it_has() -> None:
    often = gc.get_threshold()
    with reduce_start_collection() as freeze_started:
        assert gc.get_threshold() > often
        freeze_started()
        assert gc.get_threshold() == often
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() > 0


def test_a_start_that_fails_leaves_the_collector_as_it_was() -> None:
    often = gc.get_threshold()
    with reduce_start_collection():
        pass
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, often)


def test_a_rebuild_that_began_during_the_start_goes_on_with_rare_collections() -> None:
    often = gc.get_threshold()
    rebuild = reduce_collection()
    with reduce_start_collection() as freeze_started:
        with rebuild:
            freeze_started()
            assert gc.get_threshold() > often
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == often
        assert gc.get_freeze_count() > 0
