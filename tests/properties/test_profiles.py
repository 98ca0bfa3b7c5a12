"""The profile of a run holds for the modules that were imported before its processes began."""

from __future__ import annotations

from hypothesis import settings

IMPORTED = settings(max_examples=7)
"""As modules of properties have them: what is left out is that of the profile at the import."""


def test_modules_are_imported_under_the_profile_of_the_run() -> None:
    """Otherwise `make test-long` draws the examples of the suite again."""
    assert settings.default is not None
    assert IMPORTED.derandomize == settings.default.derandomize
