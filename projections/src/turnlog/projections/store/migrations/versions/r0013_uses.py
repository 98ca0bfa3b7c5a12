"""The index of uses: which texts each prompt includes, and what those texts stand for.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    for name in ("call", "request"):
        op.add_column("child_turns", sa.Column(name, sa.Text))
    _create_prompt_sources()
    _create_event_texts()


def _create_prompt_sources() -> None:
    op.create_table(
        "prompt_sources",
        *_build_owner(),
        sa.Column("call", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text),
        sa.Column("lookup", sa.Text),
        sqlite_with_rowid=False,
    )
    _create_partial_index("prompt_sources_by_lookup", "prompt_sources", "lookup")
    _create_partial_index("prompt_sources_by_digest", "prompt_sources", "digest")


def _create_event_texts() -> None:
    op.create_table(
        "event_texts",
        *_build_owner(),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("call", sa.Text),
        sa.Column("request", sa.Text),
        sa.Column("label", sa.Text),
        sa.Column("quoted", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    _create_partial_index("event_texts_by_label", "event_texts", "label")


def _build_owner() -> tuple[sa.Column[int], sa.Column[str], sa.Column[str]]:
    return (
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
    )


def _create_partial_index(name: str, table: str, column: str) -> None:
    found = sa.text(f"{column} IS NOT NULL")
    op.create_index(
        name, table, ["build", "tenant", column], postgresql_where=found, sqlite_where=found
    )
