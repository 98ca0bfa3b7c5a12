from __future__ import annotations

from tests.projections.store.databases import database_url, store

__all__ = ["database_url", "store"]
