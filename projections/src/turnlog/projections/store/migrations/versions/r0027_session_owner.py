"""The user whose session it is, which lists select by.

The rows of earlier releases do not say it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("owner", sa.Text))
    op.create_index("sessions_by_owner", "sessions", ["build", "tenant", "owner"])
