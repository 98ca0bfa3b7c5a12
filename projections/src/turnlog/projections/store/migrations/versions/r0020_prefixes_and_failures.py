"""Where a prompt stops being that of the call before it, and why a turn failed.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("calls", sa.Column("prefix_call", sa.Text))
    op.add_column("calls", sa.Column("prefix_tokens", sa.BigInteger))
    op.add_column("calls", sa.Column("prefix_ended_by", sa.Text))
    op.add_column("turns", sa.Column("failure", sa.Text))
