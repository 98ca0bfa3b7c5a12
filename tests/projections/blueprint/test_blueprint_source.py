from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

GOOD = """\
blueprint: guide
version: 2
attributes:
  city: {type: id, required: true}
  tone: {type: text, default: dry}
layers:
  persona: {file: persona.md, keep: always}
  tone: {text: "Be {tone}."}
  city: {attribute: city}
calls:
  reply:
    messages:
      - system: [persona, tone, city]
      - history: recent
      - user: [input]
    budget: window
history:
  recent: {max_turns: 20}
budget:
  window:
    tokens: 100
    ladder:
      - drop_oldest_pairs: {history: recent}
profiles:
  chat: {default: true, call: reply}
"""


def read_blueprint(text: str) -> Blueprint:
    return load_blueprint_source(text).blueprint


def list_faults(text: str) -> list[str]:
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(text)
    return [str(fault).removeprefix("blueprint.yaml:") for fault in refused.value.faults]


def replace_text(before: str, after: str) -> str:
    assert GOOD.count(before) == 1
    return GOOD.replace(before, after)


def test_blueprint_is_parsed_with_its_written_values() -> None:
    blueprint = read_blueprint(GOOD)
    assert (blueprint.blueprint, blueprint.version) == ("guide", 2)
    assert blueprint.attributes["tone"].default == "dry"
    assert blueprint.default_profile == "chat"


def test_pinned_blueprint_decodes_to_the_same_blueprint() -> None:
    blueprint = read_blueprint(GOOD)
    assert Blueprint.model_validate_json(encode_blueprint(blueprint)) == blueprint


@pytest.mark.parametrize("word", ["on", "no", "yes", "off", "2001-01-01", "12:30", "0o17x"])
def test_words_with_special_meaning_in_other_yaml_versions_are_text(word: str) -> None:
    text = replace_text("default: dry", f"default: {word}")
    assert read_blueprint(text).attributes["tone"].default == word


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("reply_redact", "`reply_redact` means nothing here; write `reply_redacted`"),
        (
            "{atribute: tone}",
            "one of: `context`, `attribute`, `phase`, `confident`, `unsure`; write `attribute`",
        ),
        ("{attribute: tone, is: dry}", "`is` means nothing here; use one of: attribute"),
    ],
)
def test_invalid_condition_has_one_fault(written: str, fault: str) -> None:
    text = replace_text('text: "Be {tone}."', f'text: "Be {{tone}}.", when: {written}')
    (found,) = list_faults(text)
    assert found.startswith("8: layers.tone.when")
    assert found.endswith(fault)


def test_prefix_of_a_known_key_is_suggested_as_that_key() -> None:
    (found,) = list_faults(replace_text("drop_oldest_pairs", "drop_oldest"))
    assert found.endswith("`drop_oldest` means nothing here; write `drop_oldest_pairs`")


def test_yaml_1_1_boolean_is_refused_with_true_or_false_as_fix() -> None:
    assert list_faults(replace_text("default: true", "default: on")) == [
        "25: profiles.chat.default: it must be a valid boolean; write `true` or `false`"
    ]


def test_quoted_number_is_refused() -> None:
    assert list_faults(replace_text("tokens: 100", 'tokens: "100"')) == [
        "21: budget.window.tokens: it must be a valid integer; write a whole number, without quotes"
    ]


def test_duplicate_key_is_refused_with_both_lines() -> None:
    assert list_faults(
        replace_text("  city: {attribute: city}", "  tone: {text: Hm.}").replace("persona", "p")
    ) == [
        "9: layers.tone: `tone` stands on line 8 already; keep one of the two",
        "13: calls.reply.messages.0.system.2: there is no layer `city`; use one of: input, p, tone",
    ]


