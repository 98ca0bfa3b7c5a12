"""The values of headers that variables of this process give, checked before anything is sent.

A value that no header can have is a fault of the worker's environment. It is found here, since the
HTTP client finds it while it sends, when nobody knows any more whether the tool ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from turnlog.services.worker.tools.tool_server_types import ToolServerFailure

_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")


def find_value_fault(value: str) -> str | None:
    """Return what is wrong with the value of a header, which may be secret, or None."""
    if not value:
        return "is empty"
    if _HEADER_VALUE.fullmatch(value) is None:
        return "has a character, or a blank at an end, that no header can have"
    return None


def read_header_values(
    server: str, variables: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the value of each header, by the variable that has it.

    Raises `ToolServerFailure` `tools_not_started` with the name of a variable that gives none.
    """
    for variable in variables.values():
        fault = "is not set" if variable not in environ else find_value_fault(environ[variable])
        if fault is not None:
            reason = f"{server}: the variable {variable} {fault}; set it for the worker"
            raise ToolServerFailure("tools_not_started", reason, retryable=False)
    return {header: environ[variable] for header, variable in variables.items()}
