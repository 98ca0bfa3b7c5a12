"""Commands on policies of retention, holds, and what is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

PolicyArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the policy.")]

HoldArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the hold.")]

HoldReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Recorded for good: name no person.")
]


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """Which sessions a policy or a hold is for: those that meet all that is given."""

    blueprint: Annotated[
        str | None,
        typer.Option("--blueprint", metavar="NAME", help="Only sessions of this blueprint."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="Only sessions with it; may be repeated."),
    ] = None
    all_sessions: Annotated[
        bool, typer.Option("--all-sessions", help="All sessions of the tenant.")
    ] = False

    def build_form(self, **more: str | None) -> dict[str, Any]:
        """Return the fields of a request."""
        given = {"blueprint": self.blueprint, "labels": self.label, **more}
        where = {name: value for name, value in given.items() if value}
        return {"where": where, "all_sessions": self.all_sessions}


def list_retention(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the policies and the holds."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_retention

    show_answer(target, key_operations.list_retention(), render_retention, output)


def set_policy(
    name: PolicyArgument,
    *,
    scope: ScopeOptions,
    keep_for: Annotated[
        str | None,
        typer.Option(
            "--keep-for", metavar="AGE", help="Erase nothing before this age, such as 3650d."
        ),
    ] = None,
    law: Annotated[
        str | None, typer.Option("--law", metavar="TEXT", help="Why: the name of the law.")
    ] = None,
    erase_after: Annotated[
        str | None,
        typer.Option("--erase-after", metavar="AGE", help="Erase at this age, such as 90d."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Set how long sessions are kept, and when they are erased.

    Ages count from the end of a session's last turn.
    """
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_policy_result

    form = {
        "name": name,
        **scope.build_form(),
        "keep_for": keep_for,
        "law": law,
        "erase_after": erase_after,
    }
    run_command(target, key_operations.set_policy(form), render_policy_result, output)


def remove_policy(
    name: PolicyArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Remove a policy: it refuses and erases nothing any more."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_policy_removal

    run_command(target, key_operations.remove_policy(name), render_policy_removal, output)


def list_due_sessions(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """Show which sessions policies say to erase by now, and what keeps them."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_due_sessions

    show_answer(target, key_operations.list_due_sessions(), render_due_sessions, output)


def erase_due_sessions(*, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Erase what is due without waiting for the schedule, so many sessions at a time."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_due_sessions

    run_command(target, key_operations.erase_due_sessions(), render_due_sessions, output)


def place_hold(
    name: HoldArgument,
    *,
    scope: ScopeOptions,
    session: Annotated[
        str | None, typer.Option("--session", metavar="SESSION", help="Only this session.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Only sessions of this user."),
    ] = None,
    reason: HoldReason,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Have nothing of some sessions erased, by anyone, until the hold is released."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_hold_result

    form = {"name": name, "reason": reason, **scope.build_form(session=session, user=user)}
    run_command(target, key_operations.place_hold(form), render_hold_result, output)


def release_hold(
    name: HoldArgument,
    *,
    reason: HoldReason,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """End a hold; what waits for it goes on by itself."""
    from turnlog.client import key_operations
    from turnlog.services.cli.retention.retention_view import render_hold_result

    run_command(target, key_operations.release_hold(name, reason), render_hold_result, output)
