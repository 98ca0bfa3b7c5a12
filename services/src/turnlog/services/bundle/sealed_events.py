"""Opens the box of a sealed event, by the key that a bundle or a proof has for it.

What there is no key for is what an erasure removed: a sealed event names its keys, and an erasure
those that it removed. Neither is sealed.

AES-256 in Galois/Counter mode (FIPS 197, NIST SP 800-38D), written out because the standard library
has none. It is slow, and nothing secret depends on its timing: the key lies beside the box.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from turnlog.services.bundle.check_lines import VerificationFailure, is_list, is_object

MAX_OPENED = 64 * 1024 * 1024  # Bytes that a box may be unpacked to
KEY_BYTES, LEAST_BOX = 32, 28  # A nonce of 12 bytes and a tag of 16 are in every box
KEY_WORDS, HALF_KEY = 8, 4
USER_ACTOR = "user:"  # Before the name of a person
ERASURE_TYPE = "turnlog.erasure-begun.v1"
SOURCE_ERASURE_TYPE = "turnlog.source-erasure-begun.v1"
TEXT_FIELDS = {"text", "reply", "replacement", "summary", "cut_reply", "display", "comment"}
LEAF_RUN = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
PSEUDONYM_FORM = re.compile("~[A-Za-z0-9_-]{22}")
NO_TEXT = {"erased": True}  # Stands where a text was, of which only the length is left

GALOIS_MODULUS = 0xE1 << 120  # The polynomial of GCM, bits reflected


def build_substitution_box() -> bytes:
    """Return the substitution table of AES, from its definition."""
    box, p, q = bytearray(256), 1, 1
    while True:
        p = p ^ (p << 1 & 0xFF) ^ (0x1B if p & 0x80 else 0)
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotated = (q << turn | q >> 8 - turn for turn in range(1, 5))
        value = q ^ 0x63
        for each in rotated:
            value ^= each & 0xFF
        box[p] = value
        if p == 1:
            break
    box[0] = 0x63
    return bytes(box)


SUBSTITUTION = build_substitution_box()
DOUBLED = bytes((each << 1 & 0xFF) ^ (0x1B if each & 0x80 else 0) for each in range(256))


def expand_key(key: bytes) -> list[list[int]]:
    """Return the 15 round keys of an AES-256 key, of four words each."""
    words = [key[at : at + 4] for at in range(0, 32, 4)]
    constant = 1
    for number in range(8, 60):
        word = words[-1]
        if number % KEY_WORDS == 0:
            word = bytes(SUBSTITUTION[each] for each in word[1:] + word[:1])
            word = bytes((word[0] ^ constant,)) + word[1:]
            constant = DOUBLED[constant]
        elif number % KEY_WORDS == HALF_KEY:
            word = bytes(SUBSTITUTION[each] for each in word)
        words.append(bytes(a ^ b for a, b in zip(words[-8], word, strict=True)))
    numbers = [int.from_bytes(word, "big") for word in words]
    return [numbers[at : at + 4] for at in range(0, 60, 4)]


def build_round_tables() -> list[list[int]]:
    """Return what a round makes of each byte of a column, as words of 32 bits."""
    first = [
        DOUBLED[each] << 24 | each << 16 | each << 8 | (each ^ DOUBLED[each])
        for each in SUBSTITUTION
    ]
    return [
        [word >> 8 * row | word << 32 - 8 * row & 0xFFFFFFFF for word in first] for row in range(4)
    ]


ROUND_TABLES = build_round_tables()


def encrypt_block(round_keys: list[list[int]], block: bytes) -> bytes:
    """Encrypt 16 bytes."""
    first, second, third, fourth = ROUND_TABLES
    a, b, c, d = (
        int.from_bytes(block[at : at + 4], "big") ^ word
        for at, word in zip((0, 4, 8, 12), round_keys[0], strict=True)
    )
    for keys in round_keys[1:-1]:
        a, b, c, d = (
            first[w >> 24] ^ second[x >> 16 & 255] ^ third[y >> 8 & 255] ^ fourth[z & 255] ^ key
            for (w, x, y, z), key in zip(
                ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c)), keys, strict=True
            )
        )
    box = SUBSTITUTION
    words = [
        (box[w >> 24] << 24 | box[x >> 16 & 255] << 16 | box[y >> 8 & 255] << 8 | box[z & 255])
        ^ key
        for (w, x, y, z), key in zip(
            ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c)), round_keys[-1], strict=True
        )
    ]
    return b"".join(word.to_bytes(4, "big") for word in words)


def build_product_tables(subkey: int) -> list[list[int]]:
    """Return the products of a subkey and each byte at each place of a block, the last first."""
    powers = list[int]()
    for _ in range(128):
        powers.append(subkey)
        subkey = subkey >> 1 ^ (GALOIS_MODULUS if subkey & 1 else 0)
    tables = list[list[int]]()
    for at in range(15, -1, -1):
        table = [0] * 256
        for bit in range(8):
            power = powers[8 * at + 7 - bit]
            for low in range(1 << bit):
                table[1 << bit | low] = table[low] ^ power
        tables.append(table)
    return tables


def hash_blocks(subkey: int, blocks: Iterator[bytes]) -> int:
    """Return the hash of blocks in the field of GCM."""
    tables, hashed = build_product_tables(subkey), 0
    for block in blocks:
        mixed = hashed ^ int.from_bytes(block, "big")
        hashed = 0
        for table in tables:
            hashed ^= table[mixed & 255]
            mixed >>= 8
    return hashed


def iterate_blocks(data: bytes) -> Iterator[bytes]:
    """Yield blocks of 16 bytes, the last one filled up with zeros."""
    for at in range(0, len(data), 16):
        yield data[at : at + 16].ljust(16, b"\0")


def decrypt_box(key: bytes, place: bytes, box: bytes) -> bytes:
    """Return what a box has; raise where key, place or box is another one."""
    nonce, body, tag = box[:12], box[12:-16], box[-16:]
    if len(key) != KEY_BYTES or len(box) < LEAST_BOX:
        raise VerificationFailure("its box, or the key of it, is cut short")
    round_keys = expand_key(key)
    subkey = int.from_bytes(encrypt_block(round_keys, bytes(16)), "big")
    lengths = (len(place) * 8).to_bytes(8, "big") + (len(body) * 8).to_bytes(8, "big")
    blocks = chain(iterate_blocks(place), iterate_blocks(body), (lengths,))
    hashed = hash_blocks(subkey, blocks)
    mask = int.from_bytes(encrypt_block(round_keys, nonce + b"\0\0\0\1"), "big")
    if (hashed ^ mask).to_bytes(16, "big") != tag:
        raise VerificationFailure("its box was altered, or is that of another key")
    stream = b"".join(
        encrypt_block(round_keys, nonce + (number + 2).to_bytes(4, "big"))
        for number in range((len(body) + 15) // 16)
    )
    return bytes(a ^ b for a, b in zip(body, stream, strict=False))


def open_event(event: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return an event with its words in their places; raise where it has another key, or none."""
    if "sealed" not in event:
        return event
    if key is None:
        raise VerificationFailure("it is sealed, and there is no key for it")
    parts = (event["tenant"], event["sequence"], event["type"], event["sealedof"])
    place = "event {} {} {} {}".format(*parts).encode()
    body = decrypt_box(bytes.fromhex(key), place, b64decode(event["sealed"]))
    data = body[1:]
    if body[:1] == b"\1":
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(data, MAX_OPENED)
        if not unpacker.eof:
            raise VerificationFailure("its box holds too much")
    content = json.loads(data)
    named = restore_names(event, content.get("names", {}))
    return {**named, "data": merge_words(named["data"], content.get("words", {}))}


