"""The turns of child sessions, with the turns of their coordinators.

Existing rows are rebuilt by the projector, because their version is older.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "child_turns",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("child_session", sa.Text, primary_key=True),
        sa.Column("child_turn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("turn", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
