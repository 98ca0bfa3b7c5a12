"""What shortened the prompt of a call and by how much, and the profile of the call.

Existing rows are rebuilt by the projector, because their version is older.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("calls", sa.Column("profile", sa.Text))
    op.add_column("calls", sa.Column("optimizations", sa.Text, nullable=False, server_default="{}"))
    op.add_column("calls", sa.Column("savings", sa.BigInteger, nullable=False, server_default="0"))
