"""The pages on which people watch and run experiments; roles decide what is seen and done.

Whatever is shown comes from `queries`: public facts, what was released, and what it cost. Templates escape
everything; forms are checked as a whole, with an error beside each field.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

import jinja2
import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ..privacy import BudgetExceeded
from . import problems, queries, shares
from .api import NAME, Api, body
from .auth import (
    COOKIE,
    HEADERS,
    ROLES,
    Key,
    Secrets,
    Session,
    Sessions,
    Throttle,
    same_site,
    same_token,
    set_cookie,
)
from .config import ConstraintConfig, ExperimentConfig, PopulationConfig
from .database import Conflict, Frozen, StoreError
from .engine import Engine
from .forecast import ReleasePlan, forecast, release_plan
from .learning import check, check_segments
from .problems import Problem
from .worker import PAUSED, RUNNING, OtherSegments

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
FEEDBACK = {
    "likes": "all items that the person likes",
    "taken": "the item that was taken, or none",
    "value": "what the set was worth",
}
PERIODS = {"none": "for ever", "day": "a day", "week": "a week", "month": "a month"}


class Templates:
    """The templates; whatever they are given is escaped."""

    def __init__(self) -> None:
        self.static = Static()
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__, "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "utc": utc,
            "number": number,
            "percent": percent,
            "points": points,
            "seconds": seconds,
            "epsilon": epsilon,
            "delta": delta,
            "about": about,
            "interval": interval,
        }
        self._environment.globals |= {
            "static": self.static.address,
            "FEEDBACK": FEEDBACK,
            "PERIODS": PERIODS,
        }

    def render(self, template: str, given: Mapping[str, Any]) -> str:
        """A page, or a part of one."""
        return self._environment.get_template(template).render(given)


class Static:
    """Scripts, styles and licences, held in memory; their addresses change with their content."""

    def __init__(self) -> None:
        folder = resources.files(__package__).joinpath("static")
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self._marks = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def address(self, name: str) -> str:
        """Where a page finds a file."""
        return f"/static/{name}?{self._marks[name]}"

    async def serve(self, request: Request) -> Response:
        """The file of a request; any other path is not found."""
        name = request.path_params["name"]
        if name not in self._files:
            return Response(status_code=404)
        headers = {
            "cache-control": "public, max-age=31536000, immutable",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
        }
        return Response(self._files[name], 200, headers, _TYPES[name.rpartition(".")[2]])


# --- words for numbers ---------------------------------------------------------------------------------


def utc(at: float | None) -> str:
    """A time."""
    if at is None:
        return "never"
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%-d %b %Y, %H:%M:%S} UTC"


def number(value: float) -> str:
    """A number with thousands."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.3g}"


def about(value: float) -> str:
    """A number with two digits that count."""
    return number(float(f"{value:.2g}"))


def percent(value: float, digits: int = 1) -> str:
    """A part as percent."""
    return f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """A difference of parts, in percentage points."""
    return f"{100 * value:+.1f}".replace("-", "\u2212")


def seconds(value: float) -> str:
    """A length of time."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def epsilon(value: float) -> str:
    """A privacy loss."""
    return f"{value:.3g}"


def delta(value: float) -> str:
    """A small probability."""
    return f"{value:g}".replace("e-0", "e-")


def interval(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Where a value and its 95 % stand among all of them, from 0 to 100, for a drawing."""
    spans = [
        (one["value"] - 2 * (one["deviation"] or 0), one["value"] + 2 * (one["deviation"] or 0))
        for one in rows
    ]
    low, high = min(0.0, *(span[0] for span in spans)), max(span[1] for span in spans)
    scale = 100.0 / ((high - low) or 1.0)
    wide = 1.96 * (row["deviation"] or 0)
    return {
        "zero": round(-low * scale, 2),
        "at": round((row["value"] - low) * scale, 2),
        "from": round((row["value"] - wide - low) * scale, 2),
        "to": round((row["value"] + wide - low) * scale, 2),
    }


Fields = dict[str, str]
Errors = dict[str, str]

