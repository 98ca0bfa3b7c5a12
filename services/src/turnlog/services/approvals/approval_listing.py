"""The list of approvals across sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract.turn_payloads import ApprovalPage, ListedApproval
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt
from turnlog.projections.session_views.turn_activity import ToolActivity
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.approval_queries import ApprovalQuery, list_approvals
from turnlog.services.approvals.approval_views import create_listed_approval
from turnlog.services.approvals.guarded_tools import GuardedTool, list_undecided
from turnlog.services.sessions.command_handler import CommandHandler

MAX_TURN_LOADS: Final = 8
"""Turns that are loaded from the log at the same time for one list."""


@dataclass(frozen=True, slots=True)
class ApprovalListing:
    """Lists approvals of all sessions."""

    command_handler: CommandHandler
    store: ReadModelStore

    async def list_approvals(
        self, tenant: str, query: ApprovalQuery, *, limit: int, before: int | None = None
    ) -> ApprovalPage:
        """Return the tools of all sessions that wait for a person, or decided ones, newest first.

        The read models name them; the log of each session has what is to be approved, and whether
        it still waits.
        """
        async with self.store.open_reader() as connection:
            page = await list_approvals(connection, tenant, query, limit=limit, before=before)
        listed = [create_listed_approval(row) for row in page.approvals]
        if query.state == "pending":
            listed = await self._keep_waiting(tenant, listed)
        return ApprovalPage(
            approvals=tuple(listed), next=None if page.before is None else str(page.before)
        )

    async def _keep_waiting(
        self, tenant: str, listed: Sequence[ListedApproval]
    ) -> list[ListedApproval]:
        """Return those that still wait, with their arguments.

        Those of a session whose log cannot be read stay in the list, without.
        """
        turns = dict.fromkeys((each.session, each.turn) for each in listed)
        found = await load_undecided(self.command_handler, tenant, turns)
        waiting = {
            (tool.session, tool.turn, asked.approval): tool.use
            for tools in found.values()
            for tool in tools or ()
            if (asked := tool.use.approval)
        }
        uses = ((each, waiting.get((each.session, each.turn, each.approval))) for each in listed)
        return [
            _add_arguments(each, use) if use else each
            for each, use in uses
            if use or found[each.session, each.turn] is None
        ]


async def load_undecided(
    command_handler: CommandHandler, tenant: str, turns: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], Sequence[GuardedTool] | None]:
    """Return the tools of each turn of a session that wait now; None where its log is damaged."""
    free = asyncio.Semaphore(MAX_TURN_LOADS)

    async def load(session: str, turn: int) -> Sequence[GuardedTool] | None:
        async with free:
            try:
                return await list_undecided(command_handler, tenant, session, turn)
            except Corrupt:
                return None

    found = await asyncio.gather(*(load(*each) for each in turns))
    return dict(zip(turns, found, strict=True))


def _add_arguments(listed: ListedApproval, use: ToolActivity) -> ListedApproval:
    digest = compute_digest(use.arguments)
    return listed.model_copy(update={"arguments": use.arguments, "digest": digest})
