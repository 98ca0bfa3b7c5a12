"""The event that set a session attribute, because a move may drop an attribute.

Existing rows are rebuilt by the projector, because their version is older.

Written out instead of using the current tables, so that it never changes.
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
