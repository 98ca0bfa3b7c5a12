"""The sample resolver of the demo: four invented funds and three kinds of question.

It makes no requests. It lets users try the blueprint `araquem`, and shows how small a resolver can
be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.services.extensions.resolver_contract import ResolverRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFund:
    """A fictional fund."""

    ticker: str
    name: str
    price: str
    assets: str
    volatility: str


FUNDS: Final[Mapping[str, DemoFund]] = {
    fund.ticker: fund
    for fund in (
        DemoFund(
            ticker="LOGT11",
            name="Turnlog Warehouses",
            price="BRL 101.20",
            assets="12 warehouses in 4 states",
            volatility="9.1 %",
        ),
        DemoFund(
            ticker="PAPR11",
            name="Paper Offices",
            price="BRL 88.75",
            assets="5 office towers",
            volatility="12.4 %",
        ),
        DemoFund(
            ticker="SHOP11",
            name="Corner Malls",
            price="BRL 54.10",
            assets="9 malls",
            volatility="15.0 %",
        ),
        DemoFund(
            ticker="FARM11",
            name="Quiet Farms",
            price="BRL 97.05",
            assets="31 leased farms",
            volatility="7.8 %",
        ),
    )
}
INTENTS: Final[Mapping[str, str]] = {
    "fiis_financials_risk": r"\b(risk\w*|volatil\w*|safe|risco\w*|arriscad\w*|segur[oa])\b",
    "fiis_precos": r"\b(price|cost\w*|quote\w*|worth|preço\w*|cotaç\w*|custa\w*|vale|valor)\b",
    "fiis_overview": (
        r"\b(overview|about|own\w*|what is|summary|resumo|o que é|possui\w*|ativos|imóve\w*)\b"
    ),
}
"""Intent to the pattern of words, English or Portuguese, that it is recognised by."""
_TICKER: Final = re.compile(r"\b[A-Za-z]{4}11\b")
_ANSWERS: Final[Mapping[str, Callable[[DemoFund], tuple[dict[str, JsonValue], str]]]] = {
    "fiis_financials_risk": lambda fund: (
        {"ticker": fund.ticker, "volatility": fund.volatility},
        f"The volatility of {fund.ticker} over a year is {fund.volatility}.",
    ),
    "fiis_precos": lambda fund: (
        {"ticker": fund.ticker, "price": fund.price},
        f"{fund.ticker} was last traded at {fund.price}.",
    ),
    "fiis_overview": lambda fund: (
        {"ticker": fund.ticker, "name": fund.name, "assets": fund.assets},
        f"{fund.ticker} is {fund.name}, which owns {fund.assets}.",
    ),
}


async def finance_demo(question: ResolverRequest) -> JsonObject:
    """Resolve a question about a fund."""
    found = _TICKER.search(question.text)
    ticker = found[0].upper() if found else question.identifiers.get("ticker")
    intent = next(
        (name for name, words in INTENTS.items() if _matches_words(words, question.text)), None
    )
    if intent is None and ticker is None:
        return {}
    return _build_answer(intent or "fiis_overview", str(ticker) if ticker else None)


def _matches_words(words: str, text: str) -> bool:
    return re.search(words, text, re.IGNORECASE) is not None


def _build_answer(intent: str, ticker: str | None) -> JsonObject:
    known: dict[str, JsonValue] = {"ticker": ticker} if ticker else {}
    about: dict[str, JsonValue] = {"intent": intent, "entity": "fiis", "identifiers": known}
    if ticker is None:
        return {**about, "answer": "Which fund do you mean?", "meta": {"rows": 0}}
    if ticker not in FUNDS:
        unknown = f"There is no fund {ticker}."
        return {**about, "found": False, "answer": unknown, "meta": {"rows": 0}}
    row, answer = _ANSWERS[intent](FUNDS[ticker])
    return {**about, "results": [row], "meta": {"rows": 1}, "answer": answer}
