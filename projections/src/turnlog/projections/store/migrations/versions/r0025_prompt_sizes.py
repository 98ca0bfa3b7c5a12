"""How many prompts of each hour were of each size.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.create_table(
        "size_hours",
        sa.Column("build", sa.BigInteger, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("hour", sa.Text, nullable=False),
        *(sa.Column(each, sa.Text) for each in ("blueprint", "profile", "kind", "model")),
        sa.Column("version", sa.BigInteger),
        *(sa.Column(each, sa.BigInteger, nullable=False) for each in ("size", "calls")),
    )
    op.create_index("size_hours_by_time", "size_hours", ["build", "tenant", "hour"])
