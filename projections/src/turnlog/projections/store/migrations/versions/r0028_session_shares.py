"""The users whom sessions are shared with, which lists select by.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "session_shares",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("user_name", sa.Text, primary_key=True),
        sa.Column("access", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("sessions_by_share", "session_shares", ["build", "tenant", "user_name"])
