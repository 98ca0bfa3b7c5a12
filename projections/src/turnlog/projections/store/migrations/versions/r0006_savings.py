"""What made the prompt of a call shorter, by how much, and the profile the call was made by.

Rows folded before know nothing of it: they are of a version that every projector folds anew.

Written out and not taken from the tables of today, so that it stays what it was.
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
