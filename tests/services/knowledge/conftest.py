from __future__ import annotations

from tests.projections.store.database_fixtures import database_url, store

__all__ = ["database_url", "store"]
