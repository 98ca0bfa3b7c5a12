"""Commands on tenants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="The name of the tenant.")]

SETTINGS: Final = (
    "models",
    "max-open-turns",
    "max-waiting-turns",
    "body-bytes-per-minute",
    "provider-keys",
)
"""What a tenant may be given, by the words that `--unset` takes."""


@dataclass(frozen=True, slots=True)
class TenantLimitOptions:
    """The limits of a tenant."""

    max_open_turns: Annotated[
        int | None,
        typer.Option(
            "--max-open-turns",
            metavar="NUMBER",
            min=0,
            help="Turns that may be open or queued, without those that wait for a person.",
        ),
    ] = None
    max_waiting_turns: Annotated[
        int | None,
        typer.Option(
            "--max-waiting-turns",
            metavar="NUMBER",
            min=0,
            help="Turns that may wait for a person before no more are taken.",
        ),
    ] = None
    body_bytes_per_minute: Annotated[
        int | None,
        typer.Option(
            "--body-bytes-per-minute",
            metavar="NUMBER",
            min=1,
            help="Bytes of request bodies that each gateway takes in a minute.",
        ),
    ] = None


def list_tenants(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the tenants that have settings or keys; without the root key, one's own."""
    from turnlog.client import key_operations
    from turnlog.services.cli.tenants.tenant_view import render_tenants

    show_answer(target, key_operations.list_tenants(), render_tenants, output)


def show_tenant(
    name: TenantArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show what a tenant may use."""
    from turnlog.client import key_operations
    from turnlog.services.cli.tenants.tenant_view import render_tenant

    show_answer(target, key_operations.fetch_tenant(name), render_tenant, output)


def configure_tenant(
    name: TenantArgument,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A model that it may use, or with `*` at the end all that begin so; may be "
            "repeated, and replaces those before.",
        ),
    ] = None,
    no_models: Annotated[
        bool, typer.Option("--no-models", help="It may use no model at all.")
    ] = False,
    provider_key: Annotated[
        list[str] | None,
        typer.Option(
            "--provider-key",
            metavar="PROVIDER=PLACE",
            help="Where workers find its own key of a provider, as in "
            "`openai=env:TRAVEL_OPENAI_KEY` or `openai=file:/run/secrets/travel`; may be "
            "repeated, and replaces those before.",
        ),
    ] = None,
    limits: TenantLimitOptions,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="SETTING",
            help=f"A setting to remove: {', '.join(SETTINGS)}; may be repeated.",
        ),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Change what a tenant may use; what is not named stays as it is.

    Every process goes by it within a second. It is for whoever has the root key.
    """
    from turnlog.client import key_operations
    from turnlog.services.cli.tenants.tenant_view import render_tenant

    changes = dict[str, object].fromkeys(_check_settings(unset or ()))
    changes |= {name: value for name, value in asdict(limits).items() if value is not None}
    if provider_key:
        changes["provider_keys"] = dict(map(_parse_place, provider_key))
    if model or no_models:
        changes["models"] = model or []
    operation = key_operations.configure_tenant(name, changes)
    run_command(target, operation, render_tenant, output)


def _parse_place(written: str) -> tuple[str, str]:
    provider, _, place = written.partition("=")
    return provider, place


def _check_settings(names: Sequence[str]) -> Sequence[str]:
    unknown = [each for each in names if each not in SETTINGS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is none of {', '.join(SETTINGS)}")
    return [each.replace("-", "_") for each in names]
