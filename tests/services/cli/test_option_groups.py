"""Option groups: one value for a command, several options on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from turnlog.services.cli.options import expand_option_groups


@dataclass(frozen=True, slots=True)
class SizeOptions:
    width: Annotated[int, typer.Option("--width")] = 80
    height: Annotated[int, typer.Option("--height")] = 24


def test_option_group_is_passed_to_the_command_as_one_value() -> None:
    calls: list[tuple[str, SizeOptions, bool]] = []

    def draw(name: str, *, sized: SizeOptions, loud: bool = False) -> None:
        """Draw something."""
        calls.append((name, sized, loud))

    # Annotations are looked up where a function stands, and this one stands in a test
    draw.__annotations__ = {"name": str, "sized": SizeOptions, "loud": bool, "return": None}
    app = typer.Typer()
    app.command()(expand_option_groups(draw))
    assert CliRunner().invoke(app, ["a tree", "--width", "100", "--loud"]).exit_code == 0
    assert CliRunner().invoke(app, ["a bush"]).exit_code == 0
    assert CliRunner().invoke(app, ["a bush", "--sized", "9"]).exit_code != 0
    assert calls == [("a tree", SizeOptions(width=100), True), ("a bush", SizeOptions(), False)]
