"""What commands read of the list of sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from turnlog.client.operations import build_read
from turnlog.contract import api_paths
from turnlog.contract.session_payloads import SessionPage, SessionRow
from turnlog.events.errors import Refused
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.key_value_args import parse_pairs
from turnlog.services.cli.session_options import SessionConditionOptions, SessionFilterOptions

_PAGE_SIZE: Final = 500


def build_session_query(options: SessionConditionOptions) -> dict[str, object]:
    """Return the query parameters of options; raises `Refused` for an attribute without `=`."""
    query = asdict(options)
    pairs = parse_pairs(query.pop("attribute") or (), "--attribute")
    return {**query, **{f"attribute.{name}": value for name, value in pairs.items()}}


async def list_selected_sessions(
    service: ServiceClient, filters: SessionFilterOptions
) -> tuple[SessionRow, ...]:
    """Return all sessions that options select, newest first; raises `Refused` if there is none."""
    query = {**build_session_query(filters), "limit": _PAGE_SIZE}
    found, before = list[SessionRow](), None
    while True:
        page = await service.send(
            build_read(api_paths.SESSIONS, SessionPage, {**query, "before": before})
        )
        found += page.sessions
        before = page.next
        if before is None:
            break
    if not found:
        raise Refused("unknown-session", "the options select no session")
    return tuple(found)
