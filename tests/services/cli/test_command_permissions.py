"""The table of what commands need, against a service that refuses a key without it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.models import ArgumentInfo

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.events.content import compute_digest
from turnlog.projections.audit.verify.signed_checkpoints import (
    ROOTED_FORMAT,
    AuditCheckpoint,
    CheckpointHead,
)
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.cli.command_index import COMMAND_SECTIONS
from turnlog.services.cli.command_permissions import COMMAND_NEEDS
from turnlog.services.cli.command_runner import CommandEntry
from turnlog.services.identity.permissions import PERMISSIONS, ROLE_PERMISSIONS

COMMANDS = [command for section in COMMAND_SECTIONS for command in section.commands]

ROOT_KEY = "the-root-key-of-a-service-under-test"

WORDS = {
    "alerts apply": ("alerts.json",),
    "blueprint move": ("1",),
    "describe": ("1", "--title", "x"),
    "export": ("1",),
    "feedback": ("1", "1", "up"),
    "fork": ("1", "--at", "1"),
    "hold place": ("x", "--all-sessions", "--reason", "x"),
    "hold release": ("x", "--reason", "x"),
    "keys create": ("x", "--role", "caller"),
    "knowledge import": ("cases", "cases.json"),
    "knowledge remove": ("cases", "one"),
    "checkpoint": ("new.json",),
    "prove": ("1", "1.1", "proof.json", "--checkpoint", "checkpoint.json"),
    "quota set": ("ann", "--requests-per-day", "5"),
    "redact": ("1", "1", "--reason", "x"),
    "erase": ("1", "--reason", "x"),
    "erase-user": ("ann", "--reason", "x"),
    "erase-source": ("document:cases/one", "--reason", "x"),
    "segments edit": ("1", "x"),
    "segments import": ("segments.yaml",),
    "what-if": ("--budget", "500"),
}
"""What stands behind a command, where a 1 for each argument that it requires does not do."""

RULE = {"name": "x", "measure": "cost", "above": 0, "window": "1h"}

HEAD = CheckpointHead(sequence=1, hash=compute_digest(""), root=compute_digest(""))

CHECKPOINT = AuditCheckpoint(
    format=ROOTED_FORMAT,
    at="2026-01-01T00:00:00Z",
    tenant="default",
    stream="SESSIONS",
    created="2026-01-01T00:00:00Z",
    end=1,
    sessions={"1": HEAD},
    library={},
)

FILES = {
    "alerts.json": {"alerts": [RULE]},
    "cases.json": [{"id": "one", "text": "x"}],
    "checkpoint.json": sign_checkpoint(CHECKPOINT, Ed25519PrivateKey.generate()).model_dump(),
    "segments.yaml": {"segments": [{"scope": "core", "content": "x"}]},
}


def test_every_command_has_a_line_and_every_line_a_command() -> None:
    assert COMMAND_NEEDS.keys() == {command.name for command in COMMANDS}


def test_every_route_of_the_table_exists() -> None:
    for name, need in COMMAND_NEEDS.items():
        assert len(need.list_permissions()) <= len(need.routes), name
        assert bool(need.routes) == bool(need.list_permissions()), name
        assert need.routes or need.optional or need.nats or need.note, name


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A service that asks for keys, and a key of each role."""
    folder = tmp_path_factory.mktemp("locked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_ROOT_KEY", ROOT_KEY)
        with run_blocking_turnlog_up(folder):
            address = json.loads((folder / "ready.json").read_bytes())["http"]
            found = dict[str, str]()
            for role in ROLE_PERMISSIONS:
                answer = httpx.post(
                    f"{address}/v1/keys",
                    json={"name": role, "roles": [role]},
                    headers={"Authorization": f"Bearer {ROOT_KEY}"},
                )
                found[role] = answer.json()["secret"]
            yield folder, found


def list_words(command: CommandEntry, folder: Path) -> list[str]:
    """List the words of a command that reaches the service."""
    if command.name in WORDS:
        named = (str(folder / each) if each in FILES else each for each in WORDS[command.name])
        return [*command.name.split(), *named]
    hints = get_type_hints(command.function, include_extras=True)
    required = [
        name
        for name, parameter in inspect.signature(command.function).parameters.items()
        if parameter.default is inspect.Parameter.empty
        and any(isinstance(each, ArgumentInfo) for each in getattr(hints[name], "__metadata__", ()))
    ]
    return [*command.name.split(), *("1" for _ in required)]


@pytest.mark.slow("every command asks a service")
@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if COMMAND_NEEDS[each.name].routes and each.name != "chat"],
    ids=lambda each: each.name,
)
def test_command_is_refused_without_the_permission_of_its_line(
    turnlog: RunCommand,
    keys: tuple[Path, dict[str, str]],
    command: CommandEntry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    folder, secrets = keys
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    need = COMMAND_NEEDS[command.name]
    wanted = {*need.list_permissions(), *need.list_optional()}
    lacking = [role for role, held in ROLE_PERMISSIONS.items() if not wanted & set(held)]
    assert lacking or command.name == "keys whoami"
    for role in lacking[:1]:
        monkeypatch.setenv("TURNLOG_KEY", secrets[role])
        words = list_words(command, tmp_path)
        refused = turnlog(*words, "--data-dir", folder)
        named = re.findall(r"`([a-z]+:[a-z]+)`", refused.err)
        assert named, (words, refused.out, refused.err)
        assert set(named) & set(PERMISSIONS) <= set(need.list_permissions()), refused.err
