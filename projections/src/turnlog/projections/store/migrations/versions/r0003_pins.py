"""What sessions are pinned to: cartridge, memory policy, prompt files, and since which event.

Rows folded before know nothing of it. They keep what they have, and are of a version that every
projector folds anew from the log; until then a pin that is not there is shown as none.

Written out and not taken from the tables of today, so that it stays what it was.
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
