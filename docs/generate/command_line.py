"""Writes the command line reference from the output of `--help`.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from turnlog.services.cli.command_index import COMMAND_SECTIONS, CommandSection
from turnlog.services.cli.main import build_command

TARGET = Path(__file__).parents[1] / "reference" / "command-line.md"
WIDTH = 80
HEAD = """\
# The command line

`turnlog` finds a running service through the ready file in its data directory, `.turnlog` in the
current folder unless `--data-dir` or `TURNLOG_DATA_DIR` names another, or through `--url`. If no
service runs, the commands that only read open the data directory themselves, with the same output.

Tables are for people; `-o json` prints the same JSON as the HTTP answer. There is no colour if
`NO_COLOR` is set or the output is not a terminal. Every setting is also an environment variable,
and an unknown `TURNLOG_...` variable is refused: `turnlog config show` lists them all.

| exit code | meaning |
|---|---|
| 0 | ok |
| 1 | an error |
| 2 | wrong usage or wrong settings |
| 3 | not found |
| 4 | conflict with the current state |
| 5 | verification failed |
"""


def reference() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(line for section in COMMAND_SECTIONS for line in _section(section))])


def _section(section: CommandSection) -> Iterator[str]:
    yield f"## {section.title}\n"
    for command in section.commands:
        yield f"### turnlog {command.name}\n"
        yield f"```text\n{_help(command.name)}```\n"


def _help(name: str) -> str:
    words = [*name.split(), "--help"]
    with redirect_stdout(StringIO()) as output, suppress(SystemExit):
        build_command()(words, prog_name="turnlog", terminal_width=WIDTH)
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference())
