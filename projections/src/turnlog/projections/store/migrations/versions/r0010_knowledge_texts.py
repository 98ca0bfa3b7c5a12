"""The words and vectors of knowledge, in one form for both databases.

They were in tables that depended on the database. The projector builds the index again.

Written out instead of using the current tables, so that it never changes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    _drop_former_index()
    op.execute("DELETE FROM projections WHERE name = 'knowledge'")
    op.execute("DELETE FROM knowledge_entries")
    op.drop_table("knowledge_index")
    op.create_table(
        "knowledge_index",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("setting", sa.Text, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )
    op.drop_table("knowledge_histories")
    op.create_table(
        "knowledge_histories",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("replaced", sa.BigInteger, nullable=False),
        sa.Column("stopped", sa.Text),
    )
    op.create_table(
        "knowledge_texts",
        sa.Column("build", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("collection", sa.Text, nullable=False),
        sa.Column("words", sa.LargeBinary, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_index("knowledge_texts_by_tenant", "knowledge_texts", ["build", "tenant", "number"])


def _drop_former_index() -> None:
    op.execute("DROP TABLE IF EXISTS knowledge_vectors")
    op.execute("DROP TABLE IF EXISTS knowledge_words")
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        # One for each tenant. SQLite drops the tables within them too.
        found = sa.text(
            "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' "
            "AND name LIKE 'knowledge\\_words\\_%' ESCAPE '\\'"
        )
        for name in connection.scalars(found).all():
            op.execute(f'DROP TABLE "{name}"')
