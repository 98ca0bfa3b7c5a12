"""What `turnlog up` shows once it accepts work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.all_in_one import ServiceAddresses
from turnlog.services.cli.views.theme import GOOD, MUTED
from turnlog.services.platform.process_settings import AllInOneSettings


def render_head(addresses: ServiceAddresses) -> Text:
    """Render the line with the address of a service."""
    ready = Text().append("turnlog is up", f"bold {GOOD}").append(f"  {addresses.http}")
    return ready.append(f"  data in {addresses.data_dir}")


def render_first_screen(
    addresses: ServiceAddresses, settings: AllInOneSettings, new_keys: Sequence[Path]
) -> RenderableType:
    """Render the summary of a started service for a terminal."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style=MUTED, justify="right")
    rows.add_column(overflow="fold")
    rows.add_row("page", f"{addresses.http}/")
    rows.add_row("model", _describe_model(settings.model))
    if new_keys:
        rows.add_row("keys", f"new, in {' and '.join(map(str, new_keys))}")
    if sealing := _describe_sealing(settings):
        rows.add_row("sealed", sealing)
    rows.add_row("access", _describe_access(settings))
    rows.add_row("next", "turnlog chat, in another terminal")
    rows.add_row("", Text("Ctrl-C ends it.", MUTED))
    return rows


def _describe_model(model: str) -> str:
    if model == "off":
        return "off: no model is called"
    if model.startswith("scripted/"):
        return f"{model}, which recites; another one: --model NAME"
    return f"{model}; the first reply waits for its library to load"


def _describe_sealing(settings: AllInOneSettings) -> str | None:
    if settings.seals_new_sessions:
        return f"by {settings.keyring}; whoever loses it loses the words, so keep a copy elsewhere"
    if settings.sealing is None:
        return "no: this directory was made without; TURNLOG_SEALING=on seals new sessions"
    return None


def _describe_access(settings: AllInOneSettings) -> str:
    if settings.root_key is not None:
        return "with a key: turnlog keys create, with TURNLOG_KEY as the root key"
    if settings.actor_proxies:
        return "through the proxy of TURNLOG_ACTOR_PROXIES"
    return "everybody on this machine; TURNLOG_ROOT_KEY asks for keys"
