"""The worker process: connect its components, start them and shut them down."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turnlog.events.errors import Unavailable
from turnlog.projections.session.state import Memo, SessionState
from turnlog.services.runtime.continuity import proving
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.health import NOBODY, Questions, telling
from turnlog.services.runtime.library import SHIPPED, Library
from turnlog.services.runtime.parts import Parts, connected
from turnlog.services.runtime.prices import ShippedPrices
from turnlog.services.runtime.settings import WorkerSettings
from turnlog.services.runtime.tasks import stopped
from turnlog.services.worker import app
from turnlog.services.worker.answering import Answering
from turnlog.services.worker.context import Contexts
from turnlog.services.worker.durable import Durable
from turnlog.services.worker.ending import Endings
from turnlog.services.worker.heartbeat import Heart
from turnlog.services.worker.model.litellm_model import LitellmModel


class NoKeys:
    """A store of older commands for workers, whose commands carry no idempotency keys."""

    async def find(self, state: SessionState, key: str) -> Memo | None:
        """See `OlderCommands.find`."""
        raise Unavailable("read models", f"no worker looks up {key} of {state.session}")


@asynccontextmanager
async def running(settings: WorkerSettings, ending: Ending) -> AsyncGenerator[Answering]:
    """Run turns while the body runs; litellm is imported meanwhile."""
    async with connected(settings, "worker", ending.lost("nats")) as parts:
        model = LitellmModel(scripts=settings.scripts)
        answering = _answering(settings, parts, model)
        identity = await parts.log.identity(settings.tenant)
        durable = Durable(parts.connection, identity, parts.snapshots, settings.ack_wait)
        await durable.ensure()
        keeping = ending.watched(asyncio.create_task(durable.keep()), "durable")
        broker = app.build(
            settings.nats_url.get_secret_value(), settings.concurrency, settings.grace, answering
        )
        try:
            async with (
                proving(parts.connection, answering.sessions, ending),
                app.working(broker, answering, settings.grace),
            ):
                # Not before work is accepted: the import would delay everything else.
                loading = asyncio.create_task(model.preload())
                asked: Questions = {
                    "nats": lambda: parts.log.last(settings.tenant, NOBODY, leader=True),
                    "durable": durable.settled,
                }
                try:
                    async with telling(settings.health, asked):
                        yield answering
                finally:
                    await stopped(loading)
        finally:
            await stopped(keeping)
            await answering.servers.close()


def _answering(settings: WorkerSettings, parts: Parts, model: LitellmModel) -> Answering:
    sessions = parts.sessions(NoKeys())
    library = Library((*settings.blueprints, SHIPPED))
    return Answering(
        name=f"{socket.gethostname()}-{os.getpid()}",
        sessions=sessions,
        blueprints=parts.blueprints,
        contexts=Contexts(
            sessions,
            parts.blueprints,
            parts.blobs,
            library,
            parts.gathering(sessions.texts),
            settings.model,
        ),
        tokens=parts.tokens,
        model=model,
        heart=Heart(sessions, parts.tokens, settings.ack_wait / 3),
        endings=Endings(sessions, parts.tokens, parts.blobs, ShippedPrices().table),
        tracing=parts.tracing,
        ack_wait=settings.ack_wait,
    )
