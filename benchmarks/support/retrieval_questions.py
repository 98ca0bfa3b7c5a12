"""Questions on this repository's docs, each with the sections that answer it.

Written as a user would ask, mostly without the words of the section. A section is a page and the
beginning of its last heading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Question:
    """A question and where its answer is."""

    text: str
    expected: tuple[tuple[str, str], ...]
    """Page and heading; any of them is a hit."""


def _ask(text: str, *places: str) -> Question:
    pairs = (place.partition(": ") for place in places)
    return Question(text, tuple((f"{page}.md", heading) for page, _, heading in pairs))


QUESTIONS: Final = (
    _ask("Which worker takes over when another one died in the middle of a reply?",
         "a-turn: Claimed", "a-turn: Streamed"),
    _ask("How does a client get the words of a reply while it is written?", "a-turn: Streamed",
         "browser: The page"),
    _ask("Can a person have to agree before a tool runs?", "agents: Approval"),
    _ask("What happens to a tool's answer that is far too long for a prompt?",
         "agents: Long results"),
    _ask("Is a tool executed twice after a crash?", "agents: Tools run once"),
    _ask("How do I offer a plain Python function to the model?", "agents: Tools without MCP"),
    _ask("An external tool server sends garbage or attacks; what protects us?",
         "agents: Hostile servers"),
    _ask("Old conversation is replaced by a short digest", "agents: Summaries"),
    _ask("forget everything said so far", "agents: Purging"),
    _ask("Send only the names of functions instead of whole descriptions",
         "agents: Full descriptions and names"),
    _ask("one agent delegates work to other agents", "agents: Coordinators and their children"),
    _ask("Reuse results of the last question in a follow-up",
         "agents: Results of the previous turn", "asking: Inherited references"),
    _ask("reply from a template with no LLM involved", "asking: Answers without a model"),
    _ask("find the chat of a customer again by phone number or ticket",
         "asking: Sessions found by a key"),
    _ask("How can an auditor see the exact text that was sent?", "auditing: 2. The prompt itself"),
    _ask("give all evidence to somebody who has no installation", "auditing: 5. The bundle",
         "operating: Export, and verify without Turnlog"),
    _ask("in which order do I copy the files for disaster recovery?",
         "back-up: What to copy, in which order"),
    _ask("take a copy of the data while the service keeps running", "back-up: Without a stop"),
    _ask("how many tokens will the next message need?", "before-you-pay: Preview a turn"),
    _ask("how much of a request does a provider's prompt cache share with the last one?",
         "before-you-pay: What a cache can reuse"),
    _ask("block replies that mention forbidden subjects", "blueprints: Safety"),
    _ask("set temperature and maximum output length", "blueprints: Model parameters"),
    _ask("users could imitate the markers around parts of a prompt", "blueprints: Delimiters"),
    _ask("what gets shortened first when the context window is full?", "blueprints: Ladders",
         "operating: What was cut, and why"),
    _ask("does a change of the configuration affect conversations that run already?",
         "blueprints: What is pinned, and when"),
    _ask("the connection broke in the middle of the stream", "browser: Cut in the middle"),
    _ask("use the SDK from JavaScript", "clients: In TypeScript", "browser: With the client"),
    _ask("process each event exactly once in my own database", "consuming: Doing it once",
         "consuming: A table that is always right"),
    _ask("prices of our self-hosted model", "cost-and-time: Own prices"),
    _ask("why was it so slow, queue or model?", "cost-and-time: Where the time of a turn went",
         "cost-and-time: How long a call took"),
    _ask("make a POST safe to repeat", "http: Sent twice, done once"),
    _ask("branch a conversation from an earlier point", "http: Earlier states, and forks"),
    _ask("see my own change right after writing it", "http: Reading what was just written"),
    _ask("texts for characters of a game that authors edit daily", "library: A segment",
         "library: The library"),
    _ask("hide a harmful answer afterwards", "operating: Take something out"),
    _ask("keep what is said in one stage of an interview out of the next",
         "phases: Isolated phases"),
    _ask("a second model rates the conversation", "phases: A judge beside the conversation"),
    _ask("prove that nobody tampered with the history", "proof: What a chain shows",
         "the-log: What the chain proves", "proof: Checkpoints"),
    _ask("which environment variables configure the programs?", "running: Settings"),
    _ask("Prometheus and OpenTelemetry", "running: Traces, metrics and what to watch"),
    _ask("is my message safe on disk once I got the response?", "running: What a 2xx guarantees",
         "the-log: What a 2xx guarantees"),
    _ask("force the model to answer in JSON", "structured-output: How the model is asked",
         "structured-output: Strict mode"),
    _ask("malformed JSON comes back", "structured-output: What becomes of the answer"),
    _ask("two writers append at the same time", "the-log: Appending"),
    _ask("would a different prompt have cost less on past conversations?",
         "what-if: Request a report", "what-if: What the report contains"),
    _ask("upgrade an open chat to a newer version", "what-if: Moving a session"),
    _ask("compare the prompts of two calls", "why: What differs"),
    _ask("explain where each piece of an answer's prompt came from",
         "why: Why", "auditing: 1. Why"),
)  # fmt: skip
