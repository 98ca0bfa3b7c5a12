"""All commands in the order and under the headings of `--help`, and its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Final

import typer

from turnlog.services.cli.accounts import account_commands
from turnlog.services.cli.alerts import alert_commands
from turnlog.services.cli.approvals import approval_commands
from turnlog.services.cli.archive import archive_commands
from turnlog.services.cli.blueprints import blueprint_commands
from turnlog.services.cli.checkpoints import checkpoint_commands
from turnlog.services.cli.command_runner import CommandEntry
from turnlog.services.cli.commands import (
    admin_commands,
    audit_commands,
    chat_commands,
    event_commands,
    growth_commands,
    memory_commands,
    model_commands,
    session_commands,
    start_commands,
    steering_commands,
    tool_commands,
)
from turnlog.services.cli.erasures import erasure_commands
from turnlog.services.cli.forecasts import forecast_commands
from turnlog.services.cli.keyrings import keyring_commands
from turnlog.services.cli.keys import key_commands
from turnlog.services.cli.knowledge import knowledge_commands
from turnlog.services.cli.overrides import override_commands
from turnlog.services.cli.overview import top_commands
from turnlog.services.cli.quotas import quota_commands
from turnlog.services.cli.reads import read_commands
from turnlog.services.cli.retention import retention_commands
from turnlog.services.cli.segments import segment_commands
from turnlog.services.cli.tenants import tenant_commands
from turnlog.services.cli.usage import usage_commands
from turnlog.services.cli.uses import use_commands
from turnlog.services.cli.webhooks import webhook_commands


@dataclass(frozen=True, slots=True)
class CommandSection:
    """A heading of `--help` with its commands."""

    title: str
    commands: tuple[CommandEntry, ...]


COMMAND_GROUPS: Final = {
    "config": "Settings and where they come from.",
    "blueprint": "Blueprints: list and check them, and see which sessions use which version.",
    "quarantine": "Quarantine: sessions whose read models an event stopped.",
    "override": "Overrides: prompts that users have in place of those of a blueprint.",
    "quota": "Quotas: what users may use, and what is left.",
    "alerts": "Alerts: figures that are measured once a minute, and what is too high.",
    "retention": "Retention: how long sessions are kept, and when they are erased.",
    "hold": "Holds: sessions of which nothing is erased.",
    "keys": "Keys: who may sign in to the service, and what each may do.",
    "keyring": "Keyring: what the keys of sealed sessions are wrapped under.",
    "archive": "Archive: closed sessions that were moved out of NATS into files.",
    "accounts": "Accounts: services with the keys that this command line signs in with.",
    "tenants": "Tenants: what each may use of the installation.",
    "webhooks": "Webhooks: events that are delivered to addresses of your own.",
    "knowledge": "Knowledge: collections of cases and documents that turns retrieve.",
    "segments": "Segments: stored texts that prompts include.",
    "model": "Models: ask the server of one what it takes.",
    "tools": "Tool servers: start those of a blueprint and see what they offer.",
}
"""Help texts of the command groups, by the first word of the command name."""

COMMAND_SECTIONS: Final = (
    CommandSection(
        "Start",
        (
            CommandEntry("demo", start_commands.run_demo),
            CommandEntry("up", start_commands.start_all),
            CommandEntry("run", start_commands.run_role),
            CommandEntry("ready", start_commands.wait_until_ready),
        ),
    ),
    CommandSection(
        "Talk",
        (
            CommandEntry("chat", chat_commands.start_chat),
            *steering_commands.STEERING_COMMANDS,
            CommandEntry("erase", erasure_commands.erase_words),
            CommandEntry("erase-user", erasure_commands.erase_user),
            CommandEntry("erase-source", erasure_commands.erase_source),
            CommandEntry("erased-sources", erasure_commands.list_source_erasures),
        ),
    ),
    CommandSection(
        "Inspect",
        (
            CommandEntry("sessions", session_commands.list_sessions),
            CommandEntry("show", session_commands.show_session),
            CommandEntry("history", session_commands.show_history),
            CommandEntry("window", session_commands.show_window),
            CommandEntry("assemble", session_commands.assemble_prompt),
            CommandEntry("memory", memory_commands.show_memory),
            CommandEntry("references", memory_commands.show_references),
            CommandEntry("summaries", memory_commands.show_summaries),
            CommandEntry("growth", growth_commands.show_growth),
            CommandEntry("cache-breaks", growth_commands.list_cache_breaks),
            CommandEntry("forecast", forecast_commands.forecast_session),
            CommandEntry("usage", usage_commands.show_usage),
            CommandEntry("top", top_commands.show_top),
            CommandEntry("prompt", session_commands.show_prompt),
            CommandEntry("tool", session_commands.show_tool_result),
            CommandEntry("why", audit_commands.explain_turn),
            CommandEntry("approvals", approval_commands.list_approvals),
            CommandEntry("uses", use_commands.list_uses),
            CommandEntry("diff", audit_commands.compare_calls),
            CommandEntry("tail", event_commands.tail_events),
            CommandEntry("replay", event_commands.replay_session),
        ),
    ),
    CommandSection(
        "Audit",
        (
            CommandEntry("verify", audit_commands.verify_record),
            CommandEntry("checkpoint", checkpoint_commands.create_checkpoint),
            CommandEntry("prove", audit_commands.prove_call),
            CommandEntry("erasures", erasure_commands.list_erasures),
            CommandEntry("receipt", erasure_commands.sign_receipt),
            CommandEntry("export", audit_commands.export_sessions),
            CommandEntry("withheld", audit_commands.show_withheld_text),
            CommandEntry("audit", read_commands.list_reads),
            CommandEntry("what-if", audit_commands.compare_what_if),
            CommandEntry("rebuild", admin_commands.rebuild_read_models),
        ),
    ),
    CommandSection(
        "Administer",
        (
            CommandEntry("doctor", admin_commands.run_doctor),
            CommandEntry("config show", admin_commands.show_config),
            CommandEntry("provision", admin_commands.provision_streams),
            CommandEntry("blueprint new", blueprint_commands.create_blueprint),
            CommandEntry("blueprint check", blueprint_commands.check_blueprint),
            CommandEntry("blueprint list", blueprint_commands.list_blueprints),
            CommandEntry("blueprint show", blueprint_commands.show_blueprint),
            CommandEntry("blueprint pinned", blueprint_commands.show_pins),
            CommandEntry("blueprint move", blueprint_commands.move_blueprint),
            CommandEntry("tools check", tool_commands.check_tools),
            CommandEntry("model check", model_commands.check_model),
            CommandEntry("quarantine list", admin_commands.list_quarantine),
            CommandEntry("quarantine show", admin_commands.show_quarantine),
            CommandEntry("quarantine release", admin_commands.release_quarantine),
            CommandEntry("override set", override_commands.set_override),
            CommandEntry("override list", override_commands.list_overrides),
            CommandEntry("override show", override_commands.show_override),
            CommandEntry("override remove", override_commands.remove_override),
            CommandEntry("quota set", quota_commands.set_quota),
            CommandEntry("quota show", quota_commands.show_quota),
            CommandEntry("quota media", quota_commands.limit_media),
            CommandEntry("alerts list", alert_commands.list_alerts),
            CommandEntry("alerts apply", alert_commands.apply_alerts),
            CommandEntry("alerts show", alert_commands.show_alert),
            CommandEntry("alerts history", alert_commands.show_alert_history),
            CommandEntry("alerts remove", alert_commands.remove_alert),
            CommandEntry("retention list", retention_commands.list_retention),
            CommandEntry("retention set", retention_commands.set_policy),
            CommandEntry("retention remove", retention_commands.remove_policy),
            CommandEntry("retention due", retention_commands.list_due_sessions),
            CommandEntry("retention run", retention_commands.erase_due_sessions),
            CommandEntry("hold place", retention_commands.place_hold),
            CommandEntry("hold release", retention_commands.release_hold),
            CommandEntry("keys create", key_commands.create_key),
            CommandEntry("keys list", key_commands.list_keys),
            CommandEntry("keys rotate", key_commands.rotate_key),
            CommandEntry("keys revoke", key_commands.revoke_key),
            CommandEntry("keys whoami", key_commands.show_principal),
            CommandEntry("keys nats", key_commands.write_nats_users),
            CommandEntry("keyring status", keyring_commands.show_keyring),
            CommandEntry("keyring rotate", keyring_commands.rotate_keyring),
            CommandEntry("keyring retire", keyring_commands.retire_generation),
            CommandEntry("archive sessions", archive_commands.archive_sessions),
            CommandEntry("archive status", archive_commands.show_archive),
            CommandEntry("archive finish", archive_commands.finish_archive_run),
            CommandEntry("accounts add", account_commands.add_account),
            CommandEntry("accounts list", account_commands.list_accounts),
            CommandEntry("accounts remove", account_commands.remove_account),
            CommandEntry("tenants list", tenant_commands.list_tenants),
            CommandEntry("tenants show", tenant_commands.show_tenant),
            CommandEntry("tenants set", tenant_commands.configure_tenant),
            CommandEntry("webhooks add", webhook_commands.add_webhook),
            CommandEntry("webhooks list", webhook_commands.list_webhooks),
            CommandEntry("webhooks deliveries", webhook_commands.show_deliveries),
            CommandEntry("webhooks pause", webhook_commands.pause_webhook),
            CommandEntry("webhooks resume", webhook_commands.resume_webhook),
            CommandEntry("webhooks redeliver", webhook_commands.redeliver_webhook),
            CommandEntry("webhooks remove", webhook_commands.remove_webhook),
            CommandEntry("segments list", segment_commands.list_segments),
            CommandEntry("segments show", segment_commands.show_segment),
            CommandEntry("segments add", segment_commands.add_segment),
            CommandEntry("segments edit", segment_commands.edit_segment),
            CommandEntry("segments activate", segment_commands.mark_segment_active),
            CommandEntry("segments deactivate", segment_commands.mark_segment_inactive),
            CommandEntry("segments import", segment_commands.import_segments),
            CommandEntry("knowledge list", knowledge_commands.list_knowledge),
            CommandEntry("knowledge add", knowledge_commands.add_entry),
            CommandEntry("knowledge import", knowledge_commands.import_knowledge),
            CommandEntry("knowledge search", knowledge_commands.search_knowledge),
            CommandEntry("knowledge remove", knowledge_commands.remove_knowledge),
        ),
    ),
)

_HELP_HEAD: Final = """\
Usage: turnlog COMMAND [OPTIONS]

