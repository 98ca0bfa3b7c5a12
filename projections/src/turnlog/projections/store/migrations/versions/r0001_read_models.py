"""The read models of the first release.

Written out instead of using the current tables, so that it never changes. There is no downgrade:
for an older release, drop the tables and rebuild them from the log.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _projections()
    _sessions()
    _turns()
    _calls()
    _commands()
    _quarantine()


def _projections() -> None:
    op.create_table(
        "projections",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        _number("version", null=False),
        _text("stream", null=False),
        _text("created", null=False),
        _number("position", null=False),
        _text("hash"),
        _flag("active"),
    )
    op.create_index(
        "projections_one_active",
        "projections",
        ["name"],
        unique=True,
        postgresql_where=sa.column("active"),
        sqlite_where=sa.column("active"),
    )


def _sessions() -> None:
    _rows(
        "sessions",
        {},
        _number("opened_position", null=False),
        _text("opened_at", null=False),
        _text("blueprint", null=False),
        _number("blueprint_version", null=False),
        _text("blueprint_digest", null=False),
        _text("profile", null=False),
        _text("attributes", null=False),
        _text("origin_kind"),
        _text("origin_session"),
        _number("origin_sequence"),
        _text("title"),
        _text("sought", null=False),
        _number("turns", null=False),
        _flag("redacted"),
        _text("closed_at"),
        _number("last_sequence", null=False),
        _text("last_hash", null=False),
        _text("last_at", null=False),
        large=True,
    )
    op.create_index("sessions_newest_first", "sessions", ["build", "tenant", "opened_position"])
    _rows("session_attributes", {"name": sa.Text}, _text("digest", null=False))
    op.create_index(
        "sessions_by_attribute", "session_attributes", ["build", "tenant", "name", "digest"]
    )


def _turns() -> None:
    _rows(
        "turns",
        {"turn": sa.BigInteger},
        _text("status", null=False),
        _number("text_in"),
        _number("reply_in"),
        _text("call"),
        _text("finish"),
        _text("cause"),
        _text("detail"),
        _flag("excluded"),
        _flag("redacted"),
        _text("submitted_at", null=False),
        _text("released_at"),
        _text("settled_at"),
    )
    _rows(
        "redactions",
        {"sequence": sa.BigInteger},
        _number("turn", null=False),
        _text("reason", null=False),
        _text("rule", null=False),
        _text("at", null=False),
    )
    _rows(
        "phases",
        {"sequence": sa.BigInteger},
        _text("phase", null=False),
        _text("before"),
        _text("signal"),
        _flag("forced"),
        _number("turn"),
        _text("at", null=False),
    )


def _calls() -> None:
    _rows(
        "calls",
        {"call": sa.Text},
        _number("turn", null=False),
        _number("sequence", null=False),
        _text("at", null=False),
        _text("kind", null=False),
        _text("model", null=False),
        _text("supersedes"),
        _text("digest", null=False),
        _number("budget"),
        _number("tokens", null=False),
        _text("counter", null=False),
        _number("parts", null=False),
        _number("attempt"),
        _text("finish"),
        _number("characters"),
    )
    _rows(
        "attempts",
        {"turn": sa.BigInteger, "attempt": sa.BigInteger},
        _text("call", null=False),
        _text("worker", null=False),
        _text("started_at", null=False),
        _text("ended_at"),
        _text("outcome"),
        _text("known"),
        _number("input_tokens"),
        _number("output_tokens"),
        _number("cached_tokens"),
        _number("micro_dollars"),
        _text("price"),
        _number("first_token_ms"),
        _number("total_ms"),
        _text("fault"),
    )
    _rows(
        "window_parts",
        {"call": sa.Text, "component": sa.Text},
        _number("turn", null=False),
        _number("place", null=False),
        _number("parts", null=False),
        _number("tokens", null=False),
        _number("characters", null=False),
        _number("turns", null=False),
        _number("cut_turns", null=False),
    )


def _commands() -> None:
    _rows(
        "commands",
        {"key": sa.Text},
        _text("hash", null=False),
        _number("sequence", null=False),
        _number("turn"),
    )


def _quarantine() -> None:
    _rows(
        "quarantine",
        {"position": sa.BigInteger},
        _text("subject", null=False),
        _text("reason"),
        sa.Column("stored", sa.LargeBinary, nullable=False),
        large=True,
    )


def _rows(
    name: str,
    keys: dict[str, type[sa.Text | sa.BigInteger]],
    *others: sa.Column[Any],
    large: bool = False,
) -> None:
    owner = {"build": sa.BigInteger, "tenant": sa.Text, "session": sa.Text}
    op.create_table(
        name,
        *(
            sa.Column(key, kind, primary_key=True, autoincrement=False)
            for key, kind in {**owner, **keys}.items()
        ),
        *others,
        sqlite_with_rowid=large,
    )


def _text(name: str, *, null: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null)


def _number(name: str, *, null: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=null)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)
