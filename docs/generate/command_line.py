"""Writes the reference of the command line, made of the very help that it prints.

`make docs` runs it, and a test fails when what is committed is not what it would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from turnlog.services.cli.app import build_app
from turnlog.services.cli.command_index import COMMAND_SECTIONS, CommandSection

TARGET = Path(__file__).parents[1] / "reference" / "command-line.md"
WIDTH = "90"
HEAD = """\
# The command line

`turnlog` finds a running service through the ready file in its data directory, which is
`.turnlog` here unless `--data-dir` or `TURNLOG_DATA_DIR` says otherwise, or by `--url`. Where no
service runs, the reading commands open the data directory themselves, and answer the same.

Tables are for people. `-o json` gives programs what the HTTP answer holds. Colour is left out
where `NO_COLOR` is set or nobody watches. Every setting is also a variable, and a `TURNLOG_...`
variable that nobody knows is refused: `turnlog config show` lists them all.

| exit code | it means |
|---|---|
| 0 | ok |
| 1 | an error |
| 2 | it was called wrongly, or set wrongly |
| 3 | what was asked for is not there |
| 4 | it conflicts with what is there |
| 5 | verification failed |
"""


def reference() -> str:
    """Give the whole page."""
    return "\n".join([HEAD, *(line for section in COMMAND_SECTIONS for line in _section(section))])


def _section(section: CommandSection) -> Iterator[str]:
    yield f"## {section.title}\n"
    for command in section.commands:
        yield f"### turnlog {command.name}\n"
        yield f"```text\n{_help(command.name)}```\n"


def _help(name: str) -> str:
    words = [*name.split(), "--help"]
    result = CliRunner().invoke(build_app(), words, prog_name="turnlog", env={"COLUMNS": WIDTH})
    lines = (line.rstrip() for line in result.output.splitlines())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference())
