"""The list of approvals across sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.contract.turn_payloads import ApprovalPage, ListedApproval
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt
from turnlog.projections.session_views.turn_activity import ToolActivity
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.approval_queries import ApprovalQuery, list_approvals
from turnlog.services.approvals.approval_views import create_listed_approval
from turnlog.services.approvals.approval_watch import list_undecided
from turnlog.services.sessions.command_handler import CommandHandler


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
        waiting: dict[tuple[str, int, int], ToolActivity] = {}
        unreadable = set[str]()
        for session, turn in dict.fromkeys((each.session, each.turn) for each in listed):
            try:
                tools = await list_undecided(self.command_handler, tenant, session, turn)
            except Corrupt:
                unreadable.add(session)
                continue
            for tool in tools:
                if asked := tool.use.approval:
                    waiting[session, turn, asked.approval] = tool.use
        uses = ((each, waiting.get((each.session, each.turn, each.approval))) for each in listed)
        return [
            _add_arguments(each, use) if use else each
            for each, use in uses
            if use or each.session in unreadable
        ]


def _add_arguments(listed: ListedApproval, use: ToolActivity) -> ListedApproval:
    digest = compute_digest(use.arguments)
    return listed.model_copy(update={"arguments": use.arguments, "digest": digest})
