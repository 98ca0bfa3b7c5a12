"""Turns by status and time, for the overview."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    columns = ["build", "tenant", "status", "submitted_at", "counted"]
    op.create_index("turns_by_status", "turns", columns)
