"""The pages on which people watch and run experiments; roles decide what is seen and done.

Whatever is shown comes from `views`: public facts, what was released, and what it cost.
"""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ...privacy import BudgetExceeded
from .. import shares, views
from ..config import ExperimentConfig, PopulationConfig
from ..engine import Engine
from ..experiments import OtherSegments
from ..keeper import PAUSED, RUNNING
from ..outlook import Outlook, forecast, outlook
from ..store import Conflict
from . import problems
from .api import Api
from .auth import ROLES
from .forms import DEFAULTS, LEARNERS, Asked, Fields
from .problems import Problem
from .sessions import HEADERS
from .site import Site, Visit

_FRESH = 10.0  # seconds for which an account is remembered
_MOST_ITEMS = 100  # items that a page lists
WRONG_ITEMS = Problem(
    422,
    "items",
    "The catalogue cannot be changed like that: added items must be new, retired ones must be there, and"
    " enough must be left for a set.",
)


class Pages:
    """The pages over an engine."""

    def __init__(self, engine: Engine, api: Api) -> None:
        self.engine, self.api = engine, api
        self.site = Site(engine.secrets, api)
        self._progress: dict[tuple[str, str], shares.Progress] = {}  # "": of all segments
        self._accounts: dict[str, tuple[float, dict[str, Any]]] = {}

    def routes(self) -> list[Route]:
        """All of them, for Starlette."""
        one, part = "/experiments/{name}", "/parts/experiments/{name}"
        route = self.site.route
        return [
            *self.site.routes(),
            route("GET", "/experiments", "see", self.experiments),
            route("GET", "/parts/experiments", "see", self.experiment_rows),
            route("GET", one, "read", self.experiment),
            route("GET", part, "read", self.live),
            route("GET", f"{part}/numbers", "read", self.numbers),
            route("GET", f"{part}/shares", "read", self.chart),
            route("GET", f"{part}/items", "read", self.items),
            route("POST", f"{one}/pause", "operate", self.pause),
            route("POST", f"{one}/resume", "operate", self.resume),
            route("POST", f"{one}/items", "operate", self.change),
            route("GET", "/new", "operate", self.new),
            route("POST", "/new", "operate", self.create),
            route("POST", "/parts/plan", "operate", self.plan),
            route("POST", "/parts/forecast", "operate", self.forecast),
            route("GET", "/keys", "administer", self.keys),
            route("POST", "/keys", "administer", self.new_key),
            route("POST", "/keys/{key}/revoke", "administer", self.end_key),
        ]

    # --- experiments -----------------------------------------------------------------------------

    async def experiments(self, visit: Visit) -> Response:
        """The list."""
        return self.site.page("experiments.html", visit, rows=await self._rows(visit), mark="")

    async def experiment_rows(self, visit: Visit) -> Response:
        """The list again."""
        return self.site.part(visit, "experiment_rows.html", rows=await self._rows(visit))

    async def _rows(self, visit: Visit) -> list[dict[str, Any]]:
        found = await run_in_threadpool(views.experiments, self.engine.store)
        rows = [row for row in found if visit.may("read", row["name"])]
        for row in rows:
            row["known"] = (await self._shares(row["name"], row["releases"])).last
        return rows

    async def _shares(self, name: str, releases: int, segment: str = "") -> shares.Progress:
        """The shares so far, of one segment or all; only releases that are new are read."""
        progress = self._progress.setdefault((name, segment), shares.Progress())
        if progress.seq < releases:
            new = await run_in_threadpool(
                views.shares, self.engine.store, name, progress.seq, segment or None
            )
            progress.add(one for one in new if one["seq"] > progress.seq)
        return progress

    async def experiment(self, visit: Visit) -> Response:
        """One experiment with everything that may be known of it."""
        given = await self._state(visit)
        shown = await self._found_items(visit)
        given |= {"url": str(visit.request.base_url).rstrip("/"), "mark": ""}
        return self.site.page("experiment.html", visit, **given, **shown)

    async def live(self, visit: Visit) -> Response:
        """What changes on the page of an experiment."""
        return self.site.part(
            visit, "experiment_live.html", "released", part=True, **await self._state(visit)
        )

    async def _state(self, visit: Visit) -> dict[str, Any]:
        store, name = self.engine.store, visit.name
        status = await run_in_threadpool(views.status, store, name)
        segment = chosen_segment(visit, status)
        last = await run_in_threadpool(lambda: views.releases(store, name, limit=1, segment=segment))
        progress = await self._shares(name, status["releases"], segment)
        for one in status["segments"]:
            if one["segment"] == segment:
                status |= {key: one[key] for key in ("display", "last_release", "releases")}
        live = await self.engine.live(name)
        plan = await run_in_threadpool(outlook, live.config, live.people)
        account = await self._account(status["population"])
        periods = [one for one in account["periods"] if one["period"] == status["period"]]
        return {
            "account": account,
            "period": periods[0] if periods else None,
            "status": status,
            "segment": segment,
            "config": status["config"],
            "best": last[0]["values"] if last else [],
            "known": progress.last,
            "points": progress.thinned(12)[::-1],
            "outlook": plan,
            "first": first_release(live.config, plan),
        }

    async def _account(self, population: str) -> dict[str, Any]:
        """The account of a population; it changes with experiments and periods only."""
        read_at, found = self._accounts.get(population, (-_FRESH, {}))
        if time.monotonic() - read_at > _FRESH:
            found = await run_in_threadpool(views.account, self.engine.keeper, population)
            self._accounts[population] = time.monotonic(), found
        return found

    async def numbers(self, visit: Visit) -> Response:
        """The chart as a table."""
        given = await self._state(visit)
        return self.site.page("experiment_numbers.html", visit, **given)

    async def chart(self, visit: Visit) -> Response:
        """The chart as numbers."""
        status = await run_in_threadpool(views.status, self.engine.store, visit.name)
        progress = await self._shares(visit.name, status["releases"], chosen_segment(visit, status))
        return JSONResponse(shares.series(progress.thinned()), headers=dict(HEADERS))

    async def items(self, visit: Visit) -> Response:
        """The items of the catalogue in which something is found."""
        return self.site.page("items.html", visit, **await self._found_items(visit))

    async def _found_items(self, visit: Visit) -> dict[str, Any]:
        wanted = visit.request.query_params.get("find", "").strip()
        every = await run_in_threadpool(views.items, self.engine.store, visit.name)
        found = [one for one in every if wanted.casefold() in one["item"].casefold()]
        return {
            "find": wanted,
            "catalogue": found[:_MOST_ITEMS],
            "found": len(found),
            "in_use": sum(not one["retired"] for one in every),
            "retired": sum(one["retired"] for one in every),
        }

    async def pause(self, visit: Visit) -> Response:
        """No more decisions for now."""
        return await self._set(visit, PAUSED)

    async def resume(self, visit: Visit) -> Response:
        """On with it."""
        return await self._set(visit, RUNNING)

    async def _set(self, visit: Visit, status: str) -> Response:
        live = await self.engine.live(visit.name)
        if not await run_in_threadpool(self.engine.keeper.set_status, live.id, status):
            raise problems.FROZEN
        await self.engine.refresh(live.name)
        return RedirectResponse(f"/experiments/{live.name}", 303, dict(HEADERS))

    async def change(self, visit: Visit) -> Response:
        """Add and retire items."""
        live = await self.engine.live(visit.name)
        add, retire = (
            [line.strip() for line in visit.given.get(name, "").splitlines() if line.strip()]
            for name in ("add", "retire")
        )
        try:
            await run_in_threadpool(self.engine.keeper.change_items, live.id, add, retire)
        except (ValueError, TypeError, NotImplementedError, LookupError, RuntimeError):
            raise WRONG_ITEMS from None
        await self.engine.refresh(live.name)
        return RedirectResponse(f"/experiments/{live.name}#catalogue", 303, dict(HEADERS))

    # --- a new one -------------------------------------------------------------------------------

    async def new(self, visit: Visit) -> Response:
        """The form."""
        return self._form(visit, DEFAULTS, {}, await self._populations())

    def _form(
        self, visit: Visit, given: Fields, errors: Fields, people: dict[str, PopulationConfig]
    ) -> Response:
        status = 422 if errors else 200
        options = [(name, f"{name} (epsilon {one.epsilon:g})") for name, one in people.items()]
        learners = list(LEARNERS.items())
        return self.site.page(
            "new.html", visit, status, given=given, errors=errors, options=options, learners=learners
        )

    async def _populations(self) -> dict[str, PopulationConfig]:
        found = await run_in_threadpool(views.populations, self.engine.keeper)
        return {one["name"]: msgspec.convert(one["budget"], PopulationConfig) for one in found}

    async def create(self, visit: Visit) -> Response:
        """Make what the form asks for."""
        people = await self._populations()
        asked = Asked(visit.given, people)
        known = await run_in_threadpool(views.experiments, self.engine.store)
        asked.check_names({one["name"] for one in known}, set(people))
        await run_in_threadpool(asked.outlook)
        if not asked.errors:
            await run_in_threadpool(self._make, asked)
        if asked.errors:
            return self._form(visit, asked.given, asked.errors, await self._populations())
        self._accounts.pop(asked.population, None)
        await self.engine.refresh(asked.name)
        return RedirectResponse(f"/experiments/{asked.name}", 303, dict(HEADERS))

    def _make(self, asked: Asked) -> None:
        assert asked.people is not None
        assert asked.config is not None
        keeper = self.engine.keeper
        try:
            if asked.makes_population:
                keeper.create_population(asked.population, asked.people)
            keeper.create(asked.name, asked.population, asked.config)
        except BudgetExceeded as refused:
            shown = refused.preview
            asked.errors["share"] = (
                f"In this period epsilon {shown.spent:.3g} of {shown.limit:g} is spent, and this would make"
                f" it {shown.after:.3g}. Take a smaller share, or another population."
            )
        except Conflict:
            asked.errors["name"] = "There is one of this name already."
        except OtherSegments:
            asked.errors["segments"] = (
                "Another experiment about these people has other segments: take the same, or none."
            )
        except (ValueError, TypeError, NotImplementedError):
            asked.errors["form"] = "No learner can be made with these settings."

    async def plan(self, visit: Visit) -> Response:
        """What would be released, as one types."""
        asked = Asked(visit.given, await self._populations())
        plan = await run_in_threadpool(asked.outlook)
        whose, spent = asked.people, []
        if whose is not None and not asked.makes_population:
            now = self.engine.keeper.period(whose)
            periods = (await self._account(asked.population))["periods"]
            spent = [one for one in periods if one["period"] == now]
        words = "" if whose is None else promise(whose)
        return self.site.page("plan.html", visit, asked=asked, outlook=plan, promise=words, spent=spent)

    async def forecast(self, visit: Visit) -> Response:
        """What to expect of it, which takes a moment."""
        asked = Asked(visit.given, await self._populations())
        if await run_in_threadpool(asked.outlook) is None:
            return self.site.page("forecast.html", visit, found=None)
        assert asked.config is not None
        assert asked.people is not None
        people = int(float(f"{asked.visitors:.2g}"))
        try:
            found = await run_in_threadpool(forecast, asked.config, asked.people, people)
        except (ValueError, TypeError, NotImplementedError, RuntimeError):
            found = None
        return self.site.page("forecast.html", visit, found=found)

    # --- keys ------------------------------------------------------------------------------------

    async def keys(self, visit: Visit) -> Response:
        """All keys."""
        return await self._keys(visit)

    async def _keys(self, visit: Visit, status: int = 200, **more: Any) -> Response:
        listed = await run_in_threadpool(self.api.keys.listed)
        known = await run_in_threadpool(views.experiments, self.engine.store)
        given = {"made": None, "error": None, "given": {}} | more
        return self.site.page(
            "keys.html",
            visit,
            status,
            keys=listed,
            roles=list(ROLES),
            experiments=sorted(row["name"] for row in known),
            **given,
        )

    async def new_key(self, visit: Visit) -> Response:
        """A key, shown this once."""
        name, role = visit.given.get("name", "").strip(), visit.given.get("role", "")
        scope = visit.given.get("experiments", "").replace(",", " ").split() or None
        if not 1 <= len(name) <= 100 or role not in ROLES:
            return await self._keys(visit, 422, error="Give the key a name and a role.", given=visit.given)
        number, token = await run_in_threadpool(self.api.keys.create, name, role, scope)
        return await self._keys(visit, made={"id": number, "key": token, "name": name, "role": role})

    async def end_key(self, visit: Visit) -> Response:
        """The end of a key."""
        number = visit.request.path_params["key"]
        if number == visit.key.id:
            return await self._keys(visit, 422, error="This is the key that you are logged in with.")
        if not await run_in_threadpool(self.api.keys.revoke, number):
            raise problems.NOT_FOUND
        return RedirectResponse("/keys", 303, dict(HEADERS))


def chosen_segment(visit: Visit, status: dict[str, Any]) -> str:
    """The segment that a page is about; "" for all of them."""
    asked = visit.request.query_params.get("segment", "")
    return asked if asked in status["config"]["segments"] else ""


def promise(people: PopulationConfig) -> str:
    """The guarantee of a population in words."""
    return views.promise(people.epsilon, people.delta, people.neighbours, people.max_rounds_per_person)


def first_release(config: ExperimentConfig, plan: Outlook) -> dict[str, int | None]:
    """After about how many decisions something is known first: of items, and of shares; whole hands."""

    def whole(many: float | None) -> int | None:
        hand = config.hand or 1
        return None if many is None else math.ceil(many / hand) * hand

    learned = None if plan.begins is None else plan.begins / (1.0 - config.holdout)
    return {"counts": whole(learned), "shares": whole(plan.measured_every)}
