"""How near a session's last prompt came to its budget, its versions, and calls by time.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("budget_share", sa.BigInteger))
    op.create_index("sessions_by_budget_share", "sessions", ["build", "tenant", "budget_share"])
    op.create_index("calls_by_time", "calls", ["build", "tenant", "at"])
    op.create_table(
        "pinned_blueprints",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("pinned_in", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
