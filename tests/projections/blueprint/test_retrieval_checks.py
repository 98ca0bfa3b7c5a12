"""What `blueprint check` says of retrievals: the line, the fault and the fix."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

GOOD = """blueprint: guide
version: 1
inputs:
  topics: {type: list}
  urgent: {type: bool}
layers:
  documents: {retrieval: knowledge}
  short: {text: "Adapt it.", when: {confident: knowledge}}
calls:
  query: {messages: [{user: [input]}]}
  answer: {messages: [{system: [documents, short]}, {user: [input]}]}
retrieval:
  knowledge: {collections: manuals, max_docs: 3, lock: {tokens: 2000}}
profiles:
  reader: {default: true, program: knowledge, call: answer, retrieval: {knowledge: {max_docs: 5}}}
"""


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("{retrieval: knowledge}", "{retrieval: knowlege}", "7: layers.documents.retrieval"),
        ("confident: knowledge", "confident: cases", "8: layers.short.when.confident"),
        ("max_docs: 5", "tokens: 9000", "15: profiles.reader.retrieval.knowledge.tokens"),
        ("max_docs: 3,", "max_docs: 3, k: 3,", "13: retrieval.knowledge"),
        ("[documents, short]", "[short]", "11: calls.answer"),
        ("max_docs: 3,", "queries: {input: topic},", "13: retrieval.knowledge.queries.input"),
        ("max_docs: 3,", "queries: {input: urgent},", "13: retrieval.knowledge.queries.input"),
        (
            "max_docs: 3,",
            "queries: {pattern: x, input: topics},",
            "13: retrieval.knowledge.queries.input",
        ),
        (
            "max_docs: 3,",
            "queries: {pattern: '(?=@)'},",
            "13: retrieval.knowledge.queries.pattern",
        ),
        ("max_docs: 3,", "queries: {call: qery},", "13: retrieval.knowledge.queries.call"),
        ("max_docs: 3,", "queries: {call: answer},", "13: retrieval.knowledge.queries.call"),
        (
            "max_docs: 3,",
            "queries: {call: query, at_most: 33},",
            "13: retrieval.knowledge.queries.at_most",
        ),
        ("max_docs: 3,", "queries: {},", "13: retrieval.knowledge.queries"),
        ("program: knowledge", "program: knowlege", "15: profiles.reader.program"),
    ],
)
def test_retrieval_fault_is_reported_with_its_line(before: str, after: str, fault: str) -> None:
    load_blueprint_source(GOOD)
    assert GOOD.count(before) == 1
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(GOOD.replace(before, after))
    faults = [str(each).removeprefix("blueprint.yaml:") for each in refused.value.faults]
    assert any(each.startswith(fault) for each in faults), faults


def test_query_call_neither_offers_tools_nor_shows_what_it_is_made_for() -> None:
    source = GOOD.replace("max_docs: 3,", "queries: {call: query},")
    load_blueprint_source(source)
    for after, fault in (
        (
            "{messages: [{system: [documents]}, {user: [input]}]}",
            "retrieval.knowledge.queries.call",
        ),
        ("{tools: [all], messages: [{user: [input]}]}", "calls.query.tools"),
    ):
        with pytest.raises(FaultyBlueprint) as refused:
            load_blueprint_source(
                source.replace("query: {messages: [{user: [input]}]}", f"query: {after}")
            )
        assert any(fault in str(each) for each in refused.value.faults), refused.value.faults


def test_query_call_answers_no_turn_of_another_profile() -> None:
    source = GOOD.replace("max_docs: 3,", "queries: {call: query},")
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(source + "  other: {program: chat, call: query}\n")
    (fault,) = refused.value.faults
    assert "13: retrieval.knowledge.queries.call" in str(fault)
