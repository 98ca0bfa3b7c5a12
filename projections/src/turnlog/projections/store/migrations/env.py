"""Entry point of alembic: it receives an open connection and does not manage its transaction."""

from __future__ import annotations

from alembic import context

from turnlog.projections.store.schema.read_model_tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
