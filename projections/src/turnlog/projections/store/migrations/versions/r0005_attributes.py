"""By which event a session was given an attribute, since a move may leave one behind.

Rows folded before know nothing of it: they are of a version that every projector folds anew.

Written out and not taken from the tables of today, so that it stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "session_attributes",
        sa.Column("given_in", sa.BigInteger, nullable=False, server_default="1"),
    )
