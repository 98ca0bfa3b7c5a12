"""Versions, from the command line: what open sessions are pinned to, and moving one on."""

from __future__ import annotations

from uuid import uuid4

from turnlog.services.cli.options import Asked
from turnlog.services.cli.place import service
from turnlog.services.cli.reader.opened import client
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.cli.screens.versions import moved_line, pin_table
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.moving import Moved, MoveForm


async def show_pins(reader: Reader, blueprint: str | None, form: Form) -> None:
    """Show what open sessions are pinned to."""
    found = await reader.pins(blueprint)
    shown(found, pin_table(found), form)


async def move(asked: Asked, session: str, digest: str | None, form: Form) -> None:
    """Let a session go on by what the files of its blueprint say now."""
    url = service(asked).url
    body = MoveForm(digest=digest).model_dump(mode="json", exclude_none=True)
    headers = {"Idempotency-Key": uuid4().hex}
    async with client(url) as reached:
        with reaching(url):
            path = f"/v1/sessions/{session}/blueprint"
            answer = checked(await reached.post(path, json=body, headers=headers))
    done = Moved.model_validate_json(answer.content)
    shown(done, moved_line(done), form)
