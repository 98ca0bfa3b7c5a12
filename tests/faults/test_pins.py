"""Files edited while a session runs: the session keeps its prompts, a new one gets the new ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.faults.attacked_service import AttackedService, run_attacked_service
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes are attacked and have to recover"),
]

STRUCTURE = """\
blueprint: edited
version: {version}
layers:
  persona: {{file: persona.md, keep: always}}
  rules: {{text: "Rules of version {version}.", keep: always}}
calls:
  reply:
    messages:
      - system: [persona, rules]
      - history: recent
      - user: [input]
    budget: window
history:
  recent: {{}}
budget:
  window: {{tokens: 8000, ladder: [{{drop_oldest_pairs: {{history: recent}}}}]}}
profiles:
  chat: {{default: true, call: reply}}
"""


def write_files(folder: Path, version: int) -> None:
    (folder / "edited").mkdir(parents=True, exist_ok=True)
    (folder / "edited/blueprint.yaml").write_text(STRUCTURE.format(version=version))
    (folder / "edited/persona.md").write_text(f"Persona of version {version}.\n")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AttackedService]:
    folder = tmp_path_factory.mktemp("site")
    write_files(folder / "blueprints", 1)
    settings = {"TURNLOG_BLUEPRINTS": str(folder / "blueprints")}
    async with run_attacked_service(folder, settings) as running:
        yield running


async def read_system_prompt(at: AttackedService, client: AttackClient) -> str:
    await client.watch_turn(await client.submit_turn())
    return str(at.provider.exchanges[-1].body["messages"][0]["content"])  # type: ignore[index]


@pytest.mark.promise("P18")
async def test_session_keeps_its_pinned_prompts_after_edits_and_restarts(
    attacked: AttackedService, history: ClientHistory
) -> None:
    old, new = (AttackClient(http=attacked.service.http, history=history) for _ in range(2))
    await old.open_session("edited")
    first = await read_system_prompt(attacked, old)
    assert "Persona of version 1." in first
    assert "Rules of version 1." in first
    write_files(attacked.folder / "blueprints", 2)
    await attacked.kill_processes(*attacked.list_processes("gateway", "worker"))
    await attacked.start_missing()
    assert await read_system_prompt(attacked, old) == first
    await new.open_session("edited")
    prompt = await read_system_prompt(attacked, new)
    assert prompt == first.replace("version 1", "version 2")
