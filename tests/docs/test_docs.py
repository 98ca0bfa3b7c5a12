"""The pages are true: their code runs with the stated output, and their links exist."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr

from tests.docs.doc_pages import (
    OUTPUT_LANGUAGES,
    READING_LANGUAGES,
    ROOT,
    RUN_LANGUAGES,
    SEPARATE_PAGES,
    compile_output_pattern,
    format_page_name,
    list_blocks,
    list_links,
    list_pages,
)
from tests.docs.doc_shell import SEPARATOR, DocShell, run_service
from turnlog.projections.blueprint.schema.call_specs import ALLOWED_MODEL_PARAMETERS
from turnlog.services.cli.environment import PROCESSES, format_variable

BLUEPRINTS = ROOT / "docs/blueprints.md"

NODE = shutil.which("node")

RUNNING = ROOT / "docs/running.md"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocShell]:
    reader = DocShell(tmp_path_factory.mktemp("reader"))
    with run_service(reader, ["turnlog", "up"]) as shell:
        yield shell


def find_pages_with(language: str) -> list[Path]:
    return [
        page
        for page in list_pages()
        if page not in SEPARATE_PAGES
        and any(each.language == language for each in list_blocks(page))
    ]


def list_code(page: Path, language: str) -> list[str]:
    return [block.code for block in list_blocks(page) if block.language == language]


def compare_output(page: Path, language: str, printed: list[str]) -> None:
    """Compare the output with the page's, ignoring blanks at line ends."""
    mine = [block for block in list_blocks(page) if block.language == language]
    for block, output in zip(mine, printed, strict=True):
        if block.printed is not None:
            says = compile_output_pattern(block.printed)
            seen = re.sub(" +$", "", output, flags=re.MULTILINE).strip()
            assert says.fullmatch(seen), f"{format_page_name(page)}:{block.line} printed\n{output}"


@pytest.mark.slow("the code of a page runs")
@pytest.mark.parametrize("page", find_pages_with("python"), ids=format_page_name)
def test_python_on_a_page_prints_the_documented_output(page: Path, tmp_path: Path) -> None:
    program = f'\nprint({SEPARATOR!r}, end="")\n'.join(list_code(page, "python"))
    compare_output(page, "python", DocShell(tmp_path).run_program(program, sys.executable, "-"))


@pytest.mark.slow("the code of a page runs")
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash, curl")
@pytest.mark.parametrize("page", find_pages_with("sh"), ids=format_page_name)
def test_commands_on_a_page_print_the_documented_output(page: Path, shell: DocShell) -> None:
    compare_output(page, "sh", shell.run_blocks(list_code(page, "sh")))


@pytest.mark.slow("the code of a page runs")
@pytest.mark.skipif(NODE is None, reason="no `node` on PATH")
@pytest.mark.parametrize("page", find_pages_with("js"), ids=format_page_name)
def test_javascript_on_a_page_prints_the_documented_output(page: Path, shell: DocShell) -> None:
    assert NODE
    mark = f"\nprocess.stdout.write({json.dumps(SEPARATOR)});\n"
    program = mark.join(list_code(page, "js"))
    compare_output(page, "js", shell.run_program(program, NODE, "--input-type=module", "-"))


@pytest.mark.parametrize("page", list_pages(), ids=format_page_name)
def test_every_code_block_is_run_or_is_marked_for_reading(page: Path) -> None:
    for block in list_blocks(page):
        assert block.language in RUN_LANGUAGES | READING_LANGUAGES, (
            f"{format_page_name(page)}:{block.line} is {block.language!r}"
        )
        assert block.language not in OUTPUT_LANGUAGES


@pytest.mark.parametrize("page", list_pages(), ids=format_page_name)
def test_every_link_leads_to_an_existing_page(page: Path) -> None:
    assert [link for link in list_links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", list_pages(), ids=format_page_name)
def test_every_page_is_reachable_from_the_readme(page: Path) -> None:
    assert page in find_linked_pages(list_pages()[0])


@cache
def find_linked_pages(start: Path) -> set[Path]:
    found, new = {start}, {start}
    while new:
        linked = {(page.parent / link).resolve() for page in new for link in list_links(page)}
        new = {page for page in linked if page.suffix == ".md" and page.exists()} - found
        found |= new
    return found


def test_table_of_settings_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `(TURNLOG_\w+)` \| (\S+) \|", RUNNING.read_text(), re.MULTILINE)
    assert {setting: default.strip("`") for setting, default in rows} == {
        format_variable(field): format_default(info.default)
        for kind in PROCESSES.values()
        for field, info in kind.model_fields.items()
    }


def test_table_of_model_parameters_has_every_parameter() -> None:
    (section,) = re.findall(
        r"^## Model parameters$(.*?)^## ", BLUEPRINTS.read_text(), re.MULTILINE | re.DOTALL
    )
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(ALLOWED_MODEL_PARAMETERS)


def format_default(default: object) -> str:
    plain = default.get_secret_value() if isinstance(default, SecretStr) else default
    if isinstance(plain, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", plain))) or "none"
    return "none" if plain in (None, {}) else str(plain)
