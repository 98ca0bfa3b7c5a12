"""What the verifiers share: digests, JSON that is refused, and lines.

All of them have this module in them, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeGuard

MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)


class VerificationFailure(Exception):
    """Something differs from the record; the message says what and where."""


def compute_digest(raw: bytes) -> str:
    return f"sha256:{sha256(raw).hexdigest()}"


def parse_object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    except RecursionError:
        raise VerificationFailure(f"{what}: it is nested too deep") from None
    if not is_object(value):
        raise VerificationFailure(f"{what}: it is not a JSON object")
    return value


def encode_canonical(value: object) -> bytes:
    """Encode a value in canonical JSON: keys sorted, no whitespace, UTF-8."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def escape_text(text: str) -> str:
    """Escape everything that could control a terminal or imitate a line of this program."""
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def describe_error(error: Exception) -> str:
    """Describe what a check raised: a failure in words, a missing file or a malformed value."""
    match error:
        case VerificationFailure():
            return str(error)
        case OSError():
            return f"{Path(str(error.filename)).name}: {error.strerror}"
        case KeyError():
            return f"it has no field {error}"
        case RecursionError():
            return "it is nested too deep"
        case _:
            return f"it is malformed: {error!r}"


def run_check(what: str, check: Callable[..., str], *arguments: object) -> bool:
    try:
        print(escape_text(f"  ok    {what}: {check(*arguments)}"))
    except (VerificationFailure, OSError, *MALFORMED) as error:
        print(escape_text(f"FAILED  {what}: {describe_error(error)}"))
        return False
    return True
