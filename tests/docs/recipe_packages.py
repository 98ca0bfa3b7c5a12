"""The recipes of the docs, and the packages that they show, as an installer leaves them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.doc_pages import ROOT, list_blocks

PAGE = ROOT / "docs/recipes.md"

_SECTION = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

RECIPES: dict[str, str] = dict(_SECTION.findall(PAGE.read_text()))
"""Text by title."""

PLUGIN_METADATA = "Metadata-Version: 2.1\nName: recipe\nVersion: 1.0\n"


def write_recipe_package(title: str, folder: Path) -> Path:
    """Write the package of a recipe, and return the folder for the path of Python."""
    text = RECIPES[title]
    (module,) = [
        each.code for each in list_blocks(PAGE) if each.code in text and "def " in each.code
    ]
    group, entry = re.findall(r'entry-points\."(.*?)"\]\n(.*?)\n', text)[0]
    facts = folder / "recipe-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / re.findall(r'"""(\w+\.py)"""', module)[0]).write_text(module)
    (facts / "METADATA").write_text(PLUGIN_METADATA)
    (facts / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    return folder
