"""Names that pages use for code: whether a file of the product defines them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.docs.doc_pages import ROOT

MEMBERS = ("events", "projections", "services", "client")

_CODE = re.compile(r"`([^`]+)`")


def list_product_modules() -> list[Path]:
    """List the modules of all members."""
    return [file for member in MEMBERS for file in (ROOT / member / "src").rglob("*.py")]


@cache
def list_product_names() -> frozenset[str]:
    """List the names that any module of the product defines, without those of their classes."""
    return frozenset(
        name.rpartition(".")[2]
        for module in list_product_modules()
        for name in list_defined_names(module)
    )


def expand_path(path: str) -> Path:
    """Return the file that a page means: below `src/turnlog/` of its member, or below the root."""
    member = "client" if path.startswith("contract/") else path.partition("/")[0]
    inside = ROOT / member / "src/turnlog" / path
    return inside if member in MEMBERS and inside.exists() else ROOT / path


@cache
def list_defined_names(module: Path) -> frozenset[str]:
    """List the names that a module defines at its top level or as `Class.member`."""
    return frozenset(_iterate_names(ast.parse(module.read_bytes()).body))


def _iterate_names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name, body=members):
                yield prefix + name
                yield from _iterate_names(members, f"{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case _:
                pass


def list_code_words(text: str) -> list[str]:
    """List what a text sets between backticks."""
    return _CODE.findall(text)


def list_table_rows(text: str) -> list[list[str]]:
    """List the cells of the rows of all tables of a page, without their heads."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    heads = {line for line, below in pairwise(lines) if below.startswith("|---")}
    cells = [re.split(r"(?<!\\)\|", row.strip("|")) for row in rows if row not in heads]
    return [[cell.strip() for cell in row] for row in cells if not set("".join(row)) <= set("- ")]
