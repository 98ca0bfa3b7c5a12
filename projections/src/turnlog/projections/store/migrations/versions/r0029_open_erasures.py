"""The erasure of a session that has not ended, which whoever starts next finishes.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("erasing", sa.BigInteger))
    is_open = sa.text("erasing IS NOT NULL")
    op.create_index(
        "sessions_by_erasing",
        "sessions",
        ["build", "erasing"],
        postgresql_where=is_open,
        sqlite_where=is_open,
    )