NEW = ""  # the population that is still to be made
DEFAULTS: Fields = {
    "name": "",
    "items": "",
    "k": "3",
    "feedback": "taken",
    "bound": "1",
    "population": NEW,
    "people_name": "",
    "epsilon": "1",
    "delta": "1e-6",
    "period": "month",
    "max_rounds": "1",
    "neighbours": "replace",
    "anonymous": "no",
    "visitors": "10000",
    "share": "100",
    "holdout": "5",
    "measure": "10",
    "wait": "10",
    "hand": "",
    "learner": "auto",
    "rounds": "",
    "groups": "",
    "options": "",
    "segments": "",
}
LEARNERS = {  # what each learns from, and what else it takes
    "auto": "Chosen by the feedback",
    "LeaderSelector": "LeaderSelector: likes, with groups too",
    "PhasedSelector": "PhasedSelector: likes",
    "RunningSumSelector": "RunningSumSelector: likes",
    "BestOfBothSelector": "BestOfBothSelector: likes",
    "HedgeSelector": "HedgeSelector: likes, a number of rounds",
    "MetaFrankWolfe": "MetaFrankWolfe: likes, with groups and a number of rounds",
    "ThompsonSelector": "ThompsonSelector: taken items and values",
    "BanditSelector": "BanditSelector: taken items and values, a number of rounds",
}
_NEED_ROUNDS = {"HedgeSelector", "MetaFrankWolfe", "BanditSelector"}
_TAKE_GROUPS = {"LeaderSelector", "MetaFrankWolfe"}
_GROUP = re.compile(r"(?P<name>[^:(]+?)\s*(\(\s*(?P<limit>\d{1,4})\s*\))?\s*:(?P<items>.*)")
_NAMES = "Letters, digits, dots, dashes and underscores; at most 64, and a letter or digit first."


