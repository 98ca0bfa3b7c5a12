"""Rules of alerts as people write them: checked against what can be measured, in both directions.

Every refusal names the field and what to write instead, so that the command line can add the line
of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final, cast

from pydantic import JsonValue

from turnlog.contract.alert_payloads import AlertRuleForm
from turnlog.events.errors import Refused
from turnlog.events.model.alert_events import AlertRule, AlertScope
from turnlog.projections.alerts.alert_measures import (
    DEFAULT_WINDOW,
    MEASURES,
    SHORTEST_WINDOW,
    AlertMeasure,
    MeasureTerms,
)
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.services.api.written_durations import format_seconds, parse_seconds

_LONGEST_HOLD: Final = timedelta(days=7)

_LONGEST_REMINDER: Final = timedelta(days=31)

_SHORTEST_REMINDER: Final = timedelta(minutes=5)


def create_rules(forms: Iterable[AlertRuleForm]) -> Mapping[str, AlertRule]:
    """Return the rules of a request by name; raises `Refused` for the first that is faulty."""
    rules: dict[str, AlertRule] = {}
    for number, form in enumerate(forms):
        if form.name in rules:
            detail, fix = f"there are two alerts `{form.name}`", "give one of them another name"
            raise Refused("faulty-alert", detail, field=f"alerts.{number}.name", fix=fix)
        rules[form.name] = create_rule(form, f"alerts.{number}")
    return rules


def create_rule(form: AlertRuleForm, place: str) -> AlertRule:
    """Return a rule; raises `Refused` naming a field below `place`."""
    reading = _RuleReader(form, place)
    window = reading.read_window()
    if form.warn is not None and form.warn >= form.above:
        raise reading.create_refusal(
            "warn", f"it is not below `above`, which is {form.above:g}", "write a lower value"
        )
    return AlertRule(
        measure=form.measure,
        where=reading.read_scope(),
        window_seconds=None if window is None else int(window.total_seconds()),
        above=form.above,
        warn=form.warn,
        for_seconds=reading.read_seconds("for", form.for_, timedelta(), _LONGEST_HOLD) or 0,
        no_data=form.no_data,
        remind_seconds=reading.read_seconds(
            "remind", form.remind, _SHORTEST_REMINDER, _LONGEST_REMINDER
        ),
    )


class _RuleReader:
    def __init__(self, form: AlertRuleForm, place: str) -> None:
        self.form = form
        self.place = place
        self.terms: MeasureTerms = MEASURES[form.measure]

    def create_refusal(self, field: str, what: str, fix: str) -> Refused:
        """Return the refusal of a field."""
        detail = f"alert `{self.form.name}`: {what}"
        return Refused("faulty-alert", detail, field=f"{self.place}.{field}", fix=fix)

    def read_window(self) -> timedelta | None:
        """Return the window, that of the measure if the rule has none."""
        written, longest = self.form.window, self.terms.longest_window
        if longest is None:
            if written is not None:
                what = f"`{self.form.measure}` is a figure of now"
                raise self.create_refusal("window", what, "leave it out")
            return None
        seconds = self.read_seconds("window", written, SHORTEST_WINDOW, longest)
        return min(DEFAULT_WINDOW, longest) if seconds is None else timedelta(seconds=seconds)

    def read_seconds(
        self, field: str, written: str | None, shortest: timedelta, longest: timedelta
    ) -> int | None:
        """Return a duration in seconds; None if it is left out."""
        if written is None:
            return None
        seconds = parse_seconds(written)
        bounds = f"from {format_seconds(shortest)} to {format_seconds(longest)}"
        fix = f"write a number and `s`, `m`, `h` or `d`, {bounds}, such as `10m`"
        if seconds is None:
            raise self.create_refusal(field, "it is no duration", fix)
        if not shortest.total_seconds() <= seconds <= longest.total_seconds():
            raise self.create_refusal(field, f"it is not {bounds}", fix)
        return seconds

    def read_scope(self) -> AlertScope:
        """Return what is measured; raises `Refused` for what the measure cannot be narrowed to."""
        where = self.form.where
        for name in type(where).model_fields:
            if getattr(where, name) and name not in self.terms.scope:
                what = f"`{self.form.measure}` cannot be told apart by it"
                known = ", ".join(f"`{each}`" for each in self.terms.scope)
                fix = f"use {known}, or leave it out" if known else "leave `where` out"
                raise self.create_refusal(f"where.{name}", what, fix)
        named = {
            name: check_text(value, f"{self.place}.where.{name}")
            for name in ("blueprint", "profile", "kind", "model")
            if (value := cast("str | None", getattr(where, name))) is not None
        }
        attributes = {
            check_text(name, f"{self.place}.where.attributes"): check_text(
                value, f"{self.place}.where.attributes"
            )
            for name, value in where.attributes.items()
        }
        return AlertScope(**named, attributes=attributes)


def format_rule(name: str, rule: AlertRule) -> dict[str, JsonValue]:
    """Return a rule in the form in which it is written."""
    where = rule.where.model_dump(mode="json", exclude_defaults=True)
    return {
        "name": name,
        "measure": rule.measure,
        "where": where,
        "window": _format_optional(rule.window_seconds),
        "above": rule.above,
        "warn": rule.warn,
        "for": _format_optional(rule.for_seconds or None),
        "no_data": rule.no_data,
        "remind": _format_optional(rule.remind_seconds),
    }


def get_unit(measure: str) -> str:
    """Return what the values of a measure are counted in; empty for one of a later release."""
    terms = MEASURES.get(cast("AlertMeasure", measure))
    return terms.unit if terms else ""


def _format_optional(seconds: int | None) -> str | None:
    return None if seconds is None else format_seconds(timedelta(seconds=seconds))
