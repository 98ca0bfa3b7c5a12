"""Erased words on Postgres: gone from its files after what `docs/erasure.md` says is to be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.agent_programs.agent_service import answer_with_text
from tests.docs.doc_pages import ROOT
from tests.e2e.test_sealed_sessions import list_files_with
from tests.support.processes.separate_roles import SeparateRoles, run_separate_roles
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service of several processes and a Postgres start"),
]

MARKER = "qvxonpostgres"

KEYRING = f"1 {'5e' * 32}\n"


PROMPT = "turnlog=# "


def read_statements() -> list[str]:
    """Return the statements of the page, which an operator runs in this order."""
    lines = (ROOT / "docs/erasure.md").read_text().splitlines()
    return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


async def run_statements(roles: SeparateRoles) -> None:
    engine = create_async_engine(roles.database, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            for statement in read_statements():
                await connection.execute(text(statement))
    finally:
        await engine.dispose()


async def test_files_of_postgres_have_no_erased_word_after_the_statements_of_the_page(
    provider: OpenAIServer, own_postgres: PostgresServer, tmp_path: Path
) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text(KEYRING)
    variables = {"TURNLOG_SEALING": "on", "TURNLOG_KEYRING": str(keyring)}
    form = {"blueprint": "uderia", "title": f"{MARKER} title", "labels": [f"{MARKER}-label"]}
    async with run_separate_roles(tmp_path, provider, own_postgres, variables) as roles:
        await roles.start_worker()
        http = roles.service.http
        session = (await http.post("/v1/sessions", json=form)).json()["session"]
        provider.queue_behaviours(answer_with_text(f"{MARKER} reply"))
        turn = await roles.service.run_turn(session, f"{MARKER} question")
        assert turn["status"] == "completed", turn
        assert list(list_files_with(own_postgres.folder / "data", MARKER.encode()))
        receipt = await http.post(f"/v1/sessions/{session}/erasures", json={"reason": "request"})
        assert receipt.json()["status"] == "erased", receipt.text
        await run_statements(roles)
        assert list(list_files_with(own_postgres.folder / "data", MARKER.encode())) == []
        assert list(list_files_with(tmp_path / "nats", MARKER.encode())) == []
