"""Commands on prompt overrides: a user's own texts in place of the prompt files of a blueprint."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

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
    from turnlog.services.cli.overrides.override_actions import send_override

    run_async(
        send_override(
            target=target,
            place=(blueprint, category, user),
            text=text,
            fields=asdict(place),
            output=output,
        )
    )


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
    from turnlog.services.cli.overrides.override_view import render_overrides

    query = {"user": user, "blueprint": blueprint}
    show_answer(target, lambda reader: reader.list_overrides(query), render_overrides, output)


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
    from turnlog.services.cli.overrides.override_view import render_override

    show_answer(
        target,
        lambda reader: reader.fetch_override((blueprint, category, user), asdict(place)),
        render_override,
        output,
    )


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
    from turnlog.services.cli.overrides.override_actions import send_removal

    run_async(send_removal(target, (blueprint, category, user), asdict(place), output))