def test_all_faults_are_reported_together_in_line_order() -> None:
    text = GOOD.replace("keep: always", "kep: always").replace("100", "0").replace("call:", "cal:")
    assert list_faults(text) == [
        "7: layers.persona.kep: `kep` means nothing here; write `keep`",
        "21: budget.window.tokens: it must be greater than or equal to 1; change the value",
        "25: profiles.chat.call: `call` is missing; add `call:`",
        "25: profiles.chat.cal: `cal` means nothing here; write `call`",
    ]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("[persona,", "[persna,", "13: calls.reply.messages.0.system.0: there is no layer `persna"),
        ("- history: recent", "- history: recnt", "14: calls.reply.messages.1.history: there is n"),
        ("budget: window", "budget: windw", "16: calls.reply.budget: there is no budget `windw`"),
        ("{history: recent}", "{history: rcent}", "23: budget.window.ladder.0.drop_oldest_pairs.h"),
        ("call: reply", "call: repl", "25: profiles.chat.call: there is no call `repl`; write `re"),
        ("Be {tone}.", "Be {tne}.", "8: layers.tone.text: there is no attribute `tne`; write `to"),
        ("{attribute: city}", "{attribute: town}", "9: layers.city.attribute: there is no attribu"),
        ("{attribute: city}", '{now: "{year}"}', "9: layers.city.now: there is no slot `year`"),
        ("file: persona.md", 'file: "{cty}.md"', "7: layers.persona.file: there is no attribute `"),
        ("default: dry", "default: 7", "5: attributes.tone.default: the default is not text; writ"),
        ("{type: id, req", "{type: idd, req", "4: attributes.city.type: `idd` means nothing here"),
        ("default: true", "default: false", "24: profiles: exactly one profile must say `default:"),
        ("- history: recent", "- histry: x", "14: calls.reply.messages.1: a message is `system`"),
        ("{text: ", "{txt: ", "8: layers.tone: a layer needs one of: `segments`, `file`, `overr"),
        ("persona: {", "Persona: {", "7: layers.Persona: `Persona` is not a name; use a-z first"),
        ("  tone: {text", "  input: {text", "8: layers.input: `input` is a layer of its own; choo"),
        ("tone, city]", "tone, tone]", "13: calls.reply.messages.0.system.2: layer tone stands tw"),
        ("{max_turns: 20}", "{max_turns: 20, all: true}", "18: history.recent.max_turns: `recent`"),
        ("{max_turns: 20}", "{all: true}", "23: budget.window.ladder.0.drop_oldest_pairs.history:"),
        ("required: true", "required: true, default: x", "4: attributes.city.default: a value tha"),
        ("[input]", "[]", "15: calls.reply.messages.2.user: it is empty; write at least one"),
    ],
)  # fmt: skip
def test_fault_is_reported_with_its_line_and_path(before: str, after: str, fault: str) -> None:
    assert fault in list_faults(replace_text(before, after))[0]


SAFETY = "policies:\n  safety:\n    rules:\n      - {name: contacts, pattern: '%s'}\n"


def test_backtracking_pattern_is_refused_with_its_line() -> None:
    (fault,) = list_faults(GOOD + SAFETY % "(?=a)b")
    assert fault == (
        "29: policies.safety.rules.0.pattern: look-ahead and look-behind cannot be searched in "
        "linear time; match the words around it as well, or register a check"
    )
    assert load_blueprint_source(GOOD + SAFETY % r"\b\d{8,}\b|\S+@\S+\.\w+").lines


def test_pinned_blueprint_with_a_backtracking_pattern_can_still_be_read() -> None:
    pinned = json.loads(encode_blueprint(read_blueprint(GOOD + SAFETY % "a")))
    pinned["policies"]["safety"]["rules"][0]["pattern"] = "(?=a)b"
    assert Blueprint.model_validate(pinned).policies.safety.rules


INPUT_SAFETY = """
policies:
  input_safety:
    - {name: cards, check: cards, action: mask}
    - {%s}
"""


@pytest.mark.parametrize(
    ("rule", "place", "fault"),
    [
        ("name: k, pattern: 'sk-', action: mask", ".action", "use one of: note, refuse"),
        ("name: k, pattern: '(?=a)b', action: note", ".pattern", "or register a check"),
        ("name: cards, check: ibans, action: note", ".name", "choose another name"),
        ("name: c-1, check: ibans, action: note", ".name", "use a-z first, then a-z _ -"),
        ("name: t, check: topic_list, action: note", ".check", "cards, emails, ibans, phones"),
        ("name: t, action: note", "", "write one of them: `pattern: ...`, `check: ...`"),
    ],
)
def test_input_rule_that_cannot_work_is_refused_with_its_line(
    rule: str, place: str, fault: str
) -> None:
    (found,) = list_faults(GOOD + INPUT_SAFETY % rule)
    assert found.startswith(f"30: policies.input_safety.1{place}: ")
    assert fault in found


@pytest.mark.parametrize("place", ["../secret.md", "/etc/passwd", "a/../../b.md", "a\\\\b.md"])
def test_a_prompt_file_outside_the_folder_is_refused(place: str) -> None:
    (fault,) = list_faults(replace_text("file: persona.md", f'file: "{place}"'))
    assert "leaves the folder; name a place beside the blueprint" in fault


def test_only_ids_and_locales_are_allowed_in_a_path() -> None:
    (fault,) = list_faults(replace_text("file: persona.md", 'file: "{tone}.md"'))
    assert fault == (
        "7: layers.persona.file: `tone` is of type text, which no path can hold; "
        "make it one of: id, locale"
    )


def test_provider_is_allowed_only_in_a_path() -> None:
    blueprint = read_blueprint(replace_text("file: persona.md", 'file: "{provider}.md"'))
    assert blueprint.layers["persona"].model_dump()["file"] == "{provider}.md"
    assert (
        "there is no attribute `provider`" in list_faults(replace_text("{tone}", "{provider}"))[0]
    )


