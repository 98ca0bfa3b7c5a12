from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import uuid4

from pydantic import JsonValue

from turnlog.services.cli.options import Served
from turnlog.services.cli.place import service
from turnlog.services.cli.reader.opened import client
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.gateway.payloads.closed import Answer

Given = Mapping[str, JsonValue]
View = TypeVar("View", bound=Answer)


async def sent(served: Served, method: str, path: str, body: Given, form: type[View]) -> View:
    """Send a command under a new idempotency key and return the parsed answer.

    Fields of `body` that are None are left out. Raises `Refused` if no service runs.
    """
    given = {name: value for name, value in body.items() if value is not None}
    url = service(served).url
    async with client(url) as reached:
        with reaching(url):
            headers = {"Idempotency-Key": uuid4().hex}
            answer = checked(await reached.request(method, path, json=given, headers=headers))
    return form.model_validate_json(answer.content)
