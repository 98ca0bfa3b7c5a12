"""The logins of a nats-server, in the form of its configuration.

Whoever can publish under a session's subjects can put a message into its record. So each role of a
process has a login that may publish what the role writes and nothing else, and programs that only
read have one that publishes no event. Answers come to inboxes that each login has for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turnlog.services.platform.nats_permissions import NATS_USERS, NatsUser, collect_lists

SERVICE_USER: Final = "turnlog"
"""The login that may do everything: that of `turnlog up`, and of back-ups."""

CONSUMER_USER: Final = "consumer"

PASSWORD_VARIABLES: Final[Mapping[str, str]] = {
    SERVICE_USER: "NATS_PASSWORD",
    **{user: f"NATS_{user.upper()}_PASSWORD" for user in NATS_USERS},
}
"""The variables that the configuration of a server takes passwords from, by login."""


def render_consumer_permissions() -> str:
    """Return the permissions of consumers in the form of a configuration of nats-server."""
    return "\n".join([*_render_permissions(CONSUMER_USER), ""])


def render_users() -> str:
    """Return all logins in the form of a configuration, with passwords from its environment."""
    lines = [
        "# The logins of NATS, to be included in `authorization`. Written by `turnlog keys nats`.",
        "# Passwords come from the environment of the server, with quotes around them: one of",
        "# digits alone would be a number.",
        "users: [",
        *_render_user(SERVICE_USER, f"${PASSWORD_VARIABLES[SERVICE_USER]}", ()),
    ]
    for user in NATS_USERS:
        permissions = tuple(_render_permissions(user))
        lines += _render_user(user, f"${PASSWORD_VARIABLES[user]}", permissions)
    return "\n".join([*lines, "]", ""])


def render_role_users(passwords: Mapping[NatsUser, str]) -> Sequence[str]:
    """Return the lines of some logins with their passwords, for a list of users."""
    lines = list[str]()
    for user, password in passwords.items():
        lines += _render_user(user, json.dumps(password), tuple(_render_permissions(user)))
    return lines


def _render_user(user: str, password: str, permissions: Sequence[str]) -> Iterator[str]:
    yield "  {"
    yield f"    user: {user}"
    yield f"    password: {password}"
    if permissions:
        yield "    permissions {"
        yield from (f"      {line}" for line in permissions)
        yield "    }"
    yield "  }"


def _render_permissions(user: NatsUser) -> Iterator[str]:
    lists = collect_lists(user)
    yield "publish {"
    yield from _render_list("allow", lists.publish)
    if lists.refused:
        yield from _render_list("deny", lists.refused)
    yield "}"
    yield "subscribe {"
    yield from _render_list("allow", lists.subscribe)
    yield "}"


def _render_list(name: str, subjects: Sequence[str]) -> Iterator[str]:
    yield f"  {name}: ["
    yield from (f"    {json.dumps(subject)}" for subject in subjects)
    yield "  ]"
