"""Lists that show what was just written: a command ends once the read models have its change.

Lists are read from rows, which follow the log. A list right after a command would otherwise now and
then miss what the command wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from turnlog.client import ClientOperation
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.cli.client.service_client import ServiceClient, create_running_client
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.console import create_error_console
from turnlog.services.cli.options import ServiceTarget

BEHIND_NOTICE: Final = "lists do not show this yet: the read models are behind the log"


class ChangeResult(Protocol):
    """The answer to a command that is listed from rows."""

    @property
    def sequence(self) -> int:
        """The sequence that the rows must reach to contain the change."""
        ...


ChangeT = TypeVar("ChangeT", bound=ChangeResult)

BuildRead = Callable[[int], ClientOperation[Any]]
"""Returns a read of rows with this `min_sequence`."""


async def send_listed_command(
    target: ServiceTarget, command: ClientOperation[ChangeT], build_read: BuildRead
) -> ChangeT:
    """Send a command to the service of `target`, and wait until lists show what it did."""
    async with create_running_client(require_service(target)) as service:
        done = await service.send(command)
        await wait_for_rows(service, build_read, done.sequence)
    return done


async def wait_for_rows(service: ServiceClient, build_read: BuildRead, sequence: int) -> None:
    """Wait until rows contain a sequence; 0 is that of a command that changed nothing.

    The change is on the log. So rows that do not come fail nothing, and a notice tells of them.
    """
    if sequence == 0:
        return
    try:
        await service.send(build_read(sequence))
    except (Refused, Unavailable):
        create_error_console().print(BEHIND_NOTICE)
