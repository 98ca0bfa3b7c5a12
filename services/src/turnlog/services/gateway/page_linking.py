"""Links the scripts of the page into one file, and its styles into another.

A browser then asks for two files and not for seventy, and no build stands between a change and the
page. Scripts have two forms only, and tests keep them to these: `import { a, b } from "./c.js";`
and `export` before a declaration that is never assigned again. Styles have `@import "a.css";`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

IMPORT: Final = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)

EXPORT: Final = re.compile(
    r"^export (?=(?:(?:async )?function\*?|const|class) (\w+))", re.MULTILINE
)

STYLE_IMPORT: Final = re.compile(r'^@import "([^"]+)";$', re.MULTILINE)


def link_scripts(scripts: Mapping[str, str], entry: str) -> str:
    """Link a script with all that it imports; each becomes a function, called once, in order."""
    linked: dict[str, str] = {}

    def link(name: str) -> None:
        if name not in linked:
            for found in IMPORT.finditer(scripts[name]):
                link(_resolve(name, found[2]))
            linked[name] = _wrap_script(name, scripts[name])

    link(entry)
    return "const linked = {};\n" + "".join(linked.values())


def _wrap_script(name: str, text: str) -> str:
    def bind(found: re.Match[str]) -> str:
        return f'const {found[1]} = linked["{_resolve(name, found[2])}"];'

    exported = ", ".join(EXPORT.findall(text))
    body = EXPORT.sub("", IMPORT.sub(bind, text))
    return f'linked["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'


def link_styles(styles: Mapping[str, str], entry: str) -> str:
    """Put the styles that a style imports in the places of its imports."""
    return STYLE_IMPORT.sub(lambda found: styles[_resolve(entry, found[1])], styles[entry])


def _resolve(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))
