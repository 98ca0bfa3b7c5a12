"""The versions that open sessions are pinned to, the same on both databases."""

from __future__ import annotations

import pytest

from tests.projections.store.folding import fold_log
from tests.projections.store.histories import Story, opened
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
from turnlog.projections.store.read.pinned_versions import PinnedText, list_pins
from turnlog.projections.store.read.session_queries import SessionQuery, list_sessions


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def pinned(text: str) -> PromptsSnapshotted:
    file = PromptFile(digest=compute_digest(text), path="persona.md")
    return PromptsSnapshotted(provider="openai", layers={"persona": file})


def version(number: int) -> BlueprintRef:
    return BlueprintRef(name="guide", version=number, digest=compute_digest(f"guide {number}"))


def guide(number: int, **pins: str) -> SessionOpened:
    return opened("guide").model_copy(update={"blueprint": version(number), **pins})


def moved(before: int, after: int) -> BlueprintMoved:
    return BlueprintMoved(
        before=version(before), blueprint=version(after), attributes={"city": "Riga"}, reach=0
    )


async def found(store: ReadModelStore, log: MemoryLog, blueprint: str | None) -> list[PinnedText]:
    await fold_log(store, log)
    async with store.open_reader() as connection:
        return list(await list_pins(connection, "t", blueprint))


async def test_open_sessions_are_counted_by_version_cartridge_and_prompt_file(
    store: ReadModelStore, log: MemoryLog
) -> None:
    task, old, new = compute_digest("task"), compute_digest("old"), compute_digest("new")
    await Story(log, "a").tell(guide(1, cartridge=task), pinned("old"))
    await Story(log, "b").tell(guide(1, cartridge=task), pinned("old"))
    await Story(log, "c").tell(guide(1), pinned("old"), moved(1, 2))
    await Story(log, "d").tell(guide(1), pinned("old"), moved(1, 2), pinned("new"))
    await Story(log, "e").tell(guide(1), pinned("old"), SessionClosed(reason="done"))
    await Story(log, "f").tell(opened("other"))
    told = await found(store, log, "guide")
    counted = {(pin.what, pin.version, pin.digest): pin.sessions for pin in told}
    assert counted == {
        ("blueprint", 1, version(1).digest): 2,
        ("blueprint", 2, version(2).digest): 2,
        ("cartridge", None, task): 2,
        ("prompt", None, old): 2,
        ("prompt", None, new): 1,
    }
    assert {(pin.provider, pin.layer, pin.path) for pin in told if pin.what == "prompt"} == {
        ("openai", "persona", "persona.md")
    }
    assert {pin.blueprint for pin in await found(store, log, None)} == {"guide", "other"}


async def test_sessions_are_found_by_what_they_are_pinned_to_now(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await Story(log, "a").tell(guide(1), pinned("old"))
    await Story(log, "b").tell(guide(1), pinned("old"), moved(1, 2))
    await Story(log, "c").tell(guide(1), SessionClosed(reason="done"))
    shops = {"shop": "baker", "city": "Riga"}
    await Story(log, "d").tell(opened("baker", **shops), moved(1, 2))
    await Story(log, "e").tell(opened("baker", **shops))
    await fold_log(store, log)
    for wanted, names in (
        (SessionQuery(digest=version(1).digest), ["c", "a"]),
        (SessionQuery(digest=version(1).digest, open=True), ["a"]),
        (SessionQuery(digest=version(2).digest), ["d", "b"]),
        (SessionQuery(digest=compute_digest("old")), ["a"]),
        (SessionQuery(open=False), ["c"]),
        (SessionQuery(attributes={"city": "Riga"}), ["e", "d", "b"]),
        (SessionQuery(attributes={"shop": "baker"}), ["e"]),
    ):
        async with store.open_reader() as connection:
            page = await list_sessions(connection, "t", wanted)
        assert [row.session for row in page.sessions] == names, wanted
