from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import uuid4

from pydantic import JsonValue

from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.place import require_service
from turnlog.services.cli.reader.opened import create_client
from turnlog.services.cli.reader.refusals import require_success, map_transport_errors
from turnlog.services.gateway.payloads.closed import ResponseModel

CommandBody = Mapping[str, JsonValue]
AnswerT = TypeVar("View", bound=ResponseModel)


async def send_command(target: ServiceTarget, method: str, path: str, body: CommandBody, answer_type: type[AnswerT]) -> AnswerT:
    """Send a command under a new idempotency key and return the parsed answer.

    Fields of `body` that are None are left out. Raises `Refused` if no service runs.
    """
    given = {name: value for name, value in body.items() if value is not None}
    url = require_service(target).url
    async with create_client(url) as reached:
        with map_transport_errors(url):
            headers = {"Idempotency-Key": uuid4().hex}
            answer = require_success(await reached.request(method, path, json=given, headers=headers))
    return answer_type.model_validate_json(answer.content)
