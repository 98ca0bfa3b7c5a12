"""Commands on prompt overrides: a user's own texts in place of the prompt files of a blueprint."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

_READ_STDIN: Final = "-"

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]

BlueprintArgument = Annotated[
    str, typer.Argument(metavar="BLUEPRINT", help="The name of the blueprint.")
]

CategoryArgument = Annotated[
    str,
    typer.Argument(
        metavar="CATEGORY", help="The category of the prompt file, such as master_system."
    ),
]


@dataclass(frozen=True, slots=True)
class OverridePlaceOptions:
    """Which override of a category is meant."""

    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="PROFILE", help="Only for this profile."),
    ] = None
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", metavar="PROVIDER", help="Only for this provider, such as anthropic."
        ),
    ] = None


def set_override(
    user: UserArgument,
    blueprint: BlueprintArgument,
    category: CategoryArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")],
    *,
    place: OverridePlaceOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Set a user's own text of a prompt category, from the user's next turn on."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.overrides.override_view import render_override_change

    form = {**asdict(place), "text": sys.stdin.read() if text == _READ_STDIN else text}
    operation = tenant_operations.set_override(user, blueprint, category, form)
    run_command(target, operation, render_override_change, output)


def list_overrides(
    user: UserArgument,
    blueprint: Annotated[
        str | None, typer.Argument(metavar="[BLUEPRINT]", help="Only for this blueprint.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """List a user's own prompt texts."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.overrides.override_view import render_overrides

    operation = tenant_operations.list_overrides(user, blueprint)
    show_answer(target, operation, render_overrides, output)


def show_override(
    user: UserArgument,
    blueprint: BlueprintArgument,
    category: CategoryArgument,
    *,
    place: OverridePlaceOptions,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show a user's own text of a prompt category."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.overrides.override_view import render_override

    operation = tenant_operations.fetch_override(
        user=user,
        blueprint=blueprint,
        category=category,
        profile=place.profile,
        provider=place.provider,
    )
    show_answer(target, operation, render_override, output)


def remove_override(
    user: UserArgument,
    blueprint: BlueprintArgument,
    category: CategoryArgument,
    *,
    place: OverridePlaceOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Remove a user's own text, so that the prompt file stands again from the next turn on.

    Prompts that included it still reproduce.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.overrides.override_view import render_override_removal

    operation = tenant_operations.remove_override(
        user=user,
        blueprint=blueprint,
        category=category,
        profile=place.profile,
        provider=place.provider,
    )
    run_command(target, operation, lambda _: render_override_removal(), output)
