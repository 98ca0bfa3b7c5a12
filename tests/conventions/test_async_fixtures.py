"""Asynchronous fixtures yield values that are not formatted.

`asyncio.Runner.run` formats the result of its task: `signal.getsignal` looks for the handler, which
refers to the task, in an enumeration, and formats it for an error that it drops. The generated
`__repr__` of a service formats its whole log: half of the processor time of `tests/agent_programs`.
"""

from __future__ import annotations

import re

from tests.conventions.source_tree import ROOT

FIXTURE = re.compile(r"fixture.*\nasync def \w+\([^)]*\) -> (.+):$", re.MULTILINE)
DATACLASS = re.compile(r"^@dataclass(.*)\nclass (\w+)", re.MULTILINE)


def test_the_value_of_an_asynchronous_fixture_has_no_generated_repr() -> None:
    texts = [path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))]
    types = " ".join(found for text in texts for found in FIXTURE.findall(text))
    values = set(re.findall(r"[A-Z]\w+", types))
    classes = [each for text in texts for each in DATACLASS.findall(text) if each[1] in values]
    assert len(classes) > 10
    assert [name for options, name in classes if "repr=False" not in options] == []
