"""Which calls a fork copied, so that a sum over sessions counts each once.

The rows of earlier releases do not say it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column(
        "calls", sa.Column("copied", sa.Boolean, nullable=False, server_default=sa.false())
    )
