"""The verbs of Azure Personalizer (API v1.0) over an experiment: rank, reward, activate.

A rank is a decision, a reward its outcome. What people are like is not read: features are skipped by the
parser, and are in no log and no table. docs/service/personalizer.md says what is the same, and what is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import groups, problems
from .api import LARGEST, MANY, Operation, body, check_decides, decoded, problem_of
from .auth import DecisionId, Key, Keys, new_token, token_of
from .blocks import DecisionBlock
from .engine import DecisionEngine, Live, NotEnoughItems
from .problems import Problem

if TYPE_CHECKING:
    from .metrics import Metrics

PREFIX, SCOPED = "/personalizer/v1.0", "/v1/experiments/{name}/personalizer/v1.0"
HEADER = b"ocp-apim-subscription-key"
NO_KEY = Problem(401, "no-key", "An API key is needed: Ocp-Apim-Subscription-Key: KEY.")
WHICH = Problem(
    400, "which-experiment", "This API key is not for exactly one experiment: the endpoint has to name it."
)
UNKNOWN_ACTION = Problem(400, "unknown-action", "An action is not in the catalogue of the experiment.")
NO_ACTION = Problem(400, "no-action", "There must be actions, each of them once, that are not excluded.")
NO_VALUES = Problem(409, "feedback", "This experiment does not learn from values.")
BAD_EVENT = Problem(400, "event", "An eventId has 1 to 256 characters, and no slash.")
BAD_VALUE = Problem(400, "value", "A reward is a number from 0 to the experiment's bound.")

_Id = Annotated[str, msgspec.Meta(max_length=256)]


class Action(msgspec.Struct):
    """An action by its id; its features are not read."""

    id: _Id


class RankRequest(msgspec.Struct, rename="camel"):
    """What can be shown; context features are not read. ``person`` is an addition: see decisions."""

    actions: Annotated[list[Action], msgspec.Meta(max_length=MANY)]
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None
    person: Annotated[str, msgspec.Meta(max_length=1024)] | None = None


class RewardRequest(msgspec.Struct):
    """The value of what was shown."""

    value: float


OPERATIONS = (
    Operation("POST", f"{SCOPED}/rank", "rank", "decide",
              "Azure Personalizer's verbs: rank actions of the catalogue", RankRequest,
              {"actions": [{"id": "red", "features": [{}]}, {"id": "blue", "features": [{}]}],
               "excludedActions": [], "eventId": "visit 17", "deferActivation": False},
              {"ranking": [{"id": "blue", "probability": 1.0}, {"id": "red", "probability": 0.0}],
               "eventId": "visit 17", "rewardActionId": "blue"}, 201),
    Operation("POST", f"{SCOPED}/events/{{event}}/reward", "reward", "decide",
              "The value of an event, from 0 to bound", RewardRequest, {"value": 1.0}, None, 204),
    Operation("POST", f"{SCOPED}/events/{{event}}/activate", "activate", "decide",
              "An event with deferred activation was seen", None, None, None, 204),
    Operation("GET", f"{SCOPED}/configurations/service", "configuration", "decide",
              "How rewards are waited for"),
)  # fmt: skip
_rank = msgspec.json.Decoder(RankRequest).decode
_reward = msgspec.json.Decoder(RewardRequest).decode
_encode = msgspec.json.Encoder().encode


class Personalizer:
    """The routes of the facade, for Starlette."""

    def __init__(self, engine: DecisionEngine, keys: Keys, metrics: Metrics | None = None) -> None:
        self._engine, self._keys, self._metrics = engine, keys, metrics

    def routes(self) -> list[Route]:
        """Each at the plain path, and under the experiment's."""
        return [
            Route(one.path.replace(SCOPED, prefix), self._endpoint(one), methods=[one.method])
            for prefix in (PREFIX, SCOPED)
            for one in OPERATIONS
        ]

    def _endpoint(self, one: Operation) -> Callable[[Request], Awaitable[Response]]:
        work: Callable[[Live, Request], Awaitable[Any]] = getattr(self, one.handler)

        async def endpoint(request: Request) -> Response:
            try:
                key = self._keys.known(_token(request.scope["headers"]), "decide")
                found = await work(await self._live(request.path_params.get("name"), key), request)
                kind = None if found is None else "application/json"
                answer = Response(b"" if found is None else _encode(found), one.status, media_type=kind)
            except Exception as error:
                answer = refusal(problem_of(error))
            if self._metrics is not None and (one.handler == "rank" or answer.status_code >= 500):
                self._metrics.answered(one.handler, answer.status_code)
            return answer

        return endpoint

    async def _live(self, name: str | None, key: Key) -> Live:
        """The experiment that is meant: the one that the path names, or the only one of the key."""
        if name is None:
            if key.experiments is None or len(key.experiments) != 1:
                raise WHICH
            (name,) = key.experiments
        elif not key.may("decide", name):
            raise problems.WRONG_ROLE
        live = await self._engine.live(name)
        if live.config.feedback != "value":
            raise NO_VALUES
        if live.segments:  # of which these requests name none
            raise problems.SEGMENT
        return live

    async def rank(self, live: Live, request: Request) -> Any:
        """What to show: the set that was allocated first, then the rest by what was released."""
        asked = decoded(await body(request.receive, LARGEST * 16), _rank)
        given = [action.id for action in asked.actions]
        excluded = set(asked.excluded_actions or ())
        if len(set(given)) < len(given) or excluded.issuperset(given):
            raise NO_ACTION
        if not live.known.issuperset(given):
            raise UNKNOWN_ACTION
        check_decides(live, asked.person)
        event, secrets = asked.event_id, self._engine.secrets
        number = None if event is None else self._number(live, event)
        pseudonym = self._engine.pseudonym(live, asked.person)
        block, offset = await self._engine.next_decision(live, pseudonym)
        order, altered = ranked(live, block, offset, [a for a in given if a not in excluded])
        answer = _response(given, excluded, order)
        if event is None and not asked.defer_activation:  # the id says it all
            signed = secrets.sign(live.id, block.epoch, block.first + offset, pseudonym, altered)
            return _ranked(answer, signed)
        if number is None:
            event = new_token(16)
            number = self._number(live, event)
        active = not asked.defer_activation
        kept = await self._engine.keep(number, altered, _encode(answer).decode(), active=active)
        return _ranked(msgspec.json.decode(kept.answer), event)

    async def reward(self, live: Live, request: Request) -> None:
        """What came of an event; the first one counts."""
        asked = decoded(await body(request.receive, LARGEST * 16), _reward)
        if not 0.0 <= asked.value <= live.config.bound:
            raise BAD_VALUE
        event = request.path_params["event"]
        decision = self._engine.secrets.verify(event)
        if decision is None:
            number = self._number(live, event)
            found = await run_in_threadpool(groups.request, self._engine.store, live.id, number)
            if found is None:
                return  # its time is over, or it never was
            decision = DecisionId(live.id, found.epoch, found.sequence, found.pseudonym, found.altered)
        elif decision.experiment != live.id:
            raise problems.NOT_SIGNED
        await self._engine.record(decision, _encode(asked.value))

    async def activate(self, live: Live, request: Request) -> None:
        """An event whose activation was deferred has been seen."""
        await self._engine.activate(live.id, self._number(live, request.path_params["event"]))

    async def configuration(self, live: Live, request: Request) -> Any:  # noqa: ARG002
        """How rewards are waited for; nothing can be set here."""
        return {
            "rewardWaitTime": f"PT{live.config.outcome_wait:g}S",
            "defaultReward": 0.0,
            "rewardAggregation": "earliest",
            "explorationPercentage": live.config.holdout,
            "modelExportFrequency": "PT0S",
            "logMirrorEnabled": False,
            "logRetentionDays": 0,
        }

    def _number(self, live: Live, event: str) -> bytes:
        if not 1 <= len(event) <= 256 or "/" in event:
            raise BAD_EVENT
        return self._engine.secrets.request(live.id, _encode(["event", event]))


