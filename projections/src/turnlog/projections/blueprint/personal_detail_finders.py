"""Finds personal data in texts: payment cards, IBANs, e-mail addresses and telephone numbers.

Cards and IBANs are found by their check digits and not by their look, so that dates and order
numbers are passed over. Each function takes time that grows with the length of the text, whatever
is in it. What is found and what is not is listed in `docs/personal-data.md`, which a test runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text."""

    begin: int
    end: int


_DIGITS: Final = re.compile(r"\d+")
_GAP: Final = re.compile(r"[ \u00a0\u202f-]{1,2}")
_CARD_LENGTHS: Final = range(13, 20)
_CARD_BEGINNINGS: Final = "23456"
_MIN_CARD_GROUP: Final = 3
"""Digits of a group of a card number; dates have groups of two."""


def find_cards(text: str) -> tuple[TextSpan, ...]:
    """Return the card numbers: 13 to 19 digits with a valid check digit, in groups or not."""
    return tuple(
        span for run in _iterate_digit_runs(text) for span in _find_cards_in_run(text, run)
    )


def _iterate_digit_runs(text: str) -> Iterator[Sequence[TextSpan]]:
    """Yield groups of digits that have one or two blanks or hyphens between them."""
    run: list[TextSpan] = []
    for found in _DIGITS.finditer(text):
        group = TextSpan(*found.span())
        if run and not _GAP.fullmatch(text, run[-1].end, group.begin):
            yield run
            run = []
        run.append(group)
    yield run


def _find_cards_in_run(text: str, run: Sequence[TextSpan]) -> Iterator[TextSpan]:
    first = 0
    while first < len(run):
        last = _find_card_end(text, run, first)
        if last is None:
            first += 1
            continue
        yield TextSpan(run[first].begin, run[last].end)
        first = last + 1


def _find_card_end(text: str, run: Sequence[TextSpan], first: int) -> int | None:
    """Return the last group of the card that begins with a group; the longest one counts."""
    if _is_beside_letter(text, run[first].begin - 1):
        return None
    digits, found = "", None
    for place in range(first, len(run)):
        group = run[place]
        size = group.end - group.begin
        if size < _MIN_CARD_GROUP or len(digits) + size not in range(_CARD_LENGTHS.stop):
            break
        digits += text[group.begin : group.end]
        if _is_card(digits) and not _is_beside_letter(text, group.end):
            found = place
    return found


def _is_beside_letter(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalpha() or text[place] == "_")


def _is_card(digits: str) -> bool:
    values = [int(digit) for digit in digits]
    return (
        len(values) in _CARD_LENGTHS
        and str(values[0]) in _CARD_BEGINNINGS
        and len(set(values)) > 1
        and _has_valid_luhn_digit(values)
    )


def _has_valid_luhn_digit(values: Sequence[int]) -> bool:
    doubled = (sum(divmod(2 * value, 10)) for value in values[-2::-2])
    return (sum(values[-1::-2]) + sum(doubled)) % 10 == 0


_IBAN_START: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")

_IBAN_LENGTHS: Final[Mapping[str, int]] = {
    country: int(length)
    for country, length in re.findall(
        "([A-Z]{2})([0-9]{2})",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27"
        " DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21"
        " HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24"
        " ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33"
        " SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
        " YE30",
    )
}
"""Characters of an IBAN by country, as in the registry of SWIFT."""

_MAX_IBAN_GAP: Final = 2


def find_ibans(text: str) -> tuple[TextSpan, ...]:
    """Return the IBANs: of the length of their country, with valid check digits."""
    found: list[TextSpan] = []
    for start in _IBAN_START.finditer(text):
        if found and start.start() < found[-1].end:
            continue
        if (end := _find_iban_end(text, start.start())) is not None:
            found.append(TextSpan(start.start(), end))
    return tuple(found)


def _find_iban_end(text: str, begin: int) -> int | None:
    length = _IBAN_LENGTHS.get(text[begin : begin + 2].upper())
    written, place, gap = "", begin, 0
    while length is not None and len(written) < length and place < len(text):
        letter = text[place]
        if letter.isascii() and letter.isalnum():
            written, gap = written + letter, 0
        elif letter in " \u00a0-" and gap < _MAX_IBAN_GAP:
            gap += 1
        else:
            return None
        place += 1
    if length is None or len(written) < length or text[place : place + 1].isalnum():
        return None
    moved = written[4:] + written[:4]
    number = int("".join(str(int(letter, 36)) for letter in moved))
    return place if number % 97 == 1 else None


_EMAIL: Final = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])"
)


def find_emails(text: str) -> tuple[TextSpan, ...]:
    """Return the e-mail addresses."""
    return tuple(TextSpan(*found.span()) for found in _EMAIL.finditer(text))


_PHONE: Final = re.compile(
    r"(?<![\w+.,/:-])(?<!\d[ \u00a0])(?:"
    r"(?:\+|00)[1-9](?:[ \u00a0./()-]{0,2}\d){7,13}"  # From abroad
    r"|\(?0[1-9]\d{0,4}\)?(?:[ \u00a0/-]{0,2}\d){5,10}"  # With the prefix of a long-distance call
    r"|\(?[2-9]\d{2}\)?[ .-]{1,2}[2-9]\d{2}[ .-]\d{4}"  # North America
    r")(?![\w:])"
)
_DATE: Final = re.compile(r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}")
_PHONE_LENGTHS: Final = range(8, 16)
_MIN_NATIONAL_LENGTH: Final = 9


def find_phones(text: str) -> tuple[TextSpan, ...]:
    """Return the telephone numbers that are written with a prefix."""
    return tuple(
        TextSpan(*found.span()) for found in _PHONE.finditer(text) if _is_phone(found.group())
    )


def _is_phone(written: str) -> bool:
    digits = sum(letter.isdecimal() for letter in written)
    if digits not in _PHONE_LENGTHS or _DATE.match(written):
        return False
    return not written.lstrip("(").startswith("0") or digits >= _MIN_NATIONAL_LENGTH
