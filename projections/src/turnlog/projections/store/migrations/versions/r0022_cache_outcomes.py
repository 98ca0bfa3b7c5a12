"""The terms by which providers cache prompts, and sums of what was lost by the hour.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_FIGURES = (
    *("calls", "tokens", "micro_dollars"),
    *("priced_attempts", "guessed_attempts", "unpriced_calls"),
)


def upgrade() -> None:
    for name in ("cache_minimum", "cache_step", "cache_spared"):
        op.add_column("attempts", sa.Column(name, sa.BigInteger))
    op.add_column("attempts", sa.Column("cached_until", sa.Text))
    op.create_table(
        "cache_hours",
        sa.Column("build", sa.BigInteger, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("hour", sa.Text, nullable=False),
        *(sa.Column(each, sa.Text) for each in ("blueprint", "profile", "kind", "model")),
        sa.Column("version", sa.BigInteger),
        *(sa.Column(each, sa.Text, nullable=False) for each in ("outcome", "cause")),
        *(sa.Column(each, sa.BigInteger, nullable=False) for each in _FIGURES),
    )
    op.create_index("cache_hours_by_time", "cache_hours", ["build", "tenant", "hour"])
