"""The versions that open sessions are pinned to, the same on both databases."""

from __future__ import annotations

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import StoredSession, build_opened
from turnlog.events.content import compute_digest
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.pinned_versions import list_pins
from turnlog.projections.store.read.row_types import PinnedText
from turnlog.projections.store.read.session_queries import SessionQuery, list_sessions


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def build_snapshot(text: str) -> PromptsSnapshotted:
    file = PromptFile(digest=compute_digest(text), path="persona.md")
    return PromptsSnapshotted(provider="openai", layers={"persona": file})


def build_blueprint_ref(number: int) -> BlueprintRef:
    return BlueprintRef(name="guide", version=number, digest=compute_digest(f"guide {number}"))


def build_opened_guide(number: int, **pins: str) -> SessionOpened:
    return build_opened("guide").model_copy(
        update={"blueprint": build_blueprint_ref(number), **pins}
    )


def build_moved(before: int, after: int) -> BlueprintMoved:
    return BlueprintMoved(
        before=build_blueprint_ref(before),
        blueprint=build_blueprint_ref(after),
        attributes={"city": "Riga"},
        reach=0,
    )


async def read_pins(
    store: ReadModelStore, log: MemoryLog, blueprint: str | None
) -> list[PinnedText]:
    await fold_log(store, log)
    async with store.open_reader() as connection:
        return list(await list_pins(connection, "t", blueprint))


async def test_open_sessions_are_counted_by_version_cartridge_and_prompt_file(
    store: ReadModelStore, log: MemoryLog
) -> None:
    task, old, new = compute_digest("task"), compute_digest("old"), compute_digest("new")
    await StoredSession(log=log, session="a").append_events(
        build_opened_guide(1, cartridge=task), build_snapshot("old")
    )
    await StoredSession(log=log, session="b").append_events(
        build_opened_guide(1, cartridge=task), build_snapshot("old")
    )
    await StoredSession(log=log, session="c").append_events(
        build_opened_guide(1), build_snapshot("old"), build_moved(1, 2)
    )
    await StoredSession(log=log, session="d").append_events(
        build_opened_guide(1), build_snapshot("old"), build_moved(1, 2), build_snapshot("new")
    )
    await StoredSession(log=log, session="e").append_events(
        build_opened_guide(1), build_snapshot("old"), SessionClosed(reason="done")
    )
    await StoredSession(log=log, session="f").append_events(build_opened("other"))
    pins = await read_pins(store, log, "guide")
    counted = {(pin.what, pin.version, pin.digest): pin.sessions for pin in pins}
    assert counted == {
        ("blueprint", 1, build_blueprint_ref(1).digest): 2,
        ("blueprint", 2, build_blueprint_ref(2).digest): 2,
        ("cartridge", None, task): 2,
        ("prompt", None, old): 2,
        ("prompt", None, new): 1,
    }
    assert {(pin.provider, pin.layer, pin.path) for pin in pins if pin.what == "prompt"} == {
        ("openai", "persona", "persona.md")
    }
    assert {pin.blueprint for pin in await read_pins(store, log, None)} == {"guide", "other"}


async def test_sessions_are_found_by_their_current_pins(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await StoredSession(log=log, session="a").append_events(
        build_opened_guide(1), build_snapshot("old")
    )
    await StoredSession(log=log, session="b").append_events(
        build_opened_guide(1), build_snapshot("old"), build_moved(1, 2)
    )
    await StoredSession(log=log, session="c").append_events(
        build_opened_guide(1), SessionClosed(reason="done")
    )
    shops = {"shop": "baker", "city": "Riga"}
    await StoredSession(log=log, session="d").append_events(
        build_opened("baker", **shops), build_moved(1, 2)
    )
    await StoredSession(log=log, session="e").append_events(build_opened("baker", **shops))
    await fold_log(store, log)
    for query, names in (
        (SessionQuery(digest=build_blueprint_ref(1).digest), ["c", "a"]),
        (SessionQuery(digest=build_blueprint_ref(1).digest, open=True), ["a"]),
        (SessionQuery(digest=build_blueprint_ref(2).digest), ["d", "b"]),
        (SessionQuery(digest=compute_digest("old")), ["a"]),
        (SessionQuery(open=False), ["c"]),
        (SessionQuery(attributes={"city": "Riga"}), ["e", "d", "b"]),
        (SessionQuery(attributes={"shop": "baker"}), ["e"]),
    ):
        async with store.open_reader() as connection:
            page = await list_sessions(connection, "t", query)
        assert [row.session for row in page.sessions] == names, query