def fields(body: bytes) -> Fields:
    """The fields of a form; the last of each name."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except (UnicodeDecodeError, ValueError):
        return {}


class Asked:
    """A new experiment as it was typed. ``errors`` says what is wrong, and is empty where nothing is."""

    def __init__(self, given: Mapping[str, str], populations: Mapping[str, PopulationConfig]) -> None:
        self.given = DEFAULTS | {name: given[name].strip() for name in DEFAULTS if name in given}
        self.errors: Errors = {}
        self.visitors = self._number("visitors", whole=True, least=1, most=10**9)
        self.name = self.given["name"]
        self.population = self.given["population"] or self.given["people_name"] or self.name
        self.makes_population = self.given["population"] == NEW
        self.people: PopulationConfig | None = None
        if self.makes_population:
            self.people = self._people()
        else:
            self.people = populations.get(self.given["population"])
            if self.people is None:
                self.errors["population"] = "There is no such population any more."
        self.config = self._config()

    def check_names(self, experiments: set[str], populations: set[str]) -> None:
        """Names are looked at when the form is sent, not while it is typed."""
        if not NAME.fullmatch(self.name):
            self.errors["name"] = _NAMES
        elif self.name in experiments:
            self.errors["name"] = "There is an experiment of this name already."
        if self.makes_population and "name" not in self.errors:
            if not NAME.fullmatch(self.population):
                self.errors["people_name"] = _NAMES
            elif self.population in populations:
                self.errors["people_name"] = (
                    "There is a population of this name already: choose it, or another name."
                )

    def release_plan(self) -> ReleasePlan | None:
        """What would be released; None, and errors, where it cannot be made."""
        if self.errors or self.people is None or self.config is None:
            return None
        try:
            return release_plan(self.config, self.people)
        except BudgetExceeded:
            self.errors["share"] = "This is more than the whole budget."
        except (ValueError, TypeError, NotImplementedError) as error:
            # Made of what was typed, and of nothing else: there is no data yet.
            self.errors["form"] = str(error)
        return None

    # --- parts -----------------------------------------------------------------------------------

    def _people(self) -> PopulationConfig | None:
        epsilon = self._number("epsilon", least=0.0, most=100.0, above=True)
        delta = self._number("delta", least=0.0, most=0.1)
        rounds = self._number("max_rounds", whole=True, least=1, most=10_000)
        period = self._choice("period", ("day", "week", "month", "none"))
        neighbours = self._choice("neighbours", ("replace", "add_remove"))
        anonymous = self._choice("anonymous", ("no", "yes"))
        likes = self.given["feedback"] == "likes"
        if likes and delta == 0.0:
            self.errors["delta"] = "Counts of likes leave with Gaussian noise, which needs a delta above 0."
        if self.errors:
            return None
        return PopulationConfig(
            epsilon=epsilon,
            delta=delta if likes else 0.0,  # the others need none
            neighbours=neighbours,  # type: ignore[arg-type]
            max_rounds_per_person=int(rounds),
            definition="gdp" if likes else "pure",
            period=period,  # type: ignore[arg-type]
            anonymous=anonymous == "yes",
        )

    def _config(self) -> ExperimentConfig | None:
        items = list(filter(None, (line.strip() for line in self.given["items"].splitlines())))
        k = self._number("k", whole=True, least=1, most=1000)
        if len(set(items)) < len(items):
            self.errors["items"] = "Some items are there twice."
        elif not items:
            self.errors["items"] = "Name the items, one in a line."
        elif len(items) < k:
            self.errors["k"] = f"A set of {k:.0f} needs more than the {len(items)} items there are."
        feedback = self._choice("feedback", ("likes", "taken", "value"))
        bound = self._number("bound", least=0.0, most=1e9, above=True) if feedback == "value" else 1.0
        share = self._number("share", least=0.0, most=100.0, above=True) / 100
        holdout = self._number("holdout", least=0.0, most=50.0) / 100
        measure = self._number("measure", least=0.0, most=90.0) / 100
        wait = self._number("wait", least=0.0, most=10_080.0) * 60
        block = self._number("hand", whole=True, least=1, most=65_536) if self.given["hand"] else None
        rounds = self._number("rounds", whole=True, least=1, most=10**12) if self.given["rounds"] else None
        constraint, options = self._groups(items), self._options()
        segments = list(filter(None, (line.strip() for line in self.given["segments"].splitlines())))
        try:
            check_segments(segments)
        except ValueError as error:
            self.errors["segments"] = f"{str(error).capitalize()}."
        learner = self._choice("learner", tuple(LEARNERS))
        if learner in _NEED_ROUNDS and rounds is None:
            self.errors.setdefault("rounds", "This learner has to know how many rounds there will be.")
        if learner == "MetaFrankWolfe" and constraint is None:
            self.errors.setdefault("groups", "This learner is for groups: name them, or choose another one.")
        if constraint is not None and (feedback != "likes" or learner not in {"auto", *_TAKE_GROUPS}):
            self.errors.setdefault("groups", "Groups are for likes, with LeaderSelector or MetaFrankWolfe.")
        if holdout and not measure:
            self.errors.setdefault("measure", "A hold-out is of no use if nothing is measured.")
        if self.errors:
            return None
        config = ExperimentConfig(
            items=items,
            k=int(k),
            feedback=feedback,  # type: ignore[arg-type]
            learner=learner,
            options=options,
            constraint=constraint,
            rounds=None if rounds is None else int(rounds),
            bound=bound,
            share=share,
            holdout=holdout,
            measure=measure,
            outcome_wait=wait,
            block_size=None if block is None else int(block),
            segments=segments,
        )
        try:
            check(config)
        except ValueError as error:
            self.errors["form"] = str(error)
            return None
        return config

    def _groups(self, items: list[str]) -> ConstraintConfig | None:
        """Groups of items, a line each: a name, how many of it go into a set, and its items."""
        groups: dict[str, list[str]] = {}
        limits: dict[str, int] = {}
        for line in filter(None, map(str.strip, self.given["groups"].splitlines())):
            found = _GROUP.fullmatch(line)
            if found is None or found["name"] in groups or not int(found["limit"] or 1):
                self.errors["groups"] = "One group in a line, each once, such as shoes (2): red; blue."
                return None
            groups[found["name"]] = [one.strip() for one in found["items"].split(";") if one.strip()]
            limits[found["name"]] = int(found["limit"] or 1)
        named = [item for group in groups.values() for item in group]
        if groups and sorted(named) != sorted(items):
            self.errors["groups"] = "Every item has to be in one group, and no other one."
        return ConstraintConfig(groups=groups, limits=limits) if groups else None

    def _options(self) -> dict[str, Any]:
        """Options of the learner, a line each, with values as JSON or plain words."""
        options: dict[str, Any] = {}
        for line in filter(None, map(str.strip, self.given["options"].splitlines())):
            name, is_there, value = map(str.strip, line.partition("="))
            if not is_there or not name.isidentifier() or name in options:
                self.errors["options"] = "One option in a line, each once, such as resample_every = 10."
                return {}
            try:
                options[name] = msgspec.json.decode(value.encode())
            except msgspec.DecodeError:
                options[name] = value
        return options

    def _choice(self, name: str, known: tuple[str, ...]) -> str:
        if self.given[name] in known:
            return self.given[name]
        self.errors[name] = "Choose one of these."
        return known[0]

    def _number(
        self, name: str, *, least: float, most: float, whole: bool = False, above: bool = False
    ) -> float:
        read: Callable[[str], Any] = int if whole else float
        kind = "A whole number" if whole else "A number"
        bounds = f"{'above' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:,.10g}"
        try:
            found = float(read(self.given[name].replace(",", "") if whole else self.given[name]))
        except (ValueError, OverflowError):
            found = math.nan
        if not (least < found if above else least <= found) or not found <= most:
            self.errors[name] = f"{kind} {bounds}."
            return least
        return found


logger = logging.getLogger("discreet.service")
_WRONG_KEYS = 20, 1 / 6  # from one address: at once, and a second
_LARGEST = 1 << 23  # bytes of a form: some 100,000 items
CROSS_SITE = Problem(403, "cross-site", "This request does not come from a page of this service.")
APP_KEY = Problem(403, "app-key", "This key is for applications: it asks for decisions and reports outcomes.")
WRONG_KEY = Problem(401, "wrong-key", "There is no such key, or it has been revoked.")
OFTEN = Problem(
    429, "log-ins", "Too many wrong keys came from this address; try again in a minute.", retry_after=60
)
OVER = Problem(401, "session", "The session is over. Log in again.")


class Visit:
    """One request of somebody who is logged in."""

    def __init__(self, request: Request, session: Session, key: Key, given: Fields) -> None:
        self.request, self.session, self.key, self.given = request, session, key, given

    @property
    def name(self) -> str:
        """The experiment it is about."""
        return str(self.request.path_params["name"])

    def may(self, action: str, experiment: str | None = None) -> bool:
        """Whether the key's role allows it."""
        return self.key.may(action, experiment)