def test_budget_smaller_than_its_required_texts_is_refused() -> None:
    text = replace_text('{text: "Be {tone}."}', f"{{text: {'x' * 401}, keep: always}}")
    (fault,) = list_faults(text)
    assert fault == (
        "16: calls.reply.budget: its `keep: always` texts take 101 tokens, `window` has 100; "
        "give the budget more than 101 tokens"
    )


def test_budget_equal_to_its_required_texts_is_accepted() -> None:
    text = replace_text('{text: "Be {tone}."}', f"{{text: {'x' * 400}, keep: always}}")
    assert read_blueprint(text).budget["window"].tokens == 100


def test_api_key_or_address_in_call_parameters_is_refused() -> None:
    (fault,) = list_faults(replace_text("    budget: window", "    parameters: {api_key: sk-1}"))
    assert fault.startswith("16: calls.reply.parameters.api_key: there is no parameter `api_key`")


@pytest.mark.slow("many generated cases are tried")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: it must be an object; write lines of `word: value`"),
        ("- a", "1: it must be an object; write lines of `word: value`"),
        ("blueprint: [", "1: expected the node content, but found '<stream end>'; mend the YAML"),
        ("a: 1\n---\nb: 1", "2: but found another document; mend the YAML"),
        ("a: 1\nb: *gone", "2: found undefined alias 'gone'; mend the YAML"),
        ("a: 1\nb: \x00", "2: YAML allows no character 0x0; mend the YAML"),
        ("a: " + "[" * 1500, "1: it is nested more than 32 deep; mend the YAML"),
        ("a: " + "x" * 200_000, "1: it has 200003 characters, the limit is 200000; move texts"),
        ("a: &a [*a]", "1: with its aliases unfolded it is too large or deep; mend the YAML"),
    ],
)
def test_text_that_is_no_document_has_one_fault(text: str, fault: str) -> None:
    (found,) = list_faults(text)
    assert found.startswith(fault)


def test_exponential_aliases_are_refused_before_expansion() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (fault,) = list_faults("\n".join(lines))
    assert "too large or deep" in fault


def test_alias_is_replaced_with_its_anchored_value() -> None:
    text = replace_text("default: dry}", "default: &dry dry}").replace("Be {tone}.", "x")
    assert read_blueprint(text.replace('"x"', "*dry")).layers["tone"].model_dump()["text"] == "dry"


def test_anchor_can_be_redefined() -> None:
    text = replace_text("default: dry}", "default: &a dry}")
    text = text.replace("required: true", "required: &a true")
    assert read_blueprint(text).attributes["tone"].default == "dry"


@pytest.mark.parametrize("character", ["\\0", "\\uD800"])
def test_character_that_no_event_can_store_is_refused(character: str) -> None:
    (fault,) = list_faults(replace_text("Be {tone}.", f"Be {character}."))
    assert fault == (
        "8: layers.tone.text: NUL and lone surrogates cannot be stored; remove the character"
    )


@pytest.mark.parametrize("tagged", ["!!python/name:os.system dry", "!mine dry", "!mine [dry]"])
def test_a_tag_is_refused(tagged: str) -> None:
    assert (
        "5: attributes.tone.default: tags such as `" in list_faults(replace_text("dry", tagged))[0]
    )


def test_blueprint_schema_is_valid_json_schema_for_editors() -> None:
    schema = Blueprint.model_json_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(encode_blueprint(read_blueprint(GOOD))))


def test_example_blueprint_in_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs/blueprints.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if block.startswith("blueprint:"))
    assert read_blueprint(text).blueprint == "guide"


REPLACED = GOOD.replace("  tone: {type: text", "  locale: {type: locale}\n  tone: {type: text") + (
    "policies:\n  replacement: {en: Withheld., lt: Sulaikyta., pt-BR: Retido.}\n"
)


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("lt", "Sulaikyta."),
        ("lt_LT", "Sulaikyta."),
        ("pt-br", "Retido."),
        ("pt", "Withheld."),
        ("fr", "Withheld."),
        (None, "Withheld."),
    ],
)
def test_replacement_falls_back_from_locale_to_language_to_english(
    locale: str | None, text: str
) -> None:
    assert read_blueprint(REPLACED).policies.get_replacement(locale) == text


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("en: Withheld., ", "", "there is no text for `en`, which stands in for all other locales"),
        ("  locale: {type: locale}\n", "", "the text is chosen by the attribute `locale`"),
        ("Sulaikyta.", "''", "policies.replacement.lt: it is empty"),
        ("{en: Withheld., lt: Sulaikyta., pt-BR: Retido.}", "7", "it must be a valid string"),
    ],
)
def test_invalid_texts_by_locale_are_faults(before: str, after: str, fault: str) -> None:
    (found,) = list_faults(REPLACED.replace(before, after))
    assert fault in found
