"""Storing the texts of a command, before the events that name them by their digests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from turnlog.events.store.ports import BlobStore

TEXT_WRITE_BATCH: Final = 64
"""Texts stored concurrently."""


async def store_texts(blobs: BlobStore, tenant: str, texts: Iterable[str]) -> None:
    """Store each distinct text; a large import is stored in batches."""
    distinct = tuple(dict.fromkeys(texts))
    for start in range(0, len(distinct), TEXT_WRITE_BATCH):
        batch = distinct[start : start + TEXT_WRITE_BATCH]
        await asyncio.gather(*(blobs.put_blob(tenant, text.encode()) for text in batch))
