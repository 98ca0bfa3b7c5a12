"""Families of figures: each module in `figures/` is one, named after its file.

A family is measured in its own process, so that none is affected by the memory, the imports or the
garbage of another. A family that fails is reported and does not end the others.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import tempfile
import traceback
from collections.abc import Awaitable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

import structlog

from benchmarks.figure_types import BenchmarkTerms, Figure


class FigureFamily(Protocol):
    """A module that measures."""

    def measure_figures(self, terms: BenchmarkTerms) -> Awaitable[Sequence[Figure]]:
        """Measure its figures."""
        ...


def list_families() -> tuple[str, ...]:
    """List every family."""
    return tuple(
        sorted(found.name for found in iter_modules([str(Path(__file__).parent / "figures")]))
    )


def run_family(name: str, terms: BenchmarkTerms) -> Sequence[Figure] | str:
    """Measure a family in its own process; return the traceback where it failed."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(_measure_in_process, name, terms).result()


def _measure_in_process(name: str, terms: BenchmarkTerms) -> Sequence[Figure] | str:
    # What a family logs is of no use to whoever reads its figures: it is of servers that it starts,
    # and of prompts that are over their budget on purpose.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    family = cast("FigureFamily", import_module(f"benchmarks.figures.{name}"))
    with tempfile.TemporaryDirectory(dir=terms.folder, prefix=name) as folder:
        try:
            return asyncio.run(_await_figures(family, replace(terms, folder=Path(folder))))
        except Exception:  # noqa: BLE001 - whatever it is, the other families go on
            return traceback.format_exc()


async def _await_figures(family: FigureFamily, terms: BenchmarkTerms) -> Sequence[Figure]:
    return await family.measure_figures(terms)
