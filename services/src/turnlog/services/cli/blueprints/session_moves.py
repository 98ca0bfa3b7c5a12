"""Moves of sessions to the current files of their blueprints: of one session, or of many by a plan.

The plan is printed, and carried out once it is confirmed: each session for itself, and only to the
version that the plan has. A session that cannot be moved stops no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import typer

from turnlog.client import ClientOperation
from turnlog.client.operations import build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.content import Digest
from turnlog.events.errors import Conflict, Refused
from turnlog.services.api.service_payloads import BlueprintMovePreview, BlueprintMoveResult
from turnlog.services.cli.blueprints.move_view import (
    PlannedMove,
    dump_move_plan,
    render_move_plan,
    render_outcome,
)
from turnlog.services.cli.client.service_client import ServiceClient, create_running_client
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.client.session_selection import list_selected_sessions
from turnlog.services.cli.console import (
    OutputFormat,
    create_output_console,
    print_json,
)
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.session_options import SessionFilterOptions


def build_move(session: str, digest: Digest | None) -> ClientOperation[BlueprintMoveResult]:
    """Move a session to the current files of its blueprint."""
    path = format_path(api_paths.SESSION_BLUEPRINT, session=session)
    return build_command(path, {"digest": digest}, BlueprintMoveResult)


def build_move_preview(session: str) -> ClientOperation[BlueprintMovePreview]:
    """Return what a move of a session would do."""
    return build_read(
        format_path(api_paths.SESSION_BLUEPRINT, session=session), BlueprintMovePreview
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedMove:
    """A move of the sessions that options select."""

    filters: SessionFilterOptions
    digest: Digest | None
    """Only sessions whose files have this digest."""
    dry_run: bool
    """Whether the plan is only printed."""
    is_confirmed: bool
    """Whether it is carried out without a question."""


async def move_selected_sessions(
    target: ServiceTarget, move: SelectedMove, output: OutputFormat
) -> bool:
    """Print which sessions a move changes and carry it out; return whether it fits all of them."""
    async with create_running_client(require_service(target)) as service:
        # A closed session makes no calls, so its version is of no matter.
        found = await list_selected_sessions(service, replace(move.filters, open=True))
        plan = [await _plan_move(service, each.session, move.digest) for each in found]
        is_due = any(each.moves for each in plan)
        if output == "table":
            create_output_console().print(render_move_plan(plan))
        if is_due and not move.dry_run and _is_agreed(move, plan):
            plan = [await _move_planned_session(service, each) for each in plan]
            if output == "table":
                create_output_console().print(render_outcome(plan))
        if output == "json":
            print_json(dump_move_plan(plan))
    return all(each.refused is None for each in plan)


def _is_agreed(move: SelectedMove, plan: Sequence[PlannedMove]) -> bool:
    if move.is_confirmed:
        return True
    number = sum(each.moves for each in plan)
    return typer.confirm(f"Move {number} of {len(plan)} sessions?", err=True)


async def _plan_move(service: ServiceClient, session: str, digest: Digest | None) -> PlannedMove:
    try:
        preview = await service.send(build_move_preview(session))
    except Refused as refused:
        return PlannedMove(session=session, refused=refused)
    if digest not in {None, preview.digest}:
        detail = f"the files are version {preview.version}, {preview.digest}"
        changed = Refused("blueprint-changed", detail, field="--to")
        return PlannedMove(session=session, preview=preview, refused=changed)
    return PlannedMove(session=session, preview=preview)


async def _move_planned_session(service: ServiceClient, planned: PlannedMove) -> PlannedMove:
    if planned.preview is None or not planned.moves:
        return planned
    try:
        done = await service.send(build_move(planned.session, planned.preview.digest))
    except (Refused, Conflict) as error:
        return replace(planned, refused=error)
    return replace(planned, done=done)
