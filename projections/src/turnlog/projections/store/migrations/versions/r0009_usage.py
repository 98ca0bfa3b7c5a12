"""Who asked for a turn, and whether it counts as one that somebody asked for.

Existing rows are rebuilt by the projector, because their version is older.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("turns", sa.Column("asked_by", sa.Text))
    op.add_column(
        "turns", sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true())
    )
