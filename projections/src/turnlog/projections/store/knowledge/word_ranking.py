"""The ranking of entries by words: BM25 on SQLite, `ts_rank` on Postgres.

An entry is ranked if it has any word of the query; a word that has no meaning of its own is no
reason to find anything.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store.knowledge.index_tables import get_words_table
from turnlog.projections.store.knowledge.vector_matrix import SCORE_DIGITS

MAX_QUERY_WORDS: Final = 64
"""The words of a query that count, the first ones; a query is a question, not a document."""

_TITLE_WEIGHT: Final = 2.0
"""How much more a word in the title counts than one in the text."""

_STOP_WORDS: Final = frozenset(
    """
    a about after all also am an and any are as at be because been before being between both
    but by can could did do does doing down during each few for from further get had has have
    having he her here hers him his how i if in into is it its itself just me more most my no
    nor not now of off on once only or other our out over own please same she should so some
    such than that the their them then there these they this those through to too under until
    up very was we were what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a hundred lines otherwise
)
"""Words that nearly every text has."""


async def rank_by_words(
    connection: AsyncConnection, tenant: str, history: int, query: str, limit: int
) -> list[tuple[int, float]]:
    """Return number and score of the best entries, best first; ties by number."""
    words = extract_words(query)
    if not words:
        return []
    if connection.dialect.name == "sqlite":
        table = get_words_table(history)
        found = text(
            f"SELECT rowid AS number, -bm25({table}, {_TITLE_WEIGHT}, 1.0) AS score FROM {table} "
            f"WHERE {table} MATCH :words ORDER BY score DESC, number LIMIT :limit"
        )
        values = {"words": " OR ".join(f'"{word}"' for word in words), "limit": limit}
    else:
        found = text(
            "SELECT number, ts_rank('{0.1, 0.2, 0.5, 1.0}', words, query, 1) AS score "
            "FROM knowledge_words, CAST(replace(CAST(plainto_tsquery('english', :words) AS text), "
            "'&', '|') AS tsquery) AS query "
            "WHERE tenant = :tenant AND words @@ query ORDER BY score DESC, number LIMIT :limit"
        )
        values = {"words": " ".join(words), "tenant": tenant, "limit": limit}
    rows = await connection.execute(found, values)
    return [(row.number, round(float(row.score), SCORE_DIGITS)) for row in rows]


def extract_words(query: str) -> list[str]:
    """Return the distinct words of a query that may find something."""
    words = list(dict.fromkeys(re.findall(r"\w+", query.casefold())))
    telling = [word for word in words if word not in _STOP_WORDS]
    return (telling or words)[:MAX_QUERY_WORDS]
