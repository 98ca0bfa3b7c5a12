"""Frames of Amazon's binary event stream, the format of Bedrock's answers.

A frame is its total length, the length of its headers, a checksum of both, the headers, the
payload, and a checksum of everything before. Numbers are big-endian, checksums are CRC-32.
"""

from __future__ import annotations

import json
import struct
from binascii import crc32

_STRING_TYPE = 7


def encode_event_frame(event: str, payload: object) -> bytes:
    """Encode one event with a JSON payload."""
    fields = {":message-type": "event", ":event-type": event, ":content-type": "application/json"}
    headers = b"".join(_encode_header(name, value) for name, value in fields.items())
    body = json.dumps(payload).encode()
    # Three four-byte numbers before the headers and one after the payload.
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    frame = prelude + _encode_checksum(prelude) + headers + body
    return frame + _encode_checksum(frame)


def _encode_header(name: str, value: str) -> bytes:
    named, valued = name.encode(), value.encode()
    return (
        struct.pack("!B", len(named))
        + named
        + struct.pack("!BH", _STRING_TYPE, len(valued))
        + valued
    )


def _encode_checksum(data: bytes) -> bytes:
    return struct.pack("!I", crc32(data))
