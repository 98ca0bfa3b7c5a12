"""Databases as the revisions before the first release left them."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Connection, insert, inspect

from tests.projections.store.session_histories import (
    SAMPLE_DIGEST,
    StoredSession,
    build_assembled,
    build_completed,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from tests.support.generators.event_samples import build_samples
from turnlog.events.codec import CommandRef
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.retrieval_events import FeedbackGiven
from turnlog.events.model.session_events import PhaseEntered, SessionClosed
from turnlog.events.model.turn_events import TurnFailed, TurnQueued, TurnReleased
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.read_model_tables import PROJECTIONS

_STATEMENTS = (Path(__file__).parent / "unreleased_schemas.sql").read_text()

_SECTION = re.compile(r"^-- (?:revision (\d+)|rows)\n", re.MULTILINE)


async def create_unreleased_schema(store: ReadModelStore, revision: str) -> None:
    """Run the statements of all revisions up to one."""
    async with store.open_writer() as connection:
        await connection.run_sync(_run_statements, _select_statements(revision))


async def insert_unreleased_rows(store: ReadModelStore) -> None:
    """Insert the rows of `append_stories` into the tables that there are, as build 1."""
    statements = _SECTION.split(_STATEMENTS)[-1].splitlines()
    async with store.open_writer() as connection:
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
        present = [each for each in statements if each.split()[2] in names]
        await connection.run_sync(_run_statements, present)


def _select_statements(revision: str) -> list[str]:
    sections = _SECTION.split(_STATEMENTS)[1:]
    return [
        statement
        for name, statements in zip(sections[::2], sections[1::2], strict=True)
        if name is not None and name <= revision
        for statement in statements.splitlines()
    ]


def _run_statements(connection: Connection, statements: list[str]) -> None:
    for statement in statements:
        if connection.dialect.name == "postgresql":
            statement = statement.replace(" WITHOUT ROWID", "").replace("BLOB", "BYTEA")  # noqa: PLW2901
        connection.exec_driver_sql(statement)


async def insert_position(store: ReadModelStore, log: MemoryLog, version: int) -> None:
    """Insert the position of an active build of the sessions that is folded to the log's end."""
    last = log.stored[-1]
    assert last is not None
    identity = await log.get_identity("t")
    position = insert(PROJECTIONS).values(
        name="sessions",
        build=1,
        version=version,
        stream=identity.stream,
        created=identity.created,
        position=last.stream_sequence,
        hash=compute_digest(last.stored),
        active=True,
    )
    async with store.open_writer() as connection:
        await connection.execute(position)


async def append_stories(log: MemoryLog) -> None:
    """Append events that fill every table of rows but quarantine."""
    samples = build_samples()
    first, second = (
        StoredSession(log=log, session="first"),
        StoredSession(log=log, session="second"),
    )
    opening = CommandRef("open", SAMPLE_DIGEST)
    await first.append_events(build_opened("guide", language="de"), command=opening)
    await first.append_events(samples["prompts-snapshotted"], PhaseEntered(phase="one"))
    await first.append_events(build_submitted(1, "Where is the tower?"), build_started(1, 1))
    history = build_part("history", tokens=30, message=1, turns=2)
    await first.append_events(build_assembled(1, "1.1", history))
    await first.append_events(
        build_ended(1, 1, tokens=7, micro_dollars=21),
        CallCompleted(
            turn=1, call="1.1", attempt=1, finish="stop", digest=SAMPLE_DIGEST, characters=5
        ),
        build_completed(1, "In Riga."),
        TurnQueued(turn=2, text=PlainText(text="And the bridge?")),
    )
    await first.append_events(TurnReleased(turn=2), PhaseEntered(phase="two", before="one", turn=2))
    await first.append_events(
        samples["knowledge-retrieved"].model_copy(update={"turn": 2}),
        FeedbackGiven(turn=2, vote="up"),
        samples["child-requested"].model_copy(update={"turn": 2}),
    )
    await second.append_events(build_opened())
    failed = TurnFailed(turn=1, code="timeout", detail="slow", retryable=True)
    await second.append_events(build_submitted(1, "Hello"), failed)
    await second.append_events(SessionClosed(reason="done"))
