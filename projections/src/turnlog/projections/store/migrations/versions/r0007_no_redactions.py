"""No table of redactions: nothing read it. A turn's row says that it is redacted, the log says why.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.drop_table("redactions")