Handler = Callable[[Visit], Awaitable[Response]]


class Site:
    """Sessions and templates of the pages, with the routes by which people come and go."""

    def __init__(self, secrets: Secrets, api: Api) -> None:
        self.api = api
        self.sessions = Sessions(secrets, api.engine.store)
        self._wrong_keys = Throttle(*_WRONG_KEYS)
        self._templates = Templates()

    def routes(self) -> list[Route]:
        """Those for people who are not logged in, or want to leave."""
        return [
            Route("/", self.welcome),
            Route("/login", self.login, methods=["POST"]),
            Route("/static/{name}", self._templates.static.serve),
            self.route("POST", "/logout", None, self.logout),
        ]

    def route(self, method: str, path: str, action: str | None, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            visit = None
            try:
                visit = await self._visit(request, action)
                found = await handler(visit)
                if method != "GET" and not path.startswith("/parts/"):
                    await run_in_threadpool(self.api.audit, visit.key.id, f"{method} {path}")
                return found
            except Problem as problem:
                return self.refusal(problem, request, visit)
            except LookupError:
                return self.refusal(problems.NOT_FOUND, request, visit)
            except StoreError:
                return self.refusal(problems.NO_STORE, request, visit)
            except Frozen:
                return self.refusal(problems.FROZEN, request, visit)
            except Exception as error:
                logger.error("a page failed: %s", type(error).__name__)
                return self.refusal(problems.FAILED, request, visit)

        return Route(path, endpoint, methods=[method], name=f"page {handler.__name__}")

    async def _visit(self, request: Request, action: str | None) -> Visit:
        """Who is logged in; refused where nobody is, the role does not allow it, or another site asks."""
        session = self.sessions.read(request.cookies.get(COOKIE))
        key = None if session is None else self.api.keys.of(session.key)
        if session is None or key is None:
            raise OVER
        if not self.api.keys.within_rate(key):
            raise problems.RATE
        given: Fields = {}
        if request.method not in ("GET", "HEAD"):
            if not same_site(request):
                raise CROSS_SITE
            given = fields(await body(request.receive, _LARGEST))
            if not same_token(session, given.get("token", "")):
                raise CROSS_SITE
        visit = Visit(request, session, key, given)
        if action == "see":
            allowed = "read" in ROLES[key.role]
        else:
            allowed = action is None or visit.may(action, request.path_params.get("name"))
        if not allowed:
            raise problems.WRONG_ROLE
        return visit

    def refusal(self, problem: Problem, request: Request, visit: Visit | None) -> Response:
        if problem is OVER and "hx-request" in request.headers:
            return Response(status_code=401, headers={**HEADERS, "hx-redirect": "/"})
        if problem is OVER:
            return self._welcome(request, problem)
        return self.page("problem.html", visit, problem.status, problem=problem)

    def missing(self, request: Request) -> Response | None:
        """The page for a path that there is not, for browsers."""
        if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/v1/"):
            return None
        return self.page("problem.html", None, 404, problem=problems.NOT_FOUND)

    def page(self, template: str, visit: Visit | None, code: int = 200, **given: Any) -> Response:
        text = self._templates.render(template, {"visit": visit, **given})
        return Response(text, code, dict(HEADERS), "text/html")

    def part(self, visit: Visit, template: str, changed: str | None = None, **given: Any) -> Response:
        """A part that is asked for again and again: nothing is sent while it stays the same."""
        text = self._templates.render(template, {"visit": visit, "mark": "", **given})
        mark = hashlib.sha256(text.encode()).hexdigest()[:16]
        if visit.request.query_params.get("seen") == mark:
            return Response(status_code=204, headers=dict(HEADERS))
        text = self._templates.render(template, {"visit": visit, "mark": mark, **given})
        headers = dict(HEADERS) | ({} if changed is None else {"hx-trigger": changed})
        return Response(text, 200, headers, "text/html")

    # --- coming and going ------------------------------------------------------------------------

    async def welcome(self, request: Request) -> Response:
        """What this is, for those who are not logged in."""
        session = self.sessions.read(request.cookies.get(COOKIE))
        if session is not None and self.api.keys.of(session.key) is not None:
            return RedirectResponse("/experiments", 303, dict(HEADERS))
        return self._welcome(request)

    def _welcome(self, request: Request, problem: Problem | None = None) -> Response:
        found = self.page("welcome.html", None, 200 if problem is None else problem.status, problem=problem)
        if problem is not None and problem.retry_after is not None:
            found.headers["retry-after"] = str(problem.retry_after)
        if COOKIE in request.cookies:
            set_cookie(request, found, "")
        return found

    async def login(self, request: Request) -> Response:
        """A session for an API key whose role sees anything."""
        if not same_site(request):
            return self.refusal(CROSS_SITE, request, None)
        try:
            given = fields(await body(request.receive))
            address = "" if request.client is None else request.client.host
            if not self._wrong_keys.free(address):
                return self._welcome(request, OFTEN)
            key = self.api.keys.find(given.get("key", "").strip().encode())
            if key is None:
                self._wrong_keys.spend(address)
                return self._welcome(request, WRONG_KEY)
            if "read" not in ROLES[key.role]:
                return self._welcome(request, APP_KEY)
            await run_in_threadpool(self.api.audit, key.id, "POST /login")
        except Problem as problem:
            return self.refusal(problem, request, None)
        except StoreError:
            return self.refusal(problems.NO_STORE, request, None)
        found = RedirectResponse("/experiments", 303, dict(HEADERS))
        set_cookie(request, found, self.sessions.begin(key.id))
        return found

    async def logout(self, visit: Visit) -> Response:
        """The end of a session."""
        await run_in_threadpool(self.sessions.end, visit.session)
        found = RedirectResponse("/", 303, dict(HEADERS))
        set_cookie(visit.request, found, "")
        return found


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
        found = await run_in_threadpool(queries.experiments, self.engine.store)
        rows = [row for row in found if visit.may("read", row["name"])]
        for row in rows:
            row["known"] = (await self._shares(row["name"], row["releases"])).last
        return rows

    async def _shares(self, name: str, releases: int, segment: str = "") -> shares.Progress:
        """The shares so far, of one segment or all; only releases that are new are read."""
        progress = self._progress.setdefault((name, segment), shares.Progress())
        if progress.seq < releases:
            new = await run_in_threadpool(
                queries.shares, self.engine.store, name, progress.seq, segment or None
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
        status = await run_in_threadpool(queries.status, store, name)
        segment = chosen_segment(visit, status)
        last = await run_in_threadpool(lambda: queries.releases(store, name, limit=1, segment=segment))
        progress = await self._shares(name, status["releases"], segment)
        for one in status["segments"]:
            if one["segment"] == segment:
                status |= {key: one[key] for key in ("display", "last_release", "releases")}
        live = await self.engine.live(name)
        plan = await run_in_threadpool(release_plan, live.config, live.people)
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
            "release_plan": plan,
            "first": first_release(live.config, plan),
        }

    async def _account(self, population: str) -> dict[str, Any]:
        """The account of a population; it changes with experiments and periods only."""
        read_at, found = self._accounts.get(population, (-_FRESH, {}))
        if time.monotonic() - read_at > _FRESH:
            found = await run_in_threadpool(queries.account, self.engine.worker, population)
            self._accounts[population] = time.monotonic(), found
        return found

    async def numbers(self, visit: Visit) -> Response:
        """The chart as a table."""
        given = await self._state(visit)
        return self.site.page("experiment_numbers.html", visit, **given)

    async def chart(self, visit: Visit) -> Response:
        """The chart as numbers."""
        status = await run_in_threadpool(queries.status, self.engine.store, visit.name)
        progress = await self._shares(visit.name, status["releases"], chosen_segment(visit, status))
        return JSONResponse(shares.series(progress.thinned()), headers=dict(HEADERS))

    async def items(self, visit: Visit) -> Response:
        """The items of the catalogue in which something is found."""
        return self.site.page("items.html", visit, **await self._found_items(visit))

    async def _found_items(self, visit: Visit) -> dict[str, Any]:
        wanted = visit.request.query_params.get("find", "").strip()
        every = await run_in_threadpool(queries.items, self.engine.store, visit.name)
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
        if not await run_in_threadpool(self.engine.worker.set_status, live.id, status):
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
            await run_in_threadpool(self.engine.worker.change_items, live.id, add, retire)
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
        found = await run_in_threadpool(queries.populations, self.engine.worker)
        return {one["name"]: msgspec.convert(one["budget"], PopulationConfig) for one in found}

    async def create(self, visit: Visit) -> Response:
        """Make what the form asks for."""
        people = await self._populations()
        asked = Asked(visit.given, people)
        known = await run_in_threadpool(queries.experiments, self.engine.store)
        asked.check_names({one["name"] for one in known}, set(people))
        await run_in_threadpool(asked.release_plan)
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
        worker = self.engine.worker
        try:
            if asked.makes_population:
                worker.create_population(asked.population, asked.people)
            worker.create(asked.name, asked.population, asked.config)
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
        plan = await run_in_threadpool(asked.release_plan)
        whose, spent = asked.people, []
        if whose is not None and not asked.makes_population:
            now = self.engine.worker.period(whose)
            periods = (await self._account(asked.population))["periods"]
            spent = [one for one in periods if one["period"] == now]
        words = "" if whose is None else queries.promise(whose)
        return self.site.page("plan.html", visit, asked=asked, release_plan=plan, promise=words, spent=spent)

    async def forecast(self, visit: Visit) -> Response:
        """What to expect of it, which takes a moment."""
        asked = Asked(visit.given, await self._populations())
        if await run_in_threadpool(asked.release_plan) is None:
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
        known = await run_in_threadpool(queries.experiments, self.engine.store)
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


def first_release(config: ExperimentConfig, plan: ReleasePlan) -> dict[str, int | None]:
    """After about how many decisions something is known first: of items, and of shares; whole blocks."""

    def whole(many: float | None) -> int | None:
        block = config.block_size or 1
        return None if many is None else math.ceil(many / block) * block

    learned = None if plan.begins is None else plan.begins / (1.0 - config.holdout)
    return {"counts": whole(learned), "shares": whole(plan.measured_every)}
