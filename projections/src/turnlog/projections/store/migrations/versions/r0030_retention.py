"""What tells when a session is to be erased: its last use, and whether its words can be.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("used_at", sa.Text))
    op.add_column("sessions", sa.Column("sealed_under", sa.BigInteger))
    op.add_column("sessions", sa.Column("erased_in", sa.BigInteger))
    op.create_index(
        "sessions_not_erased", "sessions", ["build", "tenant", "erased_in", "opened_position"]
    )
