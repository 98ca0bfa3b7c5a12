"""axe-core in a page: what it finds against WCAG 2.2 AA and its own best practices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tests.docs.doc_pages import ROOT
from tests.e2e.browser import Browser

AXE_SCRIPT: Final = ROOT / ".venv/axe/node_modules/axe-core/axe.min.js"

RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

COLOUR_RULES: Final = ("color-contrast", "link-in-text-block")
"""The rules whose findings depend on the colour scheme."""

_RUN_SCRIPT: Final = """
axe.run(document, {runOnly: %s, resultTypes: ['violations']}).then((result) =>
  result.violations.flatMap((found) =>
    found.nodes.map((node) => `${found.id}: ${node.target} ${node.failureSummary}`)))
"""

# A browser that shows a scroll bar of its own has less width than the window
_SIDEWAYS_SCRIPT: Final = """
[document.documentElement, document.querySelector('main')]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.tagName)
"""


async def load_axe(browser: Browser) -> None:
    """Make axe available in the page that is shown."""
    await browser.run_script(f"{AXE_SCRIPT.read_text()};0")


async def list_violations(browser: Browser, rules: Sequence[str] = RULES) -> list[str]:
    """List what axe finds in the page as it is now, and what scrolls sideways in it."""
    sideways = await browser.run_script(_SIDEWAYS_SCRIPT)
    found: list[str] = await browser.run_script(_RUN_SCRIPT % json.dumps(rules))
    return [*found, *(f"scrolls sideways: {name}" for name in sideways)]
