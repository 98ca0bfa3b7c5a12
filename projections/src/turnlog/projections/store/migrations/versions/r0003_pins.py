"""What sessions are pinned to: cartridge, memory policy, prompt files, and since which event.

Existing rows lack these values until the projector rebuilds them, because their version is older.
Until then a missing pin is shown as None.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column(
        "sessions", sa.Column("blueprint_in", sa.BigInteger, nullable=False, server_default="1")
    )
    op.add_column("sessions", sa.Column("cartridge", sa.Text))
    op.add_column("sessions", sa.Column("memory", sa.Text))
    op.create_index("sessions_by_blueprint", "sessions", ["build", "tenant", "blueprint"])
    op.create_table(
        "prompts",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("layer", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("pinned_in", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