class _Others:
    """Everything but these."""

    def __init__(self, these: Iterable[str]) -> None:
        self._these = frozenset(these)

    def __contains__(self, label: object) -> bool:
        return label not in self._these


def ranked(live: Live, block: DecisionBlock, offset: int, available: list[str]) -> tuple[list[str], bool]:
    """The available labels in order, and whether other items come first than were allocated.

    The set of the decision comes first, then what is best by releases, then the rest as it was given.
    """
    try:
        shown, altered = live.without(block, offset, _Others(available))
    except NotEnoughItems:  # of those that are known to be good
        shown, altered = [], True
    spare = [live.labels[item] for item in block.spare]
    wanted = set(available)
    order = [label for label in dict.fromkeys([*shown, *spare, *available]) if label in wanted]
    return order, altered


def _response(given: list[str], excluded: set[str], order: list[str]) -> dict[str, Any]:
    """The ranking; excluded actions stay where they were given."""
    rest = iter(order)
    ranking = [action if action in excluded else next(rest) for action in given]
    # The draw was made, and committed, before anybody asked: it is certain by now.
    shown = [{"id": one, "probability": float(one == order[0])} for one in ranking]
    return {"ranking": shown, "rewardActionId": order[0]}


def _ranked(answer: dict[str, Any], event: str | None) -> dict[str, Any]:
    """An answer in the order of that service's."""
    return {"ranking": answer["ranking"], "eventId": event, "rewardActionId": answer["rewardActionId"]}


def _token(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key of a request, in that service's header or in ours."""
    for name, value in headers:
        if name == HEADER:
            return value.strip()
    try:
        return token_of(headers)
    except Problem:
        raise NO_KEY from None


_CODES = {400: "BadRequest", 404: "ResourceNotFound"}


def refusal(problem: Problem) -> Response:
    """A refusal as that service words it, with a fixed text."""
    status = 400 if problem.status == 422 else problem.status
    code = "InternalServerError" if status >= 500 else _CODES.get(status, str(status))
    error = {"code": code, "message": problem.title, "innerError": {"code": problem.name}}
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return Response(_encode({"error": error}), status, headers, "application/json")