def restore_names(event: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an event with names in the places of their pseudonyms; raise for one of nobody's."""
    found = set[str]()

    def restore(value: Any) -> Any:  # noqa: ANN401 - any value of an event
        if is_list(value):
            return [restore(each) for each in value]
        if is_object(value):
            return {name: restore(each) for name, each in value.items()}
        if value in names and PSEUDONYM_FORM.fullmatch(value):
            found.add(value)
            return names[value]
        return value

    if not names:
        return event
    actor = event["actor"]
    if actor.startswith(USER_ACTOR):
        actor = USER_ACTOR + restore(actor.removeprefix(USER_ACTOR))
    named = {**event, "actor": actor, "data": restore(event["data"])}
    if found != set(names):
        raise VerificationFailure("its box has a name of somebody else than stands beside it")
    return named


def merge_words(data: object, words: object) -> object:
    """Return the data of an event with its words; those of a list are an object by index."""
    if is_list(data) and is_object(words):
        return [merge_words(each, words.get(str(at), each)) for at, each in enumerate(data)]
    if is_object(data) and is_object(words):
        return {**data, **{name: merge_words(data.get(name), words[name]) for name in words}}
    return words


def clear_words(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of an erased event, with a mark where a text was."""
    return {
        name: NO_TEXT if name in TEXT_FIELDS and isinstance(value, int) else value
        for name, value in data.items()
    }


def check_erased_events(
    erased: Mapping[int, str], events: Iterable[Mapping[str, Any]], gone: Iterable[str]
) -> None:
    """Raise at the first event without a key that no erasure of the session or the library names.

    `erased` and `gone` are names of keys: of these events, and of what was removed in the library.
    """
    erasures = [*gone, *list_erasures(events)]
    for place, name in erased.items():
        if not any(has_common_key(name, each) for each in erasures):
            raise VerificationFailure(
                f"event {place}: it is sealed, and there is no key for it and no erasure of it"
            )


def list_erasures(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the keys that erasures of a session removed."""
    return [str(each["data"]["leaves"]) for each in events if each["type"] == ERASURE_TYPE]


def list_source_erasures(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the keys that erasures in the library removed, by its stored events."""
    events = [json.loads(line) for line in manifest.get("source_erasures", [])]
    known = (SOURCE_ERASURE_TYPE, manifest["tenant"])
    if any((each["type"], each["tenant"]) != known for each in events):
        raise VerificationFailure("an erasure in the library: it is another event")
    return [str(each["data"]["leaves"]) for each in events]


def has_common_key(one: str, other: str) -> bool:
    """Return whether two names of keys have one in common."""
    return any(
        session == elsewhere and max(first, start) <= min(last, end)
        for session, first, last in iterate_runs(one)
        for elsewhere, start, end in iterate_runs(other)
    )


def iterate_runs(name: str) -> Iterator[tuple[str, int, int]]:
    """Yield session, first and last key of each run in a name such as `s:4,7-9`."""
    for each in name.split(";"):
        session, _, runs = each.partition(":")
        for run in runs.split(","):
            found = LEAF_RUN.fullmatch(run)
            if found:
                yield session, int(found[1]), int(found[2] or found[1])
