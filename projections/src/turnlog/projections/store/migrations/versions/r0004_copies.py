"""Attempts that a fork has from its origin, and forks found by it.

Written out and not taken from the tables of today, so that it stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column(
        "attempts", sa.Column("copied", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_index("sessions_by_origin", "sessions", ["build", "tenant", "origin_session"])
