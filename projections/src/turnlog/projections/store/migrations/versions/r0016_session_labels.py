"""The titles and labels that sessions are given.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    for name in ("given_title", "sought_title", "labels"):
        op.add_column("sessions", sa.Column(name, sa.Text))
    op.add_column("sessions", sa.Column("labels_in", sa.BigInteger))
    op.create_table(
        "session_labels",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("set_in", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("sessions_by_label", "session_labels", ["build", "tenant", "label"])
