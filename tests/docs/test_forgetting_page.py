"""The page that people pass on: its commands run, and print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT, list_blocks
from tests.docs.doc_shell import DocShell, run_service
from tests.docs.test_docs import compare_output

PAGE = ROOT / "docs/forgetting.md"


@pytest.mark.slow("a service starts")
def test_commands_of_the_page_on_forgetting_print_what_it_says(tmp_path: Path) -> None:
    code = [block.code for block in list_blocks(PAGE) if block.language == "sh"]
    reader = DocShell(tmp_path, exported={"TURNLOG_SEALING": "on"})
    with run_service(reader, ["turnlog", "up"]) as shell:
        compare_output(PAGE, "sh", shell.run_blocks(code))
