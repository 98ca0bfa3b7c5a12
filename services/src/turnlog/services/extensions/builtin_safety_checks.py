"""Safety checks that find personal data: `cards`, `ibans`, `emails` and `phones`.

They need no value of the cartridge (`with`). A reason names the kind and never quotes what was
found, since readers see it.
"""

from __future__ import annotations

from pydantic import JsonValue

from turnlog.projections.blueprint.personal_detail_finders import (
    find_cards,
    find_emails,
    find_ibans,
    find_phones,
)


def check_cards(text: str, _value: JsonValue = None) -> str | None:
    """Return that a text has a card number, or None."""
    return "it has a card number" if find_cards(text) else None


def check_ibans(text: str, _value: JsonValue = None) -> str | None:
    """Return that a text has an IBAN, or None."""
    return "it has an IBAN" if find_ibans(text) else None


def check_emails(text: str, _value: JsonValue = None) -> str | None:
    """Return that a text has an e-mail address, or None."""
    return "it has an e-mail address" if find_emails(text) else None


def check_phones(text: str, _value: JsonValue = None) -> str | None:
    """Return that a text has a telephone number, or None."""
    return "it has a telephone number" if find_phones(text) else None
