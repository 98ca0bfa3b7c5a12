"""The command that forecasts a session."""

from __future__ import annotations

from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, SessionArgument


def forecast_session(
    session: SessionArgument,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Forecast when a prompt of a session is next cut or summarised, and by which rule.

    Recorded turns of the session and of its blueprint continue it, and the assembler makes their
    prompts. How good such forecasts are was measured in a back-test, and is printed beside it.
    """
    from turnlog.client import operations
    from turnlog.services.cli.forecasts.forecast_view import render_forecast

    show_answer(
        target, operations.fetch_forecast(session), render_forecast, output, with_read_models=True
    )
