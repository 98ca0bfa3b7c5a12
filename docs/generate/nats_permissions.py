"""Writes the reference of what each login of NATS may do.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from turnlog.services.platform.nats_permissions import GRANTS, NATS_USERS, NatsGrant

TARGET = Path(__file__).parents[1] / "reference" / "nats-permissions.md"

HEAD = """\
# What each login of NATS may do

A server refuses everything that is not in this list. `*` is one word of a subject, `>` all that
follow. The streams have the sessions of all tenants, so a line holds for every tenant, and no
tenant has a login: [logins of NATS](../nats-logins.md) says why, and what a server cannot refuse.
`turnlog keys nats` writes the users of a server from the same table.

| what for | publishes to | but not to | subscribes to | logins |
|---|---|---|---|---|
"""


def format_page() -> str:
    """Return the text of the page."""
    return "".join((HEAD, *(_format_row(each) for each in GRANTS), *_iterate_rest()))


def _format_row(grant: NatsGrant) -> str:
    lists = (_format_list(each) for each in (grant.publish, grant.refused, grant.subscribe))
    users = ", ".join(f"`{each}`" for each in NATS_USERS if each in grant.users)
    return f"| {grant.purpose} | {' | '.join(lists)} | {users} |\n"


def _format_list(subjects: Sequence[str]) -> str:
    return "<br>".join(f"`{each}`" for each in subjects)


def _iterate_rest() -> Iterator[str]:
    yield "\nThe login `turnlog` may do everything: it is that of `turnlog up`, and of back-ups.\n"


if __name__ == "__main__":
    TARGET.write_text(format_page())
