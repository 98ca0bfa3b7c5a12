"""The tables of knowledge, of what turns retrieved from it, and of votes.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "knowledge_index",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("vectors", sa.Text, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )
    op.create_table(
        "knowledge_histories",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("replaced", sa.BigInteger, nullable=False),
        sa.Column("stopped", sa.Text),
    )
    op.create_table(
        "knowledge_entries",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("collection", sa.Text, primary_key=True),
        sa.Column("entry", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("attributes", sa.Text, nullable=False),
        sa.Column("efficiency", sa.Float(53)),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("edited_at", sa.Text, nullable=False),
        sa.Column("edited_by", sa.Text, nullable=False),
    )
    op.create_index(
        "knowledge_entries_by_number", "knowledge_entries", ["build", "number"], unique=True
    )
    op.create_table(
        "retrieved_entries",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("turn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("collection", sa.Text, primary_key=True),
        sa.Column("entry", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "retrieved_entries_by_entry",
        "retrieved_entries",
        ["build", "tenant", "collection", "entry"],
    )
    op.create_table(
        "turn_votes",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("turn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("vote", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
