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
        ("max_docs: 5", "tokens: 9000", "14: profiles.reader.retrieval.knowledge.tokens"),
        ("max_docs: 3,", "max_docs: 3, k: 3,", "12: retrieval.knowledge"),
        ("[documents, short]", "[short]", "10: calls.answer"),
        ("max_docs: 3,", "queries: {input: topic},", "12: retrieval.knowledge.queries.input"),
        ("max_docs: 3,", "queries: {input: urgent},", "12: retrieval.knowledge.queries.input"),
        (
            "max_docs: 3,",
            "queries: {pattern: x, input: topics},",
            "12: retrieval.knowledge.queries.input",
        ),
        (
            "max_docs: 3,",
            "queries: {pattern: '(?=@)'},",
            "12: retrieval.knowledge.queries.pattern",
        ),
        ("max_docs: 3,", "queries: {},", "12: retrieval.knowledge.queries"),
        ("program: knowledge", "program: knowlege", "14: profiles.reader.program"),
    ],
)
def test_retrieval_fault_is_reported_with_its_line(before: str, after: str, fault: str) -> None:
    load_blueprint_source(GOOD)
    assert GOOD.count(before) == 1
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(GOOD.replace(before, after))
    faults = [str(each).removeprefix("blueprint.yaml:") for each in refused.value.faults]
    assert any(each.startswith(fault) for each in faults), faults
