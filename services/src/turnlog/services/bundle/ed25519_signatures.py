"""Ed25519 as in RFC 8032, section 5.1: curve points in extended coordinates.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

from hashlib import sha512

Point = tuple[int, int, int, int]
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, PRIME) % PRIME


def add_points(one: Point, two: Point) -> Point:
    a = (one[1] - one[0]) * (two[1] - two[0])
    b = (one[1] + one[0]) * (two[1] + two[0])
    c, d = 2 * one[3] * two[3] * CURVE, 2 * one[2] * two[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def scale_point(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        total = add_points(total, point) if scalar & 1 else total
        point, scalar = add_points(point, point), scalar >> 1
    return total


def decode_point(raw: bytes) -> Point | None:
    """Decode a point; None where the bytes are not its canonical encoding."""
    sign, y = divmod(int.from_bytes(raw, "little"), 1 << 255)
    square = (y * y - 1) * pow(CURVE * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if y >= PRIME or (x * x - square) % PRIME or (x == 0 and sign):
        return None
    x = x if x & 1 == sign else PRIME - x
    return x, y, 1, x * y % PRIME


def is_signed(message: bytes, signature: bytes, key: bytes) -> bool:
    """Return whether the key signed exactly these bytes."""
    base = decode_point((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))
    commitment, signer = decode_point(signature[:32]), decode_point(key)
    scalar = int.from_bytes(signature[32:], "little")
    is_formed = (len(key), len(signature)) == (32, 64) and scalar < ORDER
    if not is_formed or base is None or commitment is None or signer is None:
        return False
    challenge = int.from_bytes(sha512(signature[:32] + key + message).digest(), "little") % ORDER
    left, right = scale_point(scalar, base), add_points(commitment, scale_point(challenge, signer))
    return not any((left[axis] * right[2] - right[axis] * left[2]) % PRIME for axis in (0, 1))
