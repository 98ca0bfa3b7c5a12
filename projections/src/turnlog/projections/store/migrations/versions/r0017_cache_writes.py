"""The tokens that a provider put into its cache, beside those that came from it.

The rows of earlier releases have none of it; their version makes the projector build them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("cache_write_tokens", sa.BigInteger))
