"""Attempts that a fork copied from its origin, and an index to find forks by origin.

Written out instead of using the current tables, so that it never changes.
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