Records what was sent to a language model, and why.
"""

_HELP_FOOT: Final = """
`turnlog COMMAND --help` lists the arguments and options of a command.
Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 verification failed,
6 unwitnessed."""

_NAME_WIDTH: Final = (
    max(len(each.name) for section in COMMAND_SECTIONS for each in section.commands) + 2
)


def print_overview(requested: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the overview and exit if `--help` was given."""
    if requested:
        typer.echo(format_overview())
        raise typer.Exit


def print_version(requested: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the version and exit if `--version` was given."""
    if requested:
        typer.echo(metadata.version("turnlog"))
        raise typer.Exit


def format_overview() -> str:
    """Return the text of `turnlog --help`."""
    lines = (line for section in COMMAND_SECTIONS for line in _format_section(section))
    return "\n".join([_HELP_HEAD, *lines, _HELP_FOOT])


def extract_purpose(function: Callable[..., None]) -> str:
    """Return the first line of a command's docstring, which says what it is for."""
    return (function.__doc__ or "").partition("\n")[0]


def _format_section(section: CommandSection) -> Iterator[str]:
    yield section.title
    yield from (_format_entry(command) for command in section.commands)


def _format_entry(command: CommandEntry) -> str:
    return f"  {command.name:{_NAME_WIDTH}}{extract_purpose(command.function)}"
