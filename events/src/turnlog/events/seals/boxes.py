"""Boxes: bytes that are encrypted and bound to their place, with AES-256-GCM.

The nonce follows from the key, the place and what is encrypted, so that the same words at the same
place give the same bytes, and a retry needs no chance. Two boxes have one nonce only if they are
the same box.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12

_STORED: Final = b"\x00"

_PACKED: Final = b"\x01"

LEAST_PACKED_BYTES: Final = 200
"""What is shorter does not become smaller by packing it."""

SMALL_WINDOW: Final = 12
"""Bits of the window for what is at most 4 kB, as most boxes are."""

SMALL_MEMORY: Final = 5
"""Memory of the packer, from 1 to 9; the usual 8 packs texts of turns no better."""

MAX_OPENED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that a box opens to."""


class BoxAltered(Exception):
    """The box is not what was sealed under this key at this place."""


def seal_box(key: bytes, place: bytes, data: bytes) -> bytes:
    """Return data packed and encrypted; only the same key and place open it."""
    packed = _pack(data) if len(data) >= LEAST_PACKED_BYTES else data
    body = _PACKED + packed if len(packed) < len(data) else _STORED + data
    return _encrypt_body(key, place, body)


def seal_unpacked(key: bytes, place: bytes, data: bytes) -> bytes:
    """Return data encrypted alone, such as those of pictures, which are packed already."""
    return _encrypt_body(key, place, _STORED + data)


def _encrypt_body(key: bytes, place: bytes, body: bytes) -> bytes:
    message = len(place).to_bytes(4) + place + body
    nonce = blake2b(message, digest_size=NONCE_BYTES, key=key, person=b"turnlog nonce").digest()
    return nonce + AESGCM(key).encrypt(nonce, body, place)


def _pack(data: bytes) -> bytes:
    # The tables of the usual window are 256 kB, and to map these anew for each box takes longer
    # than to pack it.
    window = zlib.MAX_WBITS if len(data) > 1 << SMALL_WINDOW else SMALL_WINDOW
    packer = zlib.compressobj(wbits=window, memLevel=SMALL_MEMORY)
    return packer.compress(data) + packer.flush()


def open_box(key: bytes, place: bytes, box: bytes) -> bytes:
    """Return what was sealed; raises `BoxAltered`."""
    try:
        body = AESGCM(key).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], place)
    except (InvalidTag, ValueError) as error:
        raise BoxAltered from error
    if body[:1] != _PACKED:
        return body[1:]
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body[1:], MAX_OPENED_BYTES)
    except zlib.error as error:
        raise BoxAltered from error
    if not unpacker.eof:
        raise BoxAltered
    return data
