"""The source of the product as the convention tests read it: modules, definitions and imports."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMBERS = ("events", "projections", "services", "client")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function or method with the place where it is defined."""

    module: str
    qualified_name: str
    node: FunctionNode

    @property
    def place(self) -> str:
        """The name by which an allow-list refers to it."""
        return f"{self.module}:{self.qualified_name}"

    @property
    def length(self) -> int:
        """Lines from the `def` to the end, decorators and comments above not counted."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1

    @property
    def decorators(self) -> frozenset[str]:
        """The last names of the decorators."""
        texts = (ast.unparse(each).partition("(")[0] for each in self.node.decorator_list)
        return frozenset(text.rpartition(".")[2] for text in texts)


@cache
def load_modules() -> Mapping[str, Path]:
    """Return the product's modules by dotted name; migrations are alembic's and left out."""
    modules = dict[str, Path]()
    for member in MEMBERS:
        source = ROOT / member / "src"
        for path in sorted(source.rglob("*.py")):
            if "versions" not in path.parts:
                parts = path.relative_to(source).with_suffix("").parts
                modules[".".join(part for part in parts if part != "__init__")] = path
    return modules


@cache
def parse_module(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(load_modules()[module].read_bytes())


def iterate_functions() -> Iterator[SourceFunction]:
    """Yield the functions and methods of the product; those inside functions are left out."""
    for module in load_modules():
        yield from _walk_functions(module, parse_module(module).body, "")


def _walk_functions(module: str, body: list[ast.stmt], prefix: str) -> Iterator[SourceFunction]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield SourceFunction(module, prefix + node.name, node)
        elif isinstance(node, ast.ClassDef):
            yield from _walk_functions(module, node.body, f"{prefix}{node.name}.")


def iterate_classes() -> Iterator[tuple[str, str]]:
    """Yield module and name of every class, those inside functions included."""
    for module in load_modules():
        for node in ast.walk(parse_module(module)):
            if isinstance(node, ast.ClassDef):
                yield module, node.name


@cache
def load_imports() -> Mapping[str, frozenset[str]]:
    """Return the product's modules that each module imports, late and type-only imports too."""
    modules = load_modules()
    imports = defaultdict[str, set[str]](set)
    for module in modules:
        for node in ast.walk(parse_module(module)):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = (f"{node.module}.{alias.name}" for alias in node.names)
                imports[module] |= {name if name in modules else node.module for name in names}
    return {
        module: frozenset(found & modules.keys() - {module}) for module, found in imports.items()
    }


def load_allowed(rule: str) -> frozenset[str]:
    """Return the exceptions to a rule, each of which has its reason in `allowed.toml`."""
    table = tomllib.loads((Path(__file__).parent / "allowed.toml").read_text())
    return frozenset(place for each in table[rule] for place in each["places"])
