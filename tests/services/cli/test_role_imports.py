"""What a process imports to start: what it has no use for costs it memory and time."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow("an interpreter starts, to see what it imports")

COMMON = {
    "alembic",
    "faststream",
    "litellm",
    "mcp",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "sqlalchemy.orm",
}

UNUSED = {
    "projector": COMMON | {"aiohttp", "fastapi", "rich", "turnlog.services.worker"},
    "gateway": COMMON
    | {"aiohttp", "rich", "turnlog.services.worker", "turnlog.services.projector"},
    "worker": COMMON - {"faststream"}
    | {"fastapi", "turnlog.services.gateway", "turnlog.services.projector"},
}

OPEN_ROLE = """
import sys
from turnlog.services.platform.lean_imports import import_structlog, omit_httpx_program
import_structlog()
omit_httpx_program()
from turnlog.services.cli.actions.service_start import ROLE_SETTINGS, open_role
from turnlog.services.cli.environment import read_settings
from turnlog.services.platform.shutdown import Shutdown
role, address = sys.argv[1:]
settings = read_settings(ROLE_SETTINGS[role], {}, {"nats_url": address})
open_role(settings, Shutdown())
print(*sys.modules)
"""

IMPORT_NATS = """
import sys
from turnlog.services.platform.lean_imports import import_nats_for
import_nats_for(sys.argv[1])
import nats
print(*sys.modules)
"""

IMPORT_ORM = """
import sys
from turnlog.projections.store.async_engine import AsyncConnection
assert "sqlalchemy.ext.asyncio" not in sys.modules
from sqlalchemy.ext import asyncio
assert asyncio.AsyncConnection is AsyncConnection
assert asyncio.AsyncSession
print(*sys.modules)
"""

LIST_SESSIONS = """
import sys
from turnlog.services.cli.main import main
try:
    main(["sessions", "--url", "http://127.0.0.1:9"])
except SystemExit as end:
    assert end.code
print(*sys.modules)
"""

START_ALL = """
import sys
from turnlog.services import all_in_one
print(*sys.modules)
"""


def list_modules(program: str, *arguments: str) -> set[str]:
    """Return the modules that a program has imported at its end."""
    # What is imported stays: a collector would look through it for a fifth of the time.
    source = f"import gc; gc.disable()\n{program}"
    ran = subprocess.run(
        [sys.executable, "-c", source, *arguments], check=True, capture_output=True, text=True
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize("role", UNUSED)
def test_role_imports_only_the_libraries_that_it_needs(role: str) -> None:
    imported = list_modules(OPEN_ROLE, role, "nats://127.0.0.1:4222")
    assert imported >= {f"turnlog.services.{role}", "nats"}
    assert imported & UNUSED[role] == set()


def test_aiohttp_is_imported_for_a_websocket_nats_url() -> None:
    assert "aiohttp" in list_modules(IMPORT_NATS, "wss://nats.example:443")


def test_sqlalchemy_orm_can_still_be_imported_by_other_packages() -> None:
    assert list_modules(IMPORT_ORM) >= {"sqlalchemy.orm", "sqlalchemy.ext.asyncio"}


def test_command_imports_httpx_without_its_command_line_program() -> None:
    imported = list_modules(LIST_SESSIONS)
    assert "httpx" in imported
    assert imported & {"pygments", "rich.progress", "sqlalchemy", "structlog"} == set()


def test_all_in_one_starts_without_the_model_library() -> None:
    imported = list_modules(START_ALL)
    assert imported >= {"turnlog.services.gateway", "turnlog.services.worker"}
    assert imported & (COMMON - {"faststream"}) == set()
