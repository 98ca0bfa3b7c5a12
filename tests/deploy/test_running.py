"""docker-compose.yml started as written, with local processes in place of containers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from tests.deploy.compose_file import ROOT, SECRETS, ComposeService, load_services
from tests.deploy.compose_processes import BIN, ComposeHost, prepare_host
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.read_model_tables import CALLS, TURNS

TENANT = "default"
REPLY_WITHIN = 60.0
"""A bound on hanging: the worker may still be loading litellm."""


@pytest.fixture
def machine(tmp_path: Path, postgres_url: str) -> ComposeHost:
    return prepare_host(tmp_path, ROOT, postgres_url)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[ReadModelStore]:
    opened = open_store(postgres_url)
    yield opened
    await opened.close()


def order_services() -> list[ComposeService]:
    """Return the services that run here, each after those it depends on."""
    local_services = [service for service in load_services().values() if service.name != "postgres"]
    return sorted(local_services, key=lambda service: len(service.stanza.get("depends_on", {})))


async def test_a_conversation_runs_through_the_composition_and_postgres_shows_it(
    machine: ComposeHost, store: ReadModelStore
) -> None:
    address = f"http://{machine.replace_places('127.0.0.1:8700')}"
    async with AsyncExitStack() as stack:
        for service in order_services():
            await stack.enter_async_context(machine.run_service(service))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=address, timeout=REPLY_WITHIN)
        )
        ready = (await client.get("/readyz")).json()
        assert (ready["durability"], ready["checked"]) == ("fsync-acked", True)

        opened = (await client.post("/v1/sessions", json={"blueprint": "assistant"})).json()
        turns = f"/v1/sessions/{opened['session']}/turns?wait={REPLY_WITHIN:g}"
        settled = (await client.post(turns, json={"text": "What does the log hold?"})).json()
        assert settled["status"] == "completed"
        assert settled["reply"].startswith("Everything that happened, in order:")

        session, sequence = opened["session"], settled["settled"]
        assert await wait_until_folded(
            store, ProjectionSignal(), TENANT, session, sequence, within=REPLY_WITHIN
        )
        listed = (await client.get("/v1/sessions")).json()["sessions"]
        assert [(each["session"], each["turns"]) for each in listed] == [(session, 1)]
        assert await select_turn_rows(store, session) == [
            ("completed", settled["settled"], "scripted/demo")
        ]
    assert list(machine.home.iterdir()) == []


async def select_turn_rows(store: ReadModelStore, session: str) -> list[tuple[object, ...]]:
    """Read a session's turns with the model that answered them."""
    mine = (match_session(table, TENANT, session) for table in (TURNS, CALLS))
    columns = select(TURNS.c.status, TURNS.c.reply_in, CALLS.c.model)
    query = columns.join(CALLS, CALLS.c.call == TURNS.c.call).where(*mine)
    async with store.open_reader() as connection:
        return [tuple(row) for row in await connection.execute(query)]


def check_nats_config(config: Path, password: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "nats-server", "-t", "-c", config],
        env={"NATS_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nats_server_takes_its_configuration_and_no_other_word(tmp_path: Path) -> None:
    config = ROOT / "deploy/nats/nats.conf"
    assert (
        check_nats_config(config, load_services()["nats"].environment["NATS_PASSWORD"]).returncode
        == 0
    )
    misspelt = tmp_path / "nats.conf"
    misspelt.write_text(config.read_text().replace("sync_interval", "sync_intervall"))
    assert check_nats_config(misspelt, SECRETS["NATS_PASSWORD"]).returncode != 0


def test_every_acknowledgement_of_the_server_waits_for_fsync() -> None:
    config = (ROOT / "deploy/nats/nats.conf").read_text()
    assert re.search(r"^  sync_interval: always$", config, re.MULTILINE)


async def test_a_server_that_acknowledges_before_fsync_is_refused_by_every_role(
    machine: ComposeHost,
) -> None:
    config = machine.folder / "nats.conf"
    config.write_text(config.read_text().replace("sync_interval: always", "sync_interval: 2m"))
    async with machine.run_service(load_services()["nats"]):
        for service in order_services():
            if service.role:
                assert await machine.run_command(service, service.command) != 0
                assert "acknowledges before fsync" in machine.get_log_file(service).read_text()
