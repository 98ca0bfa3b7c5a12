from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeGuard, get_type_hints

CommandFunction = Callable[..., None]


def expand_option_groups(function: CommandFunction) -> CommandFunction:
    """Return the command with a signature in which every option is its own parameter."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_option_group(hint)}

    @wraps(function)
    def command(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    parameters = signature(function).parameters.values()
    taken = [each for parameter in parameters for each in _expand_parameter(parameter, hints)]
    vars(command)["__signature__"] = Signature(taken)
    command.__annotations__ = {each.name: each.annotation for each in taken}
    return command


def _expand_parameter(parameter: Parameter, hints: dict[str, Any]) -> Iterator[Parameter]:
    hint = hints[parameter.name]
    if not _is_option_group(hint):
        yield _create_keyword(parameter.name, hint, parameter.default)
        return
    of_fields = get_type_hints(hint, include_extras=True)
    for each in fields(hint):
        default = Parameter.empty if each.default is MISSING else each.default
        yield _create_keyword(each.name, of_fields[each.name], default)


def _is_option_group(hint: object) -> TypeGuard[type[Any]]:
    return isinstance(hint, type) and is_dataclass(hint)


def _create_keyword(name: str, hint: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
