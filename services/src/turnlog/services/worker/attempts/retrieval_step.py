"""The retrieval step: search the knowledge for the next call, and record what was taken.

It is made before the first call of a turn that shows it, and once a turn. Its texts are stored
before it is recorded, and it is recorded before the call, so an attempt that takes the turn over
after a crash finds all of it, or searches again. The queries are the text of the turn, or what the
blueprint makes of it and of the inputs, and nothing of the prompt. If a model is to write them, the
next call of the turn is for that, and the retrieval is made before the call that follows.

A search is at least as new as the latest vote of the tenant. If the program requires
the knowledge, a search that is not possible fails the attempt, which is retried. Any other turn
continues without it, and the record contains the reason.
"""

from __future__ import annotations

import asyncio
from asyncio import timeout
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Final

import structlog

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import PlainText, is_keyed
from turnlog.events.errors import Refused, TurnlogError, Unavailable
from turnlog.events.model.retrieval_events import FeedbackGiven, KnowledgeRetrieved
from turnlog.events.store.ports import BlobStore
from turnlog.projections.blueprint.schema.layer_specs import RetrievalLayer
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    FixedReply,
    QueriesSpec,
    ResolvedRetrieval,
)
from turnlog.projections.blueprint.token_counters import TokenCounter, build_call_counter
from turnlog.projections.knowledge.default_reranker import FUSION_NAME, score_hits
from turnlog.projections.knowledge.query_fusion import FusedHit, join_query_hits
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    KnowledgeSearch,
    SearchRequest,
    SearchResult,
)
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.sources.hit_selection import build_limits, select_hits
from turnlog.projections.prompt.sources.layer_sources import is_condition_met
from turnlog.projections.prompt.sources.retrieval_queries import (
    RetrievalQueries,
    build_queries,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import RecordRetrieval, RequestQueries
from turnlog.projections.session.next_call import SIDE_STAGES
from turnlog.projections.session.open_turn import TurnRetrieval, UnpromptedCall, WrittenQueries
from turnlog.projections.session.rules.outcome_commands import NothingRetrieved
from turnlog.projections.session.rules.steps.retrieval_rules import (
    find_retrieval,
    find_written_queries,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.services.extensions.plugins import load_reranker
from turnlog.services.knowledge.current_search import UNKNOWN_COLLECTION
from turnlog.services.platform.concurrency import run_in_thread, run_text_work
from turnlog.services.platform.process_settings import MODEL_OFF
from turnlog.services.platform.telemetry.traces import Tracing, record_failure
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import load_turn_inputs
from turnlog.services.worker.turn_context import TurnContext, append_command

_log = structlog.get_logger("turnlog.worker")

OPTIONAL_SEARCH_SECONDS: Final = 10.0
"""How long a turn waits for a search that it can do without."""


class KnowledgeFailure(TurnlogError):
    """A turn that cannot do without the knowledge could not search it."""

    def __init__(self, error: Unavailable) -> None:
        super().__init__(str(error))
        self.code = "knowledge_unavailable"
        self.detail = str(error)
        self.retryable = True
        self.retry_after: float | None = error.retry_after


class EmptyKnowledge:
    """The knowledge of a worker without any: it has no collection."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch.search`."""
        detail = f"there is no collection {request.collections[0]!r}"
        raise Refused("unknown-collection", detail, field="collections")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalStep:
    """Makes the retrievals of a worker's turns."""

    sessions: CommandHandler
    blobs: BlobStore
    knowledge: KnowledgeSearch
    default_model: str
    tracing: Tracing

    async def run_due_retrievals(self, context: TurnContext) -> TurnContext:
        """Make the retrievals that the next call shows and the turn has not made yet.

        Raises `KnowledgeFailure`, and `Refused` with `nothing-found` where the turn is to fail
        without what it sought.
        """
        material = context.material
        for name in _list_layers(material, context.state):
            spec = material.blueprint.layers[name]
            call = await self._build_call(context)
            is_due = isinstance(spec, RetrievalLayer) and (
                spec.when is None or is_condition_met(spec.when, material, context.state, call)
            )
            if isinstance(spec, RetrievalLayer) and is_due:
                if self._needs_query_call(context, spec.retrieval):
                    command = RequestQueries(context.attempt, spec.retrieval)
                    return await append_command(self.sessions, context, command)
                context = await self._run_retrieval(context, spec.retrieval)
        return context

    def _needs_query_call(self, context: TurnContext, name: str) -> bool:
        """Return whether a model is to write queries before this retrieval, and there is one."""
        opened, material = context.state.open, context.material
        if find_retrieval(opened, name) or find_written_queries(opened, name):
            return False
        is_unprompted = opened is not None and isinstance(opened.call, UnpromptedCall)
        if not is_unprompted or material.blueprint.find_query_call(name) is None:
            return False
        return material.resolve_model(context.state, self.default_model) != MODEL_OFF

    async def _build_call(self, context: TurnContext) -> PromptCall:
        inputs = await load_turn_inputs(self.sessions, context.state)
        at = format_rfc3339(self.sessions.clock())
        model = context.material.resolve_model(context.state, self.default_model)
        return PromptCall(
            kind=context.material.find_call_kind(context.state), model=model, at=at, inputs=inputs
        )

    async def _run_retrieval(self, context: TurnContext, name: str) -> TurnContext:
        if find_retrieval(context.state.open, name) is None:
            with self.tracing.start_retrieval_span(context.session, name) as span:
                retrieved = await self._search(context, name)
                if retrieved is not None and retrieved.unavailable is not None:
                    record_failure(span, retrieved.unavailable)
            if retrieved is None:
                return context
            command = RecordRetrieval(context.attempt, retrieved)
            context = await append_command(self.sessions, context, command)
        made = find_retrieval(context.state.open, name)
        if made and made.nothing_found == "refuse":
            fix = "ask otherwise, or add what is missing to the collections"
            raise Refused("nothing-found", describe_empty_retrieval(made), fix=fix)
        return context

    async def _search(self, context: TurnContext, name: str) -> KnowledgeRetrieved | None:
        """Search, and store the texts that are taken; None if there is nothing to record."""
        state, material, attempt = context.state, context.material, context.attempt
        settings = material.blueprint.resolve_retrieval(name, state.profile)
        is_required = material.blueprint.profiles[state.profile].program == "knowledge"
        counting = self._build_counter(state, material)
        written = find_written_queries(state.open, name)
        spec = material.blueprint.retrieval[name].queries
        queries = await self._read_queries(state, spec, written)
        first, *others = (PlainText(text=each) for each in queries.texts)
        retrieved = KnowledgeRetrieved(
            turn=attempt.turn,
            call=attempt.call,
            retrieval=name,
            query=first,
            collections=settings.collections,
            limits=build_limits(settings, counting),
            origin=queries.origin,
            more_queries=tuple(others),
            unsearched=queries.unsearched,
            query_call=written.call if written else None,
        )
        try:
            async with timeout(None if is_required else OPTIONAL_SEARCH_SECONDS):
                found = await self._search_queries(state.tenant, settings, queries.texts)
            reranker, hits = await _rank_hits(settings.rerank, queries.texts, found)
        except Refused as error:
            if error.code != UNKNOWN_COLLECTION:
                raise
            if not is_required:
                _log.debug("retrieval-collection-missing", why=error.detail, session=state.session)
                return None
            return _mark_empty(retrieved, settings, error.code)
        except (Unavailable, TimeoutError) as error:
            if is_required and isinstance(error, Unavailable):
                raise KnowledgeFailure(error) from error
            why = str(error) or f"no answer in {OPTIONAL_SEARCH_SECONDS:g} s"
            _log.warning("retrieval-skipped", why=why, session=state.session)
            what = error.what if isinstance(error, Unavailable) else "knowledge-index"
            return retrieved.model_copy(update={"unavailable": what})
        retrieved = retrieved.model_copy(
            update={
                "candidates": select_hits(hits, retrieved.limits, counting),
                "reranker": reranker,
                "index": found[0].index_version,
                "embedder": found[0].embedder,
                "knowledge_position": min(each.positions.knowledge for each in found),
                "votes_position": min(each.positions.votes for each in found),
            }
        )
        if not retrieved.taken:
            return _mark_empty(retrieved, settings)
        await self._store_texts(state.tenant, [each.hit for each in hits], retrieved)
        return retrieved

    async def _search_queries(
        self, tenant: str, settings: ResolvedRetrieval, queries: Sequence[str]
    ) -> Sequence[SearchResult]:
        """Search for each query, one after the other, so that no turn takes a whole index."""
        votes = await self.sessions.log.find_last_position(tenant, FeedbackGiven.leaf)
        requests = (
            SearchRequest(
                tenant=tenant,
                collections=settings.collections,
                text=query,
                min_positions=IndexPositions(votes=votes),
            )
            for query in queries
        )
        return [await self.knowledge.search(request) for request in requests]

    def _build_counter(self, state: SessionState, material: SessionMaterial) -> TokenCounter:
        """Return the counter of the call that the retrieval is made for."""
        spec = material.blueprint.calls[material.find_call_kind(state)]
        budget = material.blueprint.budget[spec.budget] if spec.budget else None
        model = material.resolve_model(state, self.default_model)
        return build_call_counter(budget, material.vocabularies, model)

    async def _read_queries(
        self, state: SessionState, spec: QueriesSpec | None, written: WrittenQueries | None
    ) -> RetrievalQueries:
        text = await self._read_text(state, state.open.submission.text if state.open else None)
        if spec is None:
            return build_queries(None, text, {})
        answer = await self._read_text(state, written.answer if written else None)
        inputs = await load_turn_inputs(self.sessions, state)
        texts = (text, answer, *(each for each in inputs.values() if isinstance(each, str)))
        build = partial(build_queries, spec, text, inputs, answer)
        return await run_text_work(build, sum(map(len, texts)))

    async def _read_text(self, state: SessionState, ref: TextRef | None) -> str:
        if ref is None:
            return ""
        return (await self.sessions.texts.read_texts(state.tenant, (ref,)))[ref]

    async def _store_texts(
        self, tenant: str, hits: Sequence[KnowledgeHit], retrieved: KnowledgeRetrieved
    ) -> None:
        """Store the texts that were taken, each under the digest by which prompts refer to it.

        Those of a sealed library are stored already, under keys that an erasure removes.
        """
        texts = {hit.digest: hit.text for hit in hits}
        wanted = {each.digest for each in retrieved.taken if not is_keyed(each.digest)}
        await asyncio.gather(
            *(self.blobs.put_blob(tenant, texts[digest].encode()) for digest in wanted)
        )


def _list_layers(material: SessionMaterial, state: SessionState) -> tuple[str, ...]:
    """Return the layers of the next call that the blueprint defines; none if it retrieves nothing.

    A call that summarises or writes queries retrieves nothing.
    """
    if material.find_stage(state) in SIDE_STAGES:
        return ()
    blueprint = material.blueprint
    layers = blueprint.calls[material.find_call_kind(state)].layers
    return tuple(name for name in layers if name in blueprint.layers)


def find_fixed_reply(material: SessionMaterial, state: SessionState) -> NothingRetrieved | None:
    """Return the reply without a model where the next call would show nothing that was sought."""
    for made in _list_shown_retrievals(material, state):
        if made.nothing_found == "reply":
            policy = material.blueprint.resolve_retrieval(
                made.retrieval, state.profile
            ).nothing_found
            text = policy.reply if isinstance(policy, FixedReply) else ""
            return NothingRetrieved(text, describe_empty_retrieval(made))
    return None


def _list_shown_retrievals(
    material: SessionMaterial, state: SessionState
) -> Iterator[TurnRetrieval]:
    for name in _list_layers(material, state):
        layer = material.blueprint.layers[name]
        if isinstance(layer, RetrievalLayer):
            made = find_retrieval(state.open, layer.retrieval)
            yield from (made,) if made else ()


def describe_empty_retrieval(made: TurnRetrieval) -> str:
    """Return in words that a retrieval took nothing."""
    why = f" ({made.unavailable})" if made.unavailable else ""
    return f"the retrieval {made.retrieval} found nothing to answer from{why}"


def _mark_empty(
    retrieved: KnowledgeRetrieved, settings: ResolvedRetrieval, unavailable: str | None = None
) -> KnowledgeRetrieved:
    """Record what the turn does without what it sought."""
    policy = settings.nothing_found
    word = "reply" if isinstance(policy, FixedReply) else policy
    return retrieved.model_copy(update={"nothing_found": word, "unavailable": unavailable})


async def _rank_hits(
    rerank: bool | str,  # noqa: FBT001 - as a blueprint writes it
    queries: Sequence[str],
    found: Sequence[SearchResult],
) -> tuple[str | None, tuple[FusedHit, ...]]:
    """Return the reranker's name, or None, and the hits of all queries as it ranks them."""
    hits = [each.hits for each in found]
    if rerank is False:
        return None, join_query_hits(hits)
    by_query = zip(queries, hits, strict=True)
    if rerank is True:
        scores = [score_hits(query, own) for query, own in by_query]
        return FUSION_NAME, join_query_hits(hits, scores)
    given = [await _call_reranker(rerank, query, own) for query, own in by_query]
    return rerank, join_query_hits(hits, given)


async def _call_reranker(name: str, query: str, hits: Sequence[KnowledgeHit]) -> Sequence[float]:
    # The import of its package may take any time.
    rank = await run_in_thread(partial(load_reranker, name))
    try:
        scored = rank(query, hits)
        scores = [float(score) for score in (await scored if isawaitable(scored) else scored)]
    except Exception as error:
        what = f"the reranker {name!r} raised {type(error).__name__}"
        raise Unavailable("reranker", what) from error
    if len(scores) != len(hits):
        what = f"the reranker {name!r} gave {len(scores)} scores for {len(hits)} entries"
        raise Unavailable("reranker", what)
    return scores
