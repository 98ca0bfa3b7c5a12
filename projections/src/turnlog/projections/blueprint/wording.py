"""Messages for pydantic validation errors: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Final, cast, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.strict import ADDRESS, HEADER, NAME, VARIABLE

_QUOTED: Final = re.compile(r"'([^']*)'")
_NAMED: Final = re.compile(r"`([^`]*)`")
_KEY: Final = "[key]"
"""Pydantic's mark in a location for the key itself."""
_KINDS: Final = {
    "bool_type": "write `true` or `false`",
    "dict_type": "write lines of `word: value`",
    "float_type": "write a number, without quotes",
    "int_type": "write a whole number, without quotes",
    "model_type": "write lines of `word: value`",
    "string_type": "write text; put quotes around what looks like a number",
    "tuple_type": "write a list: `[a, b]`",
}

_FORMS: Final = frozenset(
    f"{each}_kind" for each in ("counter", "message", "resolver", "rule", "server")
) | {"layer_source"}
"""Error types of unions whose variants are recognised by a field."""
_UNLIKE: Final = {
    NAME: ("is not a name", "use a-z first, then a-z 0-9 _ -, at most 64 of them"),
    VARIABLE: ("is no variable", "name one of the environment, such as `SHOP_TOKEN`"),
    HEADER: ("is no header", "write its name alone, such as `Authorization`"),
}


def remarks_on(error: ValidationError, kind: object = Blueprint) -> Iterator[Remark]:
    """Yield a finding for every validation error of a document that should be a `kind`."""
    for found in error.errors(include_url=False):
        path = tuple(step for step in found["loc"] if not _is_mark(step))
        what, fix = _worded(found, path, kind)
        yield Remark(path, what, fix)


def _is_mark(step: str | int) -> bool:
    return step == _KEY or (isinstance(step, str) and step.startswith("("))


def _worded(found: ErrorDetails, path: Path, kind: object) -> tuple[str, str]:
    word = str(path[-1]) if path else "blueprint"
    message = found["msg"].removeprefix("Input should ").removeprefix("Value error, ")
    match found["type"]:
        case "extra_forbidden":
            words = words_at(found["loc"][:-1], kind)
            return f"`{word}` means nothing here", instead_of(word, words)
        case "missing":
            return f"`{word}` is missing", f"add `{word}:`"
        case "literal_error":
            known = _QUOTED.findall(found["ctx"]["expected"]) if "ctx" in found else ()
            return f"`{found['input']}` means nothing here", instead_of(str(found["input"]), known)
        case "string_pattern_mismatch" if "ctx" in found:
            return _unlike(found["ctx"]["pattern"], found["input"])
        case plain if plain in _KINDS:
            return f"it must {message}", _KINDS[plain]
        case plain if plain in _FORMS:
            return message, _one_of(_NAMED.findall(message), found["input"])
        case "too_short" | "string_too_short":
            return "it is empty", "write at least one"
        case "value_error":
            return message, "leave it at one"
        case _:
            return f"it must {message[:1].lower()}{message[1:]}", "change the value"


def _unlike(pattern: str, written: object) -> tuple[str, str]:
    """Explain a pattern mismatch; an address is not repeated, because it may contain a secret."""
    if pattern == ADDRESS:
        what = "it is no address that may be written down"
        return what, "write `https://host/path`, without a user, a query or a fragment"
    what, fix = _UNLIKE.get(pattern, ("has a form that it may not have", "change the value"))
    return f"`{written}` {what}", fix


def _one_of(known: list[str], written: object) -> str:
    """Suggest the known word that is nearest to one of the written words."""
    words = map(str, cast("dict[object, object]", written)) if isinstance(written, dict) else ()
    meant = (near for word in words for near in get_close_matches(word, known, n=1))
    return next((f"write `{near}`" for near in meant), f"add one of: {', '.join(known)}")


def words_at(loc: tuple[str | int, ...], kind: object = Blueprint) -> tuple[str, ...]:
    """Return the fields that a document may have at a pydantic location."""
    for step in loc:
        kind = _given(_inside(kind, step))
    return tuple(_fields(kind))


def _fields(kind: object) -> dict[str, FieldInfo]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _given(kind: object) -> object:
    """Return the type without None."""
    forms = get_args(kind)
    return next(form for form in forms if form is not NoneType) if NoneType in forms else kind


def _inside(kind: object, step: str | int) -> object:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = _fields(kind).get(str(step))
        return field and field.annotation
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return _inside(inner[0], step)
    if get_origin(kind) is dict:
        return inner[1]
    if get_origin(kind) is tuple:
        return inner[0]
    tagged = (get_args(form) for form in inner if get_origin(form) is Annotated)
    return next((form for form, *marks in tagged if Tag(str(step)) in marks), None)
