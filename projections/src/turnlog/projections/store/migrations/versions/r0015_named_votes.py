"""Votes by their events, and votes on single entries of what a turn retrieved.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    for name in ("sequence", "position"):
        op.add_column("turn_votes", sa.Column(name, sa.BigInteger))
    for name in ("vote", "vote_sequence", "vote_position"):
        op.add_column("retrieved_entries", sa.Column(name, sa.BigInteger))
