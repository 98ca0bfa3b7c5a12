"""How many calls of an hour were cut.

The rows of earlier releases do not say it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    cut = sa.Column("cut_calls", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("call_hours", cut)
