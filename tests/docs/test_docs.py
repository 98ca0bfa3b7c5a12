"""The pages are true: their code runs with the stated output, and their links exist."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.docs.pages import PRINTED, READ, ROOT, RUN, as_printed, blocks, links, name, pages
from tests.docs.reader import SEPARATOR, Shell, serving
from turnlog.services.cli.environment import PROCESSES, format_variable

RUNNING = ROOT / "docs/running.md"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with serving(tmp_path_factory.mktemp("reader"), ["turnlog", "up"]) as shell:
        yield shell


def with_blocks(language: str) -> list[Path]:
    return [page for page in pages() if any(each.language == language for each in blocks(page))]


def codes(page: Path, language: str) -> list[str]:
    return [block.code for block in blocks(page) if block.language == language]


def compare(page: Path, language: str, printed: list[str]) -> None:
    """Compare the output with the page's, ignoring blanks at line ends."""
    mine = [block for block in blocks(page) if block.language == language]
    for block, came in zip(mine, printed, strict=True):
        if block.printed is not None:
            says = as_printed(block.printed)
            seen = re.sub(" +$", "", came, flags=re.MULTILINE).strip()
            assert says.fullmatch(seen), f"{name(page)}:{block.line} printed\n{came}"


@pytest.mark.parametrize("page", with_blocks("python"), ids=name)
def test_python_on_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    program = f'\nprint({SEPARATOR!r}, end="")\n'.join(codes(page, "python"))
    compare(page, "python", Shell(tmp_path).printed(program, sys.executable, "-"))


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash, curl")
@pytest.mark.parametrize("page", with_blocks("sh"), ids=name)
def test_commands_on_a_page_do_what_the_page_says(page: Path, shell: Shell) -> None:
    compare(page, "sh", shell.run(codes(page, "sh")))


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_is_run_or_printed_or_said_to_be_for_reading(page: Path) -> None:
    for block in blocks(page):
        assert block.language in RUN | READ, f"{name(page)}:{block.line} is {block.language!r}"
        assert block.language not in PRINTED


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_to_a_page_that_is_there(page: Path) -> None:
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    assert page in reached_from(pages()[0])


def reached_from(start: Path) -> set[Path]:
    found, new = {start}, {start}
    while new:
        linked = {(page.parent / link).resolve() for page in new for link in links(page)}
        new = {page for page in linked if page.suffix == ".md" and page.exists()} - found
        found |= new
    return found


def test_the_table_of_settings_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `(TURNLOG_\w+)` \| (\S+) \|", RUNNING.read_text(), re.MULTILINE)
    assert {setting: default.strip("`") for setting, default in rows} == {
        format_variable(field): spelt(info.default)
        for kind in PROCESSES.values()
        for field, info in kind.model_fields.items()
    }


def spelt(default: object) -> str:
    plain = default.get_secret_value() if isinstance(default, SecretStr) else default
    return "none" if plain in (None, ()) else str(plain)
