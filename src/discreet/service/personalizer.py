"""The verbs of Azure Personalizer (API v1.0) over an experiment: rank, reward, activate.

A rank is a decision, a reward its outcome. What people are like is not read: features are skipped by the
parser, and are in no log and no table. docs/service/personalizer.md says what is the same, and what is not.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.identity import name_of
from . import problems
from .api import LARGEST, MANY, body, taken
from .auth import Decision, Key, Keys, new_token, token_of
from .blocks import DecisionBlock
from .database import StoreError
from .engine import Engine, Live, NotEnoughItems, pseudonym_of, running
from .metrics import Metrics
from .problems import Problem

logger = logging.getLogger("discreet.service")
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
    """What it was worth."""

    value: float


Work = Callable[[Live, Request], Awaitable[Response]]
_encode = msgspec.json.Encoder().encode


class Personalizer:
    """The routes of the facade, for Starlette."""

    def __init__(self, engine: Engine, keys: Keys, metrics: Metrics | None = None) -> None:
        self._engine, self._keys, self._metrics = engine, keys, metrics
        self._labels: dict[int, tuple[list[str], frozenset[str]]] = {}

    def routes(self) -> list[Route]:
        """Each at the plain path, and under the experiment's."""
        handlers: tuple[tuple[str, str, Work], ...] = (
            ("POST", "/rank", self.rank),
            ("POST", "/events/{event}/reward", self.reward),
            ("POST", "/events/{event}/activate", self.activate),
            ("GET", "/configurations/service", self.configuration),
        )
        return [
            Route(prefix + path, self._endpoint(work), methods=[method], name=work.__name__)
            for prefix in (PREFIX, SCOPED)
            for method, path, work in handlers
        ]

    def _endpoint(self, work: Work) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                key = self._keys.known(_token(request.scope["headers"]), "decide")
                found = await work(await self._live(request.path_params.get("name"), key), request)
            except Problem as problem:
                found = refusal(problem)
            except StoreError:
                found = refusal(problems.NO_STORE)
            except Exception as error:
                logger.error("a request failed: %s", type(error).__name__)
                found = refusal(problems.FAILED)
            if self._metrics is not None and (work == self.rank or found.status_code >= 500):
                self._metrics.answered(work.__name__, found.status_code)
            return found

        return endpoint

    async def _live(self, name: str | None, key: Key) -> Live:
        """The experiment that is meant: the one that the path names, or the only one of the key."""
        if name is None:
            if key.experiments is None or len(key.experiments) != 1:
                raise WHICH
            (name,) = key.experiments
        elif not key.may("decide", name):
            raise problems.WRONG_ROLE
        try:
            live = await self._engine.live(name)
        except LookupError:
            raise problems.NOT_FOUND from None
        if live.config.feedback != "value":
            raise NO_VALUES
        if live.segments:  # of which these requests name none
            raise problems.SEGMENT
        return live

    # --- the verbs -------------------------------------------------------------------------------

    async def rank(self, live: Live, request: Request) -> Response:
        """What to show: the set that was allocated first, then the rest by what was released."""
        asked = await _read(request, RankRequest)
        given = [action.id for action in asked.actions]
        excluded = set(asked.excluded_actions or ())
        if len(set(given)) < len(given) or excluded.issuperset(given):
            raise NO_ACTION
        if not self._known(live).issuperset(given):
            raise UNKNOWN_ACTION
        if not running(live):
            raise problems.NOT_RUNNING
        if (asked.person is None or name_of(asked.person) is None) and not live.people.anonymous:
            raise problems.PERSON
        name = asked.event_id
        number = None if name is None else self._number(live, name)
        pseudonym = pseudonym_of(self._engine, live, asked.person)
        block, offset = await taken(self._engine, live, pseudonym)
        order, altered = ranked(live, block, offset, [a for a in given if a not in excluded])
        answer = _encode(_response(given, excluded, order)).decode()
        if name is None and not asked.defer_activation:  # the id says it all
            place = block.first + offset
            return _ranked(answer, self._engine.secrets.sign(live.id, block.epoch, place, pseudonym, altered))
        if number is None or name is None:
            name = new_token(16)
            number = self._number(live, name)
        kept = self._engine.keep(number, altered, answer, active=not asked.defer_activation)
        return _ranked((await kept).answer, name)

    async def reward(self, live: Live, request: Request) -> Response:
        """What came of an event; the first one counts."""
        asked = await _read(request, RewardRequest)
        if not 0.0 <= asked.value <= live.config.bound:
            raise BAD_VALUE
        name = request.path_params["event"]
        decision = self._engine.secrets.verify(name)
        if decision is None:
            found = await self._engine.request(live.id, self._number(live, name))
            if found is None:
                return Response(status_code=204)  # its time is over, or it never was
            decision = Decision(live.id, found.epoch, found.place, found.pseudonym, found.altered)
        elif decision.experiment != live.id:
            raise problems.NOT_SIGNED
        await self._engine.record(decision, _encode(asked.value))
        return Response(status_code=204)

    async def activate(self, live: Live, request: Request) -> Response:
        """An event whose activation was deferred has been seen."""
        number = self._number(live, request.path_params["event"])
        await self._engine.activate(live.id, number)
        return Response(status_code=204)

    async def configuration(self, live: Live, request: Request) -> Response:  # noqa: ARG002
        """How rewards are waited for; nothing can be set here."""
        found = {
            "rewardWaitTime": f"PT{live.config.outcome_wait:g}S",
            "defaultReward": 0.0,
            "rewardAggregation": "earliest",
            "explorationPercentage": live.config.holdout,
            "modelExportFrequency": "PT0S",
            "logMirrorEnabled": False,
            "logRetentionDays": 0,
        }
        return Response(_encode(found), media_type="application/json")

    # --- inside ----------------------------------------------------------------------------------

    def _known(self, live: Live) -> frozenset[str]:
        """The labels of its catalogue."""
        found = self._labels.get(live.id)
        if found is None or found[0] is not live.labels:
            self._labels[live.id] = found = (live.labels, frozenset(live.labels))
        return found[1]

    def _number(self, live: Live, name: str) -> bytes:
        if not 1 <= len(name) <= 256 or "/" in name:
            raise BAD_EVENT
        return self._engine.secrets.request(live.id, _encode(["event", name]))


class _Others:
    """Everything but these."""

    def __init__(self, these: Iterable[str]) -> None:
        self._these = frozenset(these)

    def __contains__(self, label: object) -> bool:
        return label not in self._these


def ranked(live: Live, block: DecisionBlock, offset: int, available: list[str]) -> tuple[list[str], bool]:
    """The available labels in order, and whether other items come first than were allocated for this place.

    The set of the place comes first, then what is best by releases, then the rest as it was given.
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


def _ranked(answer: str, name: str) -> Response:
    found = msgspec.json.decode(answer)
    content = {"ranking": found["ranking"], "eventId": name, "rewardActionId": found["rewardActionId"]}
    return Response(_encode(content), 201, media_type="application/json")


async def _read(request: Request, kind: type[Any]) -> Any:
    raw = await body(request.receive, LARGEST * 16)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise problems.BAD_BODY from None


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
