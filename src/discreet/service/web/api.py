"""The routes that people who run experiments use; JSON in, JSON out."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ... import planning
from ...privacy import Budget, BudgetExceeded
from .. import views
from ..config import ConstraintConfig, ExperimentConfig, PopulationConfig
from ..engine import Engine
from ..experiments import OtherSegments
from ..keeper import PAUSED, RUNNING
from ..store import Conflict, Frozen, StoreError
from . import problems
from .auth import ROLES, Keys, token_of
from .hot import body
from .problems import Problem

logger = logging.getLogger("discreet.service")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NewPopulation(PopulationConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A population to be made."""

    name: str


class NewExperiment(ExperimentConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment to be made, about the people of a population."""

    name: str
    population: str


class Changes(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a catalogue: public facts."""

    add_items: list[str] = []
    retire_items: list[str] = []


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """An API key to be made; ``experiments`` limits it to these."""

    name: str
    role: Literal["app", "analyst", "operator", "admin"]
    experiments: list[str] | None = None


class PlanRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be chosen for whom, for a forecast."""

    items: int
    k: int
    people: int
    epsilon: float
    delta: float = 0.0
    feedback: Literal["likes", "taken", "value"] = "likes"
    goal: Literal["expected", "certified"] = "expected"
    constraint: ConstraintConfig | None = None


class Api:
    """The JSON routes over an engine."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self.engine, self.keys = engine, keys

    def routes(self) -> list[Route]:
        """All of them, for Starlette."""
        one = "/v1/experiments/{name}"
        return [
            self._route("GET", "/v1/populations", "read", self.populations),
            self._route("POST", "/v1/populations", "operate", self.new_population),
            self._route("GET", "/v1/populations/{population}/account", "read", self.account_of),
            self._route("GET", "/v1/experiments", "read", self.experiments),
            self._route("POST", "/v1/experiments", "operate", self.new_experiment),
            self._route("GET", one, "read", self.status),
            self._route("PATCH", one, "operate", self.change),
            self._route("GET", f"{one}/status", "read", self.status),
            self._route("GET", f"{one}/account", "read", self.account),
            self._route("GET", f"{one}/releases", "read", self.releases),
            self._route("GET", f"{one}/epochs", "read", self.epochs),
            self._route("GET", f"{one}/items", "read", self.items),
            self._route("POST", f"{one}/pause", "operate", self.pause),
            self._route("POST", f"{one}/resume", "operate", self.resume),
            self._route("POST", "/v1/plan", "read", self.plan),
            self._route("DELETE", "/v1/people/{person}", "erase", self.erase),
            self._route("GET", "/v1/keys", "administer", self.list_keys),
            self._route("POST", "/v1/keys", "administer", self.new_key),
            self._route("DELETE", "/v1/keys/{key}", "administer", self.end_key),
        ]

    def _route(
        self, method: str, path: str, action: str, handler: Callable[[Request], Awaitable[Any]]
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                name = request.path_params.get("name")
                key = await run_in_threadpool(
                    self.keys.check, token_of(request.scope["headers"]), action, name
                )
                found = await handler(request)
                if method != "GET":
                    await run_in_threadpool(self.audit, key.id, f"{method} {path}")
            except Problem as problem:
                return refusal(problem)
            except LookupError:
                return refusal(problems.NOT_FOUND)
            except StoreError:
                return refusal(problems.NO_STORE)
            except Exception as error:  # its text may quote what was asked for
                logger.error("a request failed: %s", type(error).__name__)
                return refusal(problems.FAILED)
            if isinstance(found, Response):
                return found
            return Response(msgspec.json.encode(found), media_type="application/json")

        return Route(path, endpoint, methods=[method], name=handler.__name__)

    def audit(self, key: str, action: str) -> None:
        """Who did what, without what it was done to: names of people never get here."""
        with self.engine.store.transaction() as tx:
            tx.do("INSERT INTO audit (at, api_key, action) VALUES (?, ?, ?)", tx.now(), key, action)

    # --- populations -----------------------------------------------------------------------------

    async def populations(self, request: Request) -> Any:  # noqa: ARG002
        return {"populations": await run_in_threadpool(views.populations, self.engine.keeper)}

    async def new_population(self, request: Request) -> Any:
        asked = await read(request, NewPopulation)
        check_name(asked.name)
        fields = {name: getattr(asked, name) for name in PopulationConfig.__struct_fields__}
        await self._make(self.engine.keeper.create_population, asked.name, PopulationConfig(**fields))
        return created({"name": asked.name})

    async def account_of(self, request: Request) -> Any:
        return await run_in_threadpool(views.account, self.engine.keeper, request.path_params["population"])

    # --- experiments -----------------------------------------------------------------------------

    async def experiments(self, request: Request) -> Any:  # noqa: ARG002
        return {"experiments": await run_in_threadpool(views.experiments, self.engine.store)}

    async def new_experiment(self, request: Request) -> Any:
        asked = await read(request, NewExperiment)
        check_name(asked.name)
        if len(set(asked.items)) < len(asked.items):
            raise problems.BAD_BODY.with_(at="$.items", detail="An item is there twice.")
        if not 1 <= asked.k <= len(asked.items):
            raise problems.BAD_BODY.with_(at="$.k", detail="It is from 1 to the number of items.")
        fields = {name: getattr(asked, name) for name in ExperimentConfig.__struct_fields__}
        await self._make(self.engine.keeper.create, asked.name, asked.population, ExperimentConfig(**fields))
        await self.engine.refresh(asked.name)
        return created({"name": asked.name})

    async def _make(self, make: Callable[..., Any], *given: Any) -> None:
        try:
            await run_in_threadpool(make, *given)
        except BudgetExceeded as refused:
            raise over_budget(refused) from None
        except Conflict:
            raise problems.EXISTS from None
        except Frozen:
            raise problems.FROZEN from None
        except OtherSegments:
            raise problems.OTHER_SEGMENTS from None
        except LookupError as missing:
            if missing.args == ("population",):
                raise problems.NOT_FOUND.with_(at="$.population") from None
            raise
        except (ValueError, TypeError, NotImplementedError):
            raise problems.BAD_BODY from None

    async def status(self, request: Request) -> Any:
        return await run_in_threadpool(views.status, self.engine.store, request.path_params["name"])

    async def account(self, request: Request) -> Any:
        found = await self.engine.live(request.path_params["name"])
        status = await run_in_threadpool(views.status, self.engine.store, found.name)
        return await run_in_threadpool(views.account, self.engine.keeper, status["population"])

    async def releases(self, request: Request) -> Any:
        before, limit = request.query_params.get("before"), request.query_params.get("limit", "100")
        if not all(re.fullmatch(r"\d{1,18}", one) for one in (limit, before or "0")):
            raise problems.BAD_BODY
        found = await run_in_threadpool(
            lambda: views.releases(
                self.engine.store,
                request.path_params["name"],
                before=None if before is None else int(before),
                limit=min(int(limit), 1000),
                segment=request.query_params.get("segment"),
            )
        )
        return {"releases": found}

    async def epochs(self, request: Request) -> Any:
        found = await run_in_threadpool(views.epochs, self.engine.store, request.path_params["name"])
        return {"epochs": found}

    async def items(self, request: Request) -> Any:
        found = await run_in_threadpool(views.items, self.engine.store, request.path_params["name"])
        return {"items": found}

    async def change(self, request: Request) -> Any:
        asked = await read(request, Changes)
        live = await self.engine.live(request.path_params["name"])
        await self._make(self.engine.keeper.change_items, live.id, asked.add_items, asked.retire_items)
        await self.engine.refresh(live.name)
        return await self.status(request)

    async def pause(self, request: Request) -> Any:
        return await self._set(request, PAUSED)

    async def resume(self, request: Request) -> Any:
        return await self._set(request, RUNNING)

    async def _set(self, request: Request, status: str) -> Any:
        live = await self.engine.live(request.path_params["name"])
        if not await run_in_threadpool(self.engine.keeper.set_status, live.id, status):
            raise problems.FROZEN
        await self.engine.refresh(live.name)
        return {"name": live.name, "status": status}

    async def plan(self, request: Request) -> Any:
        asked = await read(request, PlanRequest)
        return await run_in_threadpool(forecast, asked)

    # --- people and keys -------------------------------------------------------------------------

    async def erase(self, request: Request) -> Any:
        population = request.query_params.get("population")
        if population is None:
            raise problems.BAD_BODY
        await run_in_threadpool(self.engine.erase, population, request.path_params["person"])
        return {"status": "erased"}

    async def list_keys(self, request: Request) -> Any:  # noqa: ARG002
        return {"keys": await run_in_threadpool(self.keys.listed)}

    async def new_key(self, request: Request) -> Any:
        asked = await read(request, NewKey)
        if asked.role not in ROLES:
            raise problems.BAD_BODY.with_(at="$.role", detail=f"One of {', '.join(ROLES)}.")
        number, token = await run_in_threadpool(self.keys.create, asked.name, asked.role, asked.experiments)
        return created({"id": number, "key": token})

    async def end_key(self, request: Request) -> Any:
        if not await run_in_threadpool(self.keys.revoke, request.path_params["key"]):
            raise problems.NOT_FOUND
        return {"status": "revoked"}


def forecast(asked: PlanRequest) -> dict[str, Any]:
    """Which learner, and what to expect of it."""
    kind = {"likes": "full", "taken": "slots", "value": "bandit"}[asked.feedback]
    try:
        found = planning.plan(
            n_items=asked.items,
            k=asked.k,
            rounds=asked.people,
            budget=Budget(asked.epsilon, asked.delta),
            feedback=kind,
            stream="stationary",
            goal=asked.goal,
        )
    except (ValueError, TypeError):
        raise problems.BAD_BODY from None
    return {"text": str(found)}


async def read(request: Request, kind: type[Any]) -> Any:
    """The body of a request."""
    raw = await body(request.receive, 1 << 26)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise problems.BAD_BODY.with_(**_where(str(error))) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise problems.BAD_BODY.with_(detail="It is no JSON.") from None


_TYPES = re.compile(r"Expected `[a-z| ]+`, got `[a-z]+`|Object missing required field `\w+`")
_TEXTS = {
    "Object contains unknown field": "A field is not known.",
    "Invalid enum value": "None of the values.",
}


def _where(text: str) -> dict[str, str]:
    """Where a body is wrong, in words that repeat nothing of it."""
    said, _, at = text.partition(" - at `")
    found = {"at": at.rstrip("`")} if at else {}  # names of fields, and numbers of places
    if _TYPES.fullmatch(said):
        found["detail"] = f"{said}."
    for start, words in _TEXTS.items():
        if said.startswith(start):
            found["detail"] = words
    return found


def check_name(name: str) -> None:
    """Names that go into paths."""
    if not NAME.fullmatch(name):
        raise problems.BAD_BODY.with_(
            at="$.name", detail="A name has up to 64 letters, digits and . _ - and begins with no sign."
        )


def created(found: Any) -> Response:
    """What was made."""
    return Response(msgspec.json.encode(found), status_code=201, media_type="application/json")


def refusal(problem: Problem) -> Response:
    """A refusal, for Starlette."""
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return Response(problem.body(), problem.status, headers, "application/problem+json")


def over_budget(refused: BudgetExceeded) -> Problem:
    """What was spent, asked for and allowed, and what would fit: all of it public."""
    shown = refused.preview
    return problems.OVER_BUDGET.with_(
        spent=shown.spent,
        after=shown.after,
        limit=shown.limit,
        delta=shown.delta,
        largest_that_fits=None if shown.largest is None else str(shown.largest),
    )
