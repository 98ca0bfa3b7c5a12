"""Keys on a terminal: all of them, one that was just made, and who one is to a service."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.installation.key_payloads import (
    CreatedKey,
    KeyPage,
    KeyResult,
    KeyView,
    PrincipalView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_date_time
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing


def render_keys(page: KeyPage) -> RenderableType:
    """List the keys."""
    if not page.keys:
        return Text("there is no key", MUTED)
    table = create_listing()
    for title in ("key", "id", "tenant", "roles", "user", "status", "expires", "last used on"):
        table.add_column(title, no_wrap=title != "roles")
    for each in page.keys:
        table.add_row(
            each.name,
            each.id,
            each.tenant,
            ", ".join(each.roles),
            escape_controls(each.user or ""),
            _format_status(each),
            format_date_time(each.expires) if each.expires else "",
            (each.used_at or "")[:10],
        )
    return table


def render_created_key(answer: CreatedKey) -> RenderableType:
    """Render a key that was created or rotated, with all of it."""
    lines = [Text("✓ ", GOOD).append(answer.key.name, "bold"), *_iterate_facts(answer.key)]
    if answer.secret is None:
        note = "The command was carried out before, and its first answer had the key: rotate it."
        return Group(*lines, Text(note, WARNING))
    return Group(
        *lines,
        Text("key     ", MUTED).append(answer.secret, "default"),
        Text("It is shown only here: put it into TURNLOG_KEY where it is used.", WARNING),
    )


def render_revoked_key(answer: KeyResult) -> RenderableType:
    """Render that a key was revoked."""
    return Text("✓ ", GOOD).append(f"{answer.key.name} revoked", "default")


def render_principal(answer: PrincipalView) -> RenderableType:
    """Render who the sender of a request is to the service."""
    lines = [
        Text("actor   ", MUTED).append(escape_controls(answer.actor), "bold"),
        Text("tenant  ", MUTED).append(answer.tenant, "default"),
        Text("by      ", MUTED).append(_SIGN_INS[answer.sign_in], "default"),
        Text("roles   ", MUTED).append(", ".join(answer.roles) or "none", "default"),
    ]
    may = Text("may     ", MUTED).append("  ".join(answer.permissions), "default")
    return Group(*lines, may)


_SIGN_INS = {
    "key": "a key",
    "root-key": "the root key",
    "oidc": "a token of the identity provider",
    "browser-token": "a browser token",
    "proxy": "a trusted proxy",
    "none": "nothing: the service asks nobody who he is",
}


def _iterate_facts(view: KeyView) -> Iterator[Text]:
    yield Text("id      ", MUTED).append(view.id, "default")
    yield Text("tenant  ", MUTED).append(view.tenant, "default")
    yield Text("roles   ", MUTED).append(", ".join(view.roles), "default")
    if view.user is not None:
        yield Text("user    ", MUTED).append(escape_controls(view.user), "default")
    if view.expires is not None:
        yield Text("expires ", MUTED).append(format_date_time(view.expires), "default")
    if view.previous_until is not None:
        until = f"the one before signs in until {format_date_time(view.previous_until)}"
        yield Text("before  ", MUTED).append(until, "default")


def _format_status(view: KeyView) -> Text:
    styles = {"active": GOOD, "expired": WARNING, "revoked": BAD}
    return Text(view.status, styles[view.status])
