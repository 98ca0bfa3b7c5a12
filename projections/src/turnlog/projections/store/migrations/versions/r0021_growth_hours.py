"""Sums over the calls of each hour.

The rows of earlier releases have none; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_SUMS = {
    "call_hours": ((), ("calls", "tokens", "savings")),
    "attempt_hours": (
        (),
        (
            *("input_tokens", "cached_tokens", "micro_dollars"),
            *("priced_attempts", "guessed_attempts", "unpriced_calls"),
        ),
    ),
    "component_hours": (("component",), ("calls", "included", "tokens", "cut_turns")),
    "rule_hours": (("rule",), ("calls", "tokens")),
    "prefix_hours": (("layer",), ("calls", "tokens")),
}


def upgrade() -> None:
    for name, (labels, figures) in _SUMS.items():
        op.create_table(
            name,
            sa.Column("build", sa.BigInteger, nullable=False),
            sa.Column("tenant", sa.Text, nullable=False),
            sa.Column("hour", sa.Text, nullable=False),
            *(sa.Column(each, sa.Text) for each in ("blueprint", "profile", "kind", "model")),
            sa.Column("version", sa.BigInteger),
            *(sa.Column(each, sa.Text, nullable=False) for each in labels),
            *(sa.Column(each, sa.BigInteger, nullable=False) for each in figures),
        )
        op.create_index(f"{name}_by_time", name, ["build", "tenant", "hour"])
    op.create_table(
        "changed_hours",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("hour", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
