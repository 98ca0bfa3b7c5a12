"""The tables of library segments.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "libraries",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("stopped", sa.Text),
    )
    op.create_table(
        "segments",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("variant", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("ref", sa.Text),
        sa.Column("locale", sa.Text),
        sa.Column("content", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("tier", sa.BigInteger, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("priority", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("edited_at", sa.Text, nullable=False),
        sa.Column("edited_by", sa.Text, nullable=False),
        sa.Column("sought", sa.Text, nullable=False),
    )
    op.create_index("segments_by_place", "segments", ["build", "tenant", "scope", "ref"])
