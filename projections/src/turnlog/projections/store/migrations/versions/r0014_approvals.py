"""The approvals that tools need, for the list of those of all sessions.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("turn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("approval", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("requested_at", sa.Text, nullable=False),
        sa.Column("call", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("deadline", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("decided_at", sa.Text),
        sa.Column("decided_by", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "approvals_newest_first", "approvals", ["build", "tenant", "decision", "position"]
    )
