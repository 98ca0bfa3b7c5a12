"""What a turn costs without the model, and an append beside a bare publish; it judges nothing.

A real nats-server with fsync on every ack, a real worker, and a model that answers at once with ten
pieces of text. A turn is timed from before its submit is appended until its reply is seen by a
watcher, within one process. Figures are medians; the ratios hold on other machines, the rest does
not. `python benchmarks/turn.py --turns 1000` goes further; `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from turnlog.events.codec import write
from turnlog.events.ids import session_subject, session_subjects
from turnlog.events.testing import draft
from turnlog.events.turn import TurnCompleted, TurnExcluded
from turnlog.projections.blueprint.schema import reach
from turnlog.projections.session.commands import OpenSession, SubmitTurn
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer
from turnlog.services.runtime.parts import Parts, connected
from turnlog.services.runtime.sessions import By
from turnlog.services.runtime.settings import Process, WorkerSettings
from turnlog.services.worker import role as worker
from turnlog.services.worker.model.exchange import Finished, ModelRequest, TextDelta, Usage
from turnlog.services.worker.model.prices import PriceTable

TENANT = "bench"
BY = By("bench")
ASKED = "What becomes of a question that has three hundred and fifty characters? " * 5
PIECES = ["It is answered in ten pieces, all at once. "] * 10
AROUND = 30
"""Turns whose median stands for a place in the session."""


class InstantModel:
    """Answers at once, so that what is timed is everything around it."""

    def __init__(self, **_: object) -> None: ...

    async def preload(self) -> None: ...

    async def prices(self) -> PriceTable:
        return PriceTable("none", {})

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | Finished, None]:
        for piece in PIECES:
            yield TextDelta(piece)
        yield Finished("stop", (), Usage(100, 90), request.model, None)


async def appends(parts: Parts, number: int) -> dict[str, float]:
    """Time appends of one event, and bare publishes of the same bytes with the same expectation."""
    js = parts.connection.nc.jetstream()
    ours, bare, head, last = [], [], None, 0
    for n in range(number):
        batch = write(TENANT, "appended", head, [draft(TurnExcluded(turn=1), n + 1)])
        began = time.perf_counter()
        outcome = await parts.log.append(batch)
        ours.append(time.perf_counter() - began)
        head = outcome.events[-1].head
        headers = {
            "Nats-Expected-Last-Subject-Sequence": str(last),
            "Nats-Expected-Last-Subject-Sequence-Subject": session_subjects(TENANT, "bare"),
        }
        subject = session_subject(TENANT, "bare", "turn")
        began = time.perf_counter()
        ack = await js.publish(subject, batch.messages[0].payload, headers=headers)
        bare.append(time.perf_counter() - began)
        last = ack.seq
    mine, theirs = statistics.median(ours) * 1000, statistics.median(bare) * 1000
    return {"append_ms": mine, "bare_publish_ms": theirs, "ratio": mine / theirs}


async def turns(parts: Parts, number: int) -> list[float]:
    """Time so many turns of one session, in milliseconds."""
    sessions = parts.sessions(worker.NoKeys())
    blueprint = Library().get("assistant")
    ref = await parts.blueprints.pin(TENANT, blueprint)
    attributes = {"language": "English", "name": "Bench"}
    opening = OpenSession(ref, blueprint.default_profile, reach(blueprint), attributes)
    await sessions.act(TENANT, "turns", opening, BY)
    took: list[float] = []
    async with aclosing(parts.log.watch(TENANT, "turns", 1)) as events:
        for _ in range(number):
            began = time.perf_counter()
            await sessions.act(TENANT, "turns", SubmitTurn(ASKED, blueprint.policies), BY)
            async for event in events:
                if isinstance(event.event, TurnCompleted):
                    break
            took.append((time.perf_counter() - began) * 1000)
    return took


def places(number: int) -> list[int]:
    """Name the places to look at: powers of ten, and the end."""
    return [at for at in (10, 100, 1_000, 10_000) if at + AROUND <= number] or [0]


def bytes_in(directory: Path) -> int:
    """Add up what the server has written of its streams."""
    return sum(file.stat().st_size for file in directory.rglob("*.blk"))


async def measured(number: int) -> dict[str, object]:
    """Measure all of it on a server of its own."""
    worker.LitellmModel = InstantModel  # type: ignore[assignment,misc]
    with tempfile.TemporaryDirectory() as directory:
        async with await NatsServer.start(NatsConfig(Path(directory), monitor=True)) as server:
            placed = {"nats_url": server.url, "nats_monitor": server.monitor_url}
            settings = WorkerSettings(**placed, tenant=TENANT)
            async with (
                connected(Process(**placed), "bench", lambda: None) as parts,
                worker.running(settings, Ending()),
            ):
                append = await appends(parts, 500)
                took = await turns(parts, number)
        stored = bytes_in(Path(directory))
    at = {str(n): statistics.median(took[n : n + AROUND]) for n in places(number)}
    return {
        "durability": parts.durability.level,
        "append": append,
        "turn_ms_at": at,
        "log_bytes_a_turn": stored // number,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = asyncio.run(measured(asked.turns))
    print(json.dumps(found, indent=2))
    if asked.json:
        asked.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
