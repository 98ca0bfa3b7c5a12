"""What the garbage collector skips, for a while and for good."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from turnlog.services.platform.gc_control import (
    COLLECTOR,
    SERVING_COLLECTION,
    freeze_live_objects,
    pause_collection,
    reduce_collection,
    reduce_start_collection,
)


@pytest.fixture(autouse=True)
def nothing_aside() -> Iterator[None]:
    gc.unfreeze()
    COLLECTOR.is_frozen = False
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    freeze_live_objects()  # As `tests/conftest.py` has it for the other tests


def test_reduced_collection_freezes_live_objects_and_restores_gc_settings() -> None:
    often = gc.get_threshold()
    with reduce_collection():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() > often
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, often)


def test_objects_stay_frozen_until_the_last_of_overlapping_bodies_ends() -> None:
    with ExitStack() as later:
        with reduce_collection():
            later.enter_context(reduce_collection())
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_paused_collection_is_enabled_again_afterwards() -> None:
    with pause_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_permanently_frozen_objects_stay_frozen_after_reduced_collection() -> None:
    freeze_live_objects()
    frozen_count = gc.get_freeze_count()
    with reduce_collection():
        pass
    # All but what was let go meanwhile by whoever had held it
    assert gc.get_freeze_count() > frozen_count - frozen_count // 1_000 > 0


def test_gc_threshold_is_that_of_a_serving_process_once_it_froze_its_objects() -> None:
    gc.set_threshold(700, 10, 10)
    with reduce_start_collection() as freeze_started:
        assert gc.get_threshold() > SERVING_COLLECTION
        freeze_started()
        assert gc.get_threshold() == SERVING_COLLECTION
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() > 0


def test_failed_start_restores_the_gc_settings() -> None:
    often = gc.get_threshold()
    with reduce_start_collection():
        pass
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, often)


def test_rebuild_begun_during_the_start_keeps_the_raised_gc_threshold() -> None:
    rebuild = reduce_collection()
    with reduce_start_collection() as freeze_started:
        with rebuild:
            freeze_started()
            assert gc.get_threshold() > SERVING_COLLECTION
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == SERVING_COLLECTION
        assert gc.get_freeze_count() > 0
