"""Seals of media: what names the chunks of an item, encrypts them, and opens them again.

The keys of an item follow from its digest too, beside those of a turn or, before there is a turn,
of the tenant. So a copy whose digest no event has, such as that of a command that came too late
for its number, can be read by nobody.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from turnlog.events.content import KEYED_DIGEST, Digest
from turnlog.events.seals.boxes import BoxAltered, open_box, seal_unpacked
from turnlog.events.seals.key_tree import KEY_BYTES, LEAF_COUNT
from turnlog.events.seals.leaf_sets import SEALED_TEXT, UPLOADS_ID, LeafSets
from turnlog.events.subjects import SEALED_NAME

UPLOADS_LEAVES: Final[LeafSets] = {UPLOADS_ID: frozenset({LEAF_COUNT - 1})}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSeal:
    """Seals the chunks of one media item; see `MediaSealer`."""

    leaves: str
    """The name of the leaves that its keys follow from."""
    box_key: bytes = field(repr=False)
    digest_key: bytes = field(repr=False)

    def compute_digest(self, chunk: bytes) -> Digest:
        """See `MediaSealer.compute_digest`."""
        return f"{KEYED_DIGEST}{hmac.digest(self.digest_key, chunk, 'sha256').hex()}"

    def seal_chunk(self, tenant: str, name: Digest, chunk: bytes) -> bytes:
        """See `MediaSealer.seal_chunk`."""
        start = b"turnlog-sealed 1 %b\n" % self.leaves.encode()
        return start + seal_unpacked(self.box_key, build_text_place(tenant, name), chunk)

    def open_chunk(self, tenant: str, name: Digest, stored: bytes) -> bytes | None:
        """See `MediaSealer.open_chunk`."""
        start = SEALED_TEXT.match(stored)
        if start is None:
            return None
        try:
            return open_box(self.box_key, build_text_place(tenant, name), stored[start.end() :])
        except BoxAltered:
            return None


def build_text_place(tenant: str, name: str) -> bytes:
    """Return what the box of a text, or of a chunk, is bound to: the name it is stored under."""
    return f"text {tenant} {name}".encode()


def derive_media_seal(leaves: str, key: bytes, digest: Digest) -> MediaSeal:
    """Return the seal of an item, which follows from a key and from the item's digest."""
    keys = blake2b(digest.encode(), digest_size=2 * KEY_BYTES, key=key).digest()
    return MediaSeal(leaves=leaves, box_key=keys[:KEY_BYTES], digest_key=keys[KEY_BYTES:])


def name_upload(seal: MediaSeal, digest: Digest) -> str:
    """Return the name that an upload is stored under, for the digest of its bytes.

    It follows from a key: who has the same bytes cannot tell that they were uploaded.
    """
    return f"{SEALED_NAME}{hmac.digest(seal.digest_key, digest.encode(), 'sha256').hex()}"
