"""Random blueprints that vary what a prompt may contain and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from pydantic import JsonValue

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

SAMPLE_LAYERS: dict[str, JsonValue] = {
    "persona": {"file": "persona.md", "keep": "always"},
    "provider": {"file": "{provider}.md"},
    "language": {"text": "Answer in {language}.", "keep": "always"},
    "welcome": {"text": "Greet them.", "when": "first_turn"},
    "instructions": {"attribute": "instructions"},
    "player": {"attribute": "player"},
}

ATTRIBUTE_TYPES: dict[str, JsonValue] = {
    "language": {"type": "text"},
    "instructions": {"type": "text"},
    "player": {"type": "map"},
}

ATTRIBUTE_VALUES: dict[str, JsonValue] = {
    "language": "French",
    "instructions": "Mention no prices.",
    "player": {"text": "x", "n": 1},
}

MESSAGE_ORDERS: list[tuple[str, ...]] = [
    ("system", "history", "user"),
    ("history", "system", "user"),
    ("system", "user", "history"),
    ("user", "history", "system"),
    ("system", "user"),
]


@dataclass(frozen=True, slots=True)
class BlueprintVariant:
    """A blueprint with the prompt files and the attributes of a session that uses it."""

    blueprint: Blueprint
    files: dict[str, str]
    attributes: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def budget(self) -> int | None:
        """The token limit, or None."""
        budget = self.blueprint.budget.get(self.blueprint.calls["reply"].budget or "")
        return budget.tokens if budget and isinstance(budget.tokens, int) else None


PARAGRAPHS = st.text("abc ", min_size=1, max_size=60).map(str.strip)


@st.composite
def draw_variants(
    draw: st.DrawFn,
    *,
    budgets: st.SearchStrategy[int | None] = st.none() | st.integers(1, 400),  # noqa: B008
    max_turns: st.SearchStrategy[int | None] = st.none() | st.integers(0, 6),  # noqa: B008
) -> BlueprintVariant:
    """Draw a blueprint, its prompt files and the attributes of its session."""
    listed = draw(st.lists(st.sampled_from(list(SAMPLE_LAYERS)), min_size=1, unique=True))
    slots: dict[str, JsonValue] = {
        "system": {"system": [*listed]},
        "history": {"history": "recent"},
        "user": {"user": ["input"]},
    }
    tokens, turns = draw(budgets), draw(max_turns)
    order = draw(st.sampled_from(MESSAGE_ORDERS))
    cuts: list[JsonValue] = [{"drop_oldest_pairs": {"history": "recent"}}]
    ladder = cuts if "history" in order and draw(st.integers(0, 4)) else []
    blueprint = Blueprint.model_validate(
        {
            "blueprint": "any",
            "version": 1,
            "attributes": ATTRIBUTE_TYPES,
            "layers": SAMPLE_LAYERS,
            "calls": {
                "reply": {
                    "messages": [slots[name] for name in order],
                    "budget": None if tokens is None else "window",
                }
            },
            "history": {"recent": {} if turns is None else {"max_turns": turns}},
            "budget": {
                "window": {
                    "tokens": tokens or 1,
                    "counter": {"chars_per_token": draw(st.sampled_from([1, 3, 4]))},
                    "ladder": ladder,
                }
            },
            "profiles": {"chat": {"default": True, "call": "reply"}},
        }
    )
    named = {"persona", "provider"}
    files = draw(st.dictionaries(st.sampled_from(sorted(named)), PARAGRAPHS))
    names = draw(st.lists(st.sampled_from(list(ATTRIBUTE_VALUES)), unique=True))
    return BlueprintVariant(blueprint, files, {name: ATTRIBUTE_VALUES[name] for name in names})
