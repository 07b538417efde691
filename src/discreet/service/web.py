"""The service on the web: pages on which people watch and run experiments, and the application itself.

Roles determine what a user may see and do. Everything shown comes from `queries`: public facts, releases and
their privacy cost. Templates escape everything; all fields of a form are checked, with errors beside them.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import hashlib
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from ..core.text import at_most
from ..personal import STATEMENT
from ..privacy import BudgetExceeded
from . import limits, queries, shares, webhooks
from .api import (
    DOCUMENTED,
    METHOD,
    MISSING,
    NAME,
    NOT_FOUND,
    RATE,
    UPGRADE,
    WRONG_ROLE,
    Api,
    Changes,
    Endpoint,
    Personalizer,
    Problem,
    Receive,
    Scope,
    Send,
    body,
    check_nul,
    description,
    exported,
    paged,
    problem_of,
    refusal,
)
from .auth import (
    COOKIE,
    HEADERS,
    ROLES,
    Key,
    Keys,
    Secrets,
    Session,
    Sessions,
    Throttle,
    network_of,
    new_key,
    same_site,
    same_token,
    set_cookie,
    write_secret,
)
from .config import ConstraintConfig, ExperimentConfig, PopulationConfig, ServiceSettings
from .database import Conflict, StoreError, open_store
from .engine import DecisionEngine
from .learning import InvalidField, ReleasePlan, detectable_lift, first_release, forecast, release_plan
from .limits import Restart, again, listening
from .metrics import AnswerObserver, Instrumented, Metrics, RequestLog, spans_to
from .webhooks import Webhooks
from .worker import PAUSED, RUNNING, InUse, OtherSegments, ShareUnavailable

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
FEEDBACK = {
    "full": "all items that the person likes",
    "slots": "the item that was taken, or none",
    "bandit": "the value of the set",
}
PERIODS = {"none": "without end", "day": "a day", "week": "a week", "month": "a month"}


# --- words for numbers ---------------------------------------------------------------------------------


def utc(at: float | None) -> str:
    if at is None:
        return "never"
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%-d %b %Y, %H:%M:%S} UTC"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.3g}"


def about(value: float) -> str:
    """A number, rounded to two significant digits."""
    return number(float(f"{value:.2g}"))


def compared(config: Mapping[str, Any]) -> str:
    """What the hold-out is shown."""
    if config["learner"] == "PersonalSelector":
        return "the most popular items"
    return "the control set" if config["control"] else "random sets"


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """A difference of two shares, in percentage points."""
    return f"{100 * value:+.1f}".replace("-", "\u2212")


def span(one: shares.Estimate, unit: float | None = None, *, sign: bool = False) -> str:
    """The interval of an estimate: in percent or points, or in values up to ``unit``."""
    scale, digits = (100.0, 1) if unit is None else (unit, 3)
    ends = [f"{scale * end:{'+' if sign else ''}.{digits}f}" for end in (one.low, one.high)]
    return " to ".join(ends).replace("-", "\u2212")


def seconds(value: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def epsilon(value: float, digits: int = 3) -> str:
    return at_most(value, digits)


def delta(value: float) -> str:
    return at_most(value).replace("e-0", "e-")


def interval(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """The position of a value and its 95 % interval among all rows, from 0 to 100, for a drawing."""
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

LEARNERS = {  # with the feedback that each learns from, and what else it needs
    "auto": "Chosen by the feedback",
    "LeaderSelector": "LeaderSelector: full, with groups too",
    "PhasedSelector": "PhasedSelector: full",
    "RollingSelector": "RollingSelector: full",
    "RunningSumSelector": "RunningSumSelector: full",
    "BestOfBothSelector": "BestOfBothSelector: full",
    "HedgeSelector": "HedgeSelector: full, a number of rounds",
    "MetaFrankWolfe": "MetaFrankWolfe: full, with groups and a number of rounds",
    "PersonalSelector": "PersonalSelector: full; everybody's own set, from histories in requests",
    "ThompsonSelector": "ThompsonSelector: slots and bandit",
    "BanditSelector": "BanditSelector: slots and bandit, a number of rounds",
}
_NEED_ROUNDS = {"HedgeSelector", "MetaFrankWolfe", "BanditSelector"}
_TAKE_GROUPS = {"LeaderSelector", "MetaFrankWolfe"}
# No two parts match the same blanks, as the time would grow with a power of their number.
_GROUP = re.compile(r"(?P<name>[^:(]+)(\(\s*(?P<limit>\d{1,4})\s*\)\s*)?:(?P<items>.*)")
_NAMES = "Letters, digits, dots, dashes and underscores; at most 64, and a letter or digit first."


class Range(NamedTuple):
    """The numbers that a field accepts."""

    least: float
    most: float
    integer: bool = False
    above: bool = False  # whether ``least`` itself is excluded

    def read(self, text: str) -> float | None:
        """The number of a text; None for any other text."""
        try:
            found = float(int(text.replace(",", "")) if self.integer else float(text))
        except (ValueError, OverflowError):
            return None
        fits = self.least < found if self.above else self.least <= found
        return found if fits and found <= self.most else None

    def __str__(self) -> str:
        kind = "An integer" if self.integer else "A number"
        first, then = ("above", "and at most") if self.above else ("from", "to")
        return f"{kind} {first} {self.least:g} {then} {self.most:,.10g}."


NEW = ""  # the choice of a new population


class Field(NamedTuple):
    """A field of the form: its default, and what it accepts; any text if ``takes`` is None."""

    default: str
    takes: Range | Collection[str] | None = None


FIELDS = {
    "name": Field(""),
    "items": Field(""),
    "k": Field("3", Range(1, 1000, integer=True)),
    "feedback": Field("slots", FEEDBACK),
    "bound": Field("1", Range(0, 1e9, above=True)),
    "population": Field(NEW),
    "people_name": Field(""),
    "epsilon": Field("1", Range(0, 100, above=True)),
    "delta": Field("1e-6", Range(0, 0.1)),
    "period": Field("month", PERIODS),
    "max_rounds": Field("1", Range(1, 10_000, integer=True)),
    "neighbours": Field("replace", ("replace", "add_remove")),
    "anonymous": Field("no", ("no", "yes")),
    "visitors": Field("10000", Range(1, 10**9, integer=True)),
    "share": Field("50", Range(0, 100, above=True)),
    "holdout": Field("20", Range(0, 50)),
    "measure": Field("30", Range(0, 90)),
    "control": Field(""),
    "wait": Field("10", Range(0, 10_080)),
    "sticky": Field("0", Range(0, 10_080)),
    "block_size": Field("", Range(1, 65_536, integer=True)),
    "learner": Field("auto", LEARNERS),
    "rounds": Field("", Range(1, 10**12, integer=True)),
    "groups": Field(""),
    "options": Field(""),
    "segments": Field(""),
    "candidates": Field(""),
    "features": Field(""),
}
DEFAULTS = {name: one.default for name, one in FIELDS.items()}
_OF_PEOPLE = ("epsilon", "delta", "max_rounds", "period", "neighbours", "anonymous")  # of a new population


def fields(body: bytes) -> Fields:
    """The fields of a form; the last one of each name."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except (UnicodeDecodeError, ValueError):
        return {}


def lines_of(text: str) -> list[str]:
    """The lines of a field that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class Form:
    """A new experiment as it was typed; ``errors`` holds what is wrong, by field."""

    def __init__(self, given: Mapping[str, str], populations: Mapping[str, PopulationConfig]) -> None:
        self.given = DEFAULTS | {name: given[name].strip() for name in DEFAULTS if name in given}
        self.errors: Fields = {}
        self.makes_population = self.given["population"] == NEW
        self._numbers = self._read()
        self.visitors = self._numbers["visitors"]
        self.name = self.given["name"]
        self.population = self.given["population"] or self.given["people_name"] or self.name
        self.people: PopulationConfig | None = None
        if self.makes_population:
            self.people = self._people()
        else:
            self.people = populations.get(self.given["population"])
            if self.people is None:
                self.errors["population"] = "There is no such population any more."
        self.config = self._config()

    def check_names(self, experiments: set[str], populations: set[str]) -> None:
        """Check names; called when the form is sent, not while it is typed."""
        if not NAME.fullmatch(self.name):
            self.errors["name"] = _NAMES
        elif self.name in experiments:
            self.errors["name"] = "This name is already taken by another experiment."
        if self.makes_population and "name" not in self.errors:
            if not NAME.fullmatch(self.population):
                self.errors["people_name"] = _NAMES
            elif self.population in populations:
                self.errors["people_name"] = (
                    "This name is already taken by another population: choose that one, or another name."
                )

    def release_plan(self) -> ReleasePlan | None:
        """What would be released; None, with `errors`, if the experiment is impossible."""
        if self.people is None or self.config is None:
            return None
        try:
            return release_plan(self.config, self.people)
        except BudgetExceeded:
            self.errors["share"] = "This is more than the whole budget."
        except InvalidField as error:
            field = error.field.removeprefix("options.")
            self.errors[field if field in FIELDS else "form"] = str(error)
        except (ValueError, TypeError, NotImplementedError) as error:
            # The message follows from the form alone: there is no data yet.
            self.errors["form"] = str(error)
        return None

    # --- parts -----------------------------------------------------------------------------------

    def _matters(self, name: str) -> bool:
        """Whether a field is checked: some are only for a new population, for values, or if not empty."""
        if name in _OF_PEOPLE:
            return self.makes_population
        if name == "bound":
            return self.given["feedback"] == "bandit"
        return name not in ("block_size", "rounds") or self.given[name] != ""

    def _read(self) -> dict[str, float]:
        """The numbers of the form; an error for each field with a value that it does not accept."""
        found = {}
        for name, (_, takes) in FIELDS.items():
            if takes is None or not self._matters(name):
                continue
            if isinstance(takes, Range):
                value = takes.read(self.given[name])
                found[name] = takes.least if value is None else value
                if value is None:
                    self.errors[name] = str(takes)
            elif self.given[name] not in takes:
                self.errors[name] = "Choose one of these."
        return found

    def _people(self) -> PopulationConfig | None:
        """The population that the form describes; None if one of its fields is wrong."""
        full, delta = self.given["feedback"] == "full", self._numbers["delta"]
        if full and delta == 0.0:
            self.errors.setdefault(
                "delta", "Counts are released with Gaussian noise, which needs a delta above 0."
            )
        if self.errors.keys() & {*_OF_PEOPLE, "visitors"}:
            return None
        return PopulationConfig(
            epsilon=self._numbers["epsilon"],
            delta=delta if full else 0.0,  # pure mechanisms need none
            neighbours=self.given["neighbours"],  # type: ignore[arg-type]
            max_rounds_per_person=int(self._numbers["max_rounds"]),
            definition="gdp" if full else "pure",
            period=self.given["period"],  # type: ignore[arg-type]
            anonymous=self.given["anonymous"] == "yes",
        )

    def _config(self) -> ExperimentConfig | None:
        """The experiment that the form describes; None if a field is wrong, with the reason in `errors`."""
        given, errors, numbers = self.given, self.errors, self._numbers
        items, block, rounds = lines_of(given["items"]), numbers.get("block_size"), numbers.get("rounds")
        if not items:
            errors["items"] = "Name the items, one in a line."
        constraint, options = self._groups(items), self._options() | self._features(items)
        learner, feedback = given["learner"], given["feedback"]
        if learner in _NEED_ROUNDS and rounds is None:
            errors.setdefault("rounds", "This learner has to know how many rounds there will be.")
        if learner == "MetaFrankWolfe" and constraint is None:
            errors.setdefault("groups", "This learner is for groups: name them, or choose another one.")
        if constraint is not None and (feedback != "full" or learner not in {"auto", *_TAKE_GROUPS}):
            errors.setdefault("groups", "Groups need full feedback, and LeaderSelector or MetaFrankWolfe.")
        if errors:
            return None
        return ExperimentConfig(  # `release_plan` constructs its learner, which checks the rest
            items=items,
            k=int(numbers["k"]),
            feedback=feedback,  # type: ignore[arg-type]
            learner=learner,
            options=options,
            constraint=constraint,
            rounds=None if rounds is None else int(rounds),
            bound=numbers.get("bound", 1.0),
            share=numbers["share"] / 100,
            holdout=numbers["holdout"] / 100,
            control=lines_of(given["control"]),
            measure=numbers["measure"] / 100,
            outcome_wait=numbers["wait"] * 60,
            sticky=numbers["sticky"] * 60,
            block_size=None if block is None else int(block),
            segments=lines_of(given["segments"]),
            candidates=lines_of(given["candidates"]),
        )

    def _groups(self, items: list[str]) -> ConstraintConfig | None:
        """Groups of items, one in each line: a name, the most items of it in a set, and its items."""
        groups: dict[str, list[str]] = {}
        limits: dict[str, int] = {}
        for line in lines_of(self.given["groups"]):
            found = _GROUP.fullmatch(line)
            name = "" if found is None else found["name"].strip()
            if found is None or name in groups or not int(found["limit"] or 1):
                self.errors["groups"] = "One group in a line, each once, such as shoes (2): red; blue."
                return None
            groups[name] = [one.strip() for one in found["items"].split(";") if one.strip()]
            limits[name] = int(found["limit"] or 1)
        if groups and sorted(item for group in groups.values() for item in group) != sorted(items):
            self.errors["groups"] = "Every item has to be in one group, and no other one."
        return ConstraintConfig(groups=groups, limits=limits) if groups else None

    def _features(self, items: list[str]) -> dict[str, Any]:
        """Words about items, one item in each line."""
        parts = [line.partition(":") for line in lines_of(self.given["features"])]
        about = {item.strip(): words.strip() for item, _, words in parts}
        if about and self.given["learner"] != "PersonalSelector":
            self.errors["features"] = "Words about items are for PersonalSelector."
        elif len(about) < len(parts) or set(about) - set(items):
            self.errors["features"] = "One of the items in a line, each once, such as tea: green, leaf."
        return {"features": about} if about else {}

    def _options(self) -> dict[str, Any]:
        """Options of the learner, one in each line, with values as JSON or plain words."""
        options: dict[str, Any] = {}
        for line in lines_of(self.given["options"]):
            name, is_there, value = map(str.strip, line.partition("="))
            if not is_there or not name.isidentifier() or name in options:
                self.errors["options"] = "One option in a line, each once, such as resample_every = 10."
                return {}
            try:
                options[name] = msgspec.json.decode(value.encode())
            except msgspec.DecodeError:
                options[name] = value
        return options


_WRONG_KEYS = 20, 1 / 6  # allowed from one address: at once, and per second
_LARGEST = 1 << 23  # bytes of a form: some 100,000 items
_PAGE = re.compile(r"/(experiments(/[A-Za-z0-9._-]+)?|new|keys|populations(/[A-Za-z0-9._-]+)?|audit)")
_FRESH = 10.0  # seconds for which an account is cached
_MOST_ITEMS = 100  # items that a page lists
_CACHED = {
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
CROSS_SITE = Problem(403, "cross-site", "This request does not come from a page of this service.")
APP_KEY = Problem(403, "app-key", "This key is for applications: it asks for decisions and reports outcomes.")
WRONG_KEY = Problem(401, "wrong-key", "There is no such key, or it has been revoked.")
OFTEN = Problem(
    429, "log-ins", "Too many wrong keys came from this address; try again in a minute.", retry_after=60
)
OVER = Problem(401, "session", "The session has expired. Log in again.")
NOBODY_NAMED = Problem(422, "person", "Name the person as the application names them in decisions.")
WRONG_ITEMS = Problem(
    422,
    "items",
    "The catalogue cannot be changed like that: added items must be new, retired ones must be there, and"
    " enough must be left for a set.",
)


# The consequences of actions that ask for confirmation.
SURE = {
    "pause": "Applications are refused decisions until it is resumed. Outcomes of earlier decisions are"
    " still taken. The share of this period stays reserved; no later period is charged until it goes on.",
    "end": "It makes no more decisions, for good. If nothing was released in this period, what waits is"
    " dropped and its share is free at once; otherwise what waits is still learned and released, and its"
    " share is free in the next period. Releases and the account stay.",
    "delete": "It is deleted with its catalogue, as if it had never been made, and its share is free. That is"
    " possible as long as it has served no decision.",
    "revoke": "Requests with this key are refused within a second, in applications and on pages.",
    "rotate": "A new key takes its place, with the same name, role and experiments, and is shown once. The"
    " old one is refused within a second.",
}


@dataclass(frozen=True)
class PageVisit:
    """One request of a user who is logged in."""

    request: Request
    session: Session
    key: Key
    given: Fields

    @property
    def name(self) -> str:
        return str(self.request.path_params["name"])


Handler = Callable[[PageVisit], Awaitable[Response]]


class Pages:
    """The pages over the JSON routes: sessions, templates, static files and what they show."""

    def __init__(self, api: Api) -> None:
        self.api, self.engine = api, api.engine
        self.sessions = Sessions(self.engine.secrets, self.engine.store)
        self._wrong_keys = Throttle(*_WRONG_KEYS)
        self._progress: dict[tuple[str, str, float], shares.Progress] = {}  # "": of all segments
        self._accounts: dict[str, tuple[float, dict[str, Any]]] = {}
        folder = resources.files(__package__).joinpath("static")
        self._static = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    @cached_property
    def _templates(self) -> Any:
        """The templates; all values are escaped."""
        import jinja2  # at the first page: the service starts faster without it

        found = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__, "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters = (utc, number, percent, points, span, seconds, epsilon, delta, about, interval)
        found.filters |= {one.__name__: one for one in filters}
        found.globals |= {"static": self._address, "FEEDBACK": FEEDBACK, "PERIODS": PERIODS}
        found.globals |= {"compared": compared, "STATEMENT": STATEMENT}
        return found

    def _address(self, name: str) -> str:
        """The URL of a static file, which changes with its content."""
        return f"/static/{name}?{hashlib.sha256(self._static[name]).hexdigest()[:12]}"

    def routes(self) -> list[Route]:
        one, part = "/experiments/{name}", "/parts/experiments/{name}"
        route = self._route
        return [
            Route("/", self.welcome),
            Route("/login", self.login, methods=["POST"]),
            Route("/static/{name}", self.static),
            route("POST", "/logout", None, self.logout),
            route("GET", "/experiments", "see", self.experiments),
            route("GET", "/parts/experiments", "see", self.experiment_rows),
            route("GET", one, "read", self.experiment),
            route("GET", part, "read", self.live),
            route("GET", f"{part}/numbers", "read", self.numbers),
            route("GET", f"{part}/shares", "read", self.chart),
            route("GET", f"{part}/items", "read", self.items),
            route("GET", f"{one}/sure/{{act}}", "operate", self.sure),
            route("POST", f"{one}/pause", "operate", partial(self.set_status, PAUSED)),
            route("POST", f"{one}/resume", "operate", partial(self.set_status, RUNNING)),
            route("POST", f"{one}/end", "operate", self.end),
            route("POST", f"{one}/delete", "operate", self.delete),
            route("POST", f"{one}/items", "operate", self.change_items),
            route("GET", f"{one}/releases.{{form}}", "read", self.releases),
            route("GET", "/populations", "read", self.populations),
            route("GET", "/populations/{population}", "read", self.population),
            route("GET", "/populations/{population}/account.{form}", "read", self.account),
            route("POST", "/populations/{population}/erase", "erase", self.erase),
            route("GET", "/audit", "administer", self.audit),
            route("GET", "/new", "operate", self.new),
            route("POST", "/new", "operate", self.create),
            route("POST", "/parts/plan", "operate", self.plan),
            route("POST", "/parts/forecast", "operate", self.forecast),
            route("GET", "/keys", "administer", self.keys),
            route("POST", "/keys", "administer", self.new_key),
            route("GET", "/keys/{key}/sure/{act}", "administer", self.sure),
            route("POST", "/keys/{key}/revoke", "administer", self.end_key),
            route("POST", "/keys/{key}/rotate", "administer", self.rotate_key),
        ]

    def _route(self, method: str, path: str, action: str | None, handler: Handler) -> Route:
        """A page for a user who is logged in, if their role allows the action."""

        async def endpoint(request: Request) -> Response:
            visit = None
            try:
                visit = await self._visit(request, action)
                found = await handler(visit)
                if method != "GET" and not path.startswith("/parts/") and found.status_code < 400:
                    await run_in_threadpool(self.api.audit, visit.key.id, request)
                return found
            except Exception as error:
                return self._refusal(problem_of(error), request, visit)

        return Route(path, endpoint, methods=[method])

    async def _visit(self, request: Request, action: str | None) -> PageVisit:
        """The request of a user; refused without a log-in, without the role, or from another site."""
        session, key = self._session(request)
        if not self.api.keys.within_rate(key):
            raise RATE.with_()
        check_nul(request)
        self.api.keys.used(key)
        given: Fields = {}
        if request.method not in ("GET", "HEAD"):
            if not same_site(request):
                raise CROSS_SITE.with_()
            given = fields(await body(request.receive, _LARGEST))
            session, key = self._session(request)  # it may have ended meanwhile
            if not same_token(session, given.get("token", "")):
                raise CROSS_SITE.with_()
        if action == "see":
            allowed = "read" in ROLES[key.role]
        else:
            allowed = action is None or key.may(action, request.path_params.get("name"))
        if not allowed:
            raise WRONG_ROLE.with_()
        return PageVisit(request, session, key, given)

    def _session(self, request: Request) -> tuple[Session, Key]:
        """The session of a request, and its key."""
        session = self.sessions.read(request.cookies.get(COOKIE))
        key = None if session is None else self.api.keys.of(session.key)
        if session is None or key is None:
            raise OVER.with_()
        return session, key

    def _refusal(self, problem: Problem, request: Request, visit: PageVisit | None) -> Response:
        if problem.name == OVER.name and "hx-request" in request.headers:
            return Response(status_code=401, headers={**HEADERS, "hx-redirect": "/"})
        if problem.name == OVER.name:
            return self._welcome(request, problem, request.url.path)
        return self.page("problem.html", visit, problem.status, problem=problem)

    def missing(self, request: Request, problem: Problem = NOT_FOUND) -> Response | None:
        """The page of a problem, such as a missing path, for browsers; None for other clients."""
        if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/v1/"):
            return None
        return self.page("problem.html", None, problem.status, problem=problem)

    def _render(self, template: str, visit: PageVisit | None, given: Mapping[str, Any]) -> str:
        text: str = self._templates.get_template(template).render({"visit": visit, **given})
        return text

    def page(self, template: str, visit: PageVisit | None, code: int = 200, **given: Any) -> Response:
        return Response(self._render(template, visit, given), code, dict(HEADERS), "text/html")

    def part(self, visit: PageVisit, template: str, changed: str | None = None, **given: Any) -> Response:
        """A part of a page that is polled: nothing is sent while it stays the same."""
        text = self._render(template, visit, given | {"digest": ""})
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if visit.request.query_params.get("seen") == digest:
            return Response(status_code=204, headers=dict(HEADERS))
        headers = dict(HEADERS) | ({} if changed is None else {"hx-trigger": changed})
        return Response(self._render(template, visit, given | {"digest": digest}), 200, headers, "text/html")

    async def static(self, request: Request) -> Response:
        """A static file; 404 for any other name."""
        name = request.path_params["name"]
        if name not in self._static:
            return Response(status_code=404)
        return Response(self._static[name], 200, _CACHED, _TYPES[name.rpartition(".")[2]])

    # --- log-in ----------------------------------------------------------------------------------

    async def welcome(self, request: Request) -> Response:
        """The start page; users who are logged in are sent to the experiments."""
        session = self.sessions.read(request.cookies.get(COOKIE))
        if session is not None and self.api.keys.of(session.key) is not None:
            return _to("/experiments")
        return self._welcome(request)

    def _welcome(self, request: Request, problem: Problem | None = None, goes_on: str = "") -> Response:
        """The page with the log-in, which leads to the page that was asked for (``goes_on``)."""
        status = 200 if problem is None else problem.status
        goes_on = goes_on if _PAGE.fullmatch(goes_on) else ""
        found = self.page("welcome.html", None, status, problem=problem, goes_on=goes_on)
        if problem is not None and problem.retry_after is not None:
            found.headers["retry-after"] = str(problem.retry_after)
        if COOKIE in request.cookies:
            set_cookie(request, found, "")
        return found

    async def login(self, request: Request) -> Response:
        """Begin a session for an API key whose role may read pages."""
        try:
            if not same_site(request):
                raise CROSS_SITE.with_()
            given = fields(await body(request.receive))
            address = network_of("" if request.client is None else request.client.host)
            goes_on = given.get("next", "")
            if not self._wrong_keys.free(address):
                return self._welcome(request, OFTEN, goes_on)
            key = self.api.keys.find(given.get("key", "").strip().encode())
            if key is None:
                self._wrong_keys.spend(address)
                return self._welcome(request, WRONG_KEY, goes_on)
            if "read" not in ROLES[key.role]:
                return self._welcome(request, APP_KEY, goes_on)
            await run_in_threadpool(self.api.audit, key.id, request)
        except Exception as error:
            return self._refusal(problem_of(error), request, None)
        self.api.keys.used(key)
        found = _to(goes_on if _PAGE.fullmatch(goes_on) else "/experiments")
        set_cookie(request, found, self.sessions.begin(key.id))
        return found

    async def logout(self, visit: PageVisit) -> Response:
        await run_in_threadpool(self.sessions.end, visit.session)
        found = _to("/")
        set_cookie(visit.request, found, "")
        return found

    # --- experiments -----------------------------------------------------------------------------

    async def experiments(self, visit: PageVisit) -> Response:
        return self.page("experiments.html", visit, rows=await self._rows(visit), digest="")

    async def experiment_rows(self, visit: PageVisit) -> Response:
        return self.part(visit, "experiment_rows.html", rows=await self._rows(visit))

    async def _rows(self, visit: PageVisit) -> list[dict[str, Any]]:
        rows = [row for row in await self.api.ask(queries.experiments) if visit.key.may("read", row["name"])]
        for row in rows:
            row["known"] = (await self._shares(row["name"], row["releases"], row["holdout"])).last
        return rows

    async def _shares(self, name: str, releases: int, holdout: float, segment: str = "") -> shares.Progress:
        """The shares so far, of one segment or all; only new releases are read."""
        progress = self._progress.setdefault((name, segment, holdout), shares.Progress(holdout))
        if progress.seq < releases:
            new = await self.api.ask(queries.shares, name, progress.seq, segment or None)
            progress.add(one for one in new if one["seq"] > progress.seq)
        return progress

    async def experiment(self, visit: PageVisit) -> Response:
        """The page of an experiment."""
        given = await self._state(visit) | await self._found_items(visit)
        url = str(visit.request.base_url).rstrip("/")
        return self.page("experiment.html", visit, url=url, digest="", **given)

    async def live(self, visit: PageVisit) -> Response:
        """The part of an experiment's page that changes."""
        return self.part(visit, "experiment_live.html", "released", part=True, **await self._state(visit))

    async def _state(self, visit: PageVisit) -> dict[str, Any]:
        """The values that an experiment's page shows."""
        name = visit.name
        status = await self.api.ask(queries.status, name)
        segment = chosen_segment(visit, status)
        last = await self.api.ask(queries.releases, name, limit=1, segment=segment)
        progress = await self._shares(name, status["releases"], status["config"]["holdout"], segment)
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
            "model": live.model,
            "item": (item := visit.request.query_params.get("item", "").strip()),
            "neighbours": live.model.recommender.neighbours(item, 10)
            if live.model is not None and item in live.known
            else [],
        }

    async def _account(self, population: str) -> dict[str, Any]:
        """The account of a population, cached: it changes with experiments and periods only."""
        read_at, found = self._accounts.get(population, (-_FRESH, {}))
        if time.monotonic() - read_at > _FRESH:
            found = await self.api.ask(queries.account, population)
            self._accounts[population] = time.monotonic(), found
        return found

    async def numbers(self, visit: PageVisit) -> Response:
        return self.page("experiment_numbers.html", visit, **await self._state(visit))

    async def chart(self, visit: PageVisit) -> Response:
        status = await self.api.ask(queries.status, visit.name)
        about = status["releases"], status["config"]["holdout"], chosen_segment(visit, status)
        progress = await self._shares(visit.name, *about)
        return JSONResponse(shares.series(progress.thinned()), headers=dict(HEADERS))

    async def items(self, visit: PageVisit) -> Response:
        """The items of the catalogue whose labels contain a text."""
        return self.page("items.html", visit, **await self._found_items(visit))

    async def _found_items(self, visit: PageVisit) -> dict[str, Any]:
        wanted = visit.request.query_params.get("find", "").strip()
        every = await self.api.ask(queries.items, visit.name)
        found = [one for one in every if wanted.casefold() in one["item"].casefold()]
        return {
            "find": wanted,
            "catalogue": found[:_MOST_ITEMS],
            "found": len(found),
            "in_use": sum(not one["retired"] for one in every),
            "retired": sum(one["retired"] for one in every),
        }

    async def set_status(self, status: str, visit: PageVisit) -> Response:
        """Pause or resume an experiment."""
        await self.api.set_status(visit.name, status)
        return _to(f"/experiments/{visit.name}")

    async def sure(self, visit: PageVisit) -> Response:
        """Ask for confirmation of an action, with its consequences."""
        asked = visit.request.path_params
        if (words := SURE.get(asked["act"])) is None or ("key" in asked) != (
            asked["act"] in ("revoke", "rotate")
        ):
            raise NOT_FOUND.with_()
        if "key" in asked:
            what = next((one for one in self.api.keys.listed() if one["id"] == asked["key"]), None)
            if what is None:
                raise MISSING["key"].with_()
            name, back = f"{what['name']} ({what['id']})", "/keys"
            action = f"/keys/{asked['key']}/{asked['act']}"
        else:
            name = (await self.engine.live(visit.name)).name
            back = f"/experiments/{name}"
            action = f"{back}/{asked['act']}"
        shown = {"act": asked["act"], "name": name, "words": words, "action": action, "back": back}
        return self.page("sure.html", visit, **shown)

    async def end(self, visit: PageVisit) -> Response:
        population = (await self.api.ask(queries.status, visit.name))["population"]
        await self.api.end_experiment(visit.name)
        self._accounts.pop(population, None)
        return _to(f"/experiments/{visit.name}")

    async def delete(self, visit: PageVisit) -> Response:
        population = (await self.api.ask(queries.status, visit.name))["population"]
        await self.api.delete_experiment(visit.name)
        self._accounts.pop(population, None)
        return _to("/experiments")

    async def change_items(self, visit: PageVisit) -> Response:
        """Add and retire the items of a form, one in each line.

        The reason of a refusal is shown: it depends on the form and on public facts only.
        """
        live = await self.engine.live(visit.name)
        add, retire = (lines_of(visit.given.get(name, "")) for name in ("add", "retire"))
        try:
            msgspec.convert({"add_items": add, "retire_items": retire}, Changes)
            await run_in_threadpool(self.engine.worker.change_items, live.id, add, retire)
        except (ValueError, TypeError, RuntimeError) as error:
            raise WRONG_ITEMS.with_(detail=str(error)) from None
        await self.engine.refresh(live.name)
        return _to(f"/experiments/{live.name}#catalogue")

    # --- a new one -------------------------------------------------------------------------------

    async def new(self, visit: PageVisit) -> Response:
        return self._form(visit, DEFAULTS, {}, await self._populations())

    def _form(
        self, visit: PageVisit, given: Fields, errors: Fields, people: dict[str, PopulationConfig]
    ) -> Response:
        options = [(name, f"{name} (epsilon {epsilon(one.epsilon)})") for name, one in people.items()]
        shown = {"given": given, "errors": errors, "options": options, "learners": list(LEARNERS.items())}
        return self.page("new.html", visit, 422 if errors else 200, **shown)

    async def _populations(self) -> dict[str, PopulationConfig]:
        found = await self.api.ask(queries.populations)
        return {one["name"]: msgspec.convert(one["budget"], PopulationConfig) for one in found}

    async def create(self, visit: PageVisit) -> Response:
        people = await self._populations()
        form = Form(visit.given, people)
        form.check_names({one["name"] for one in await self.api.ask(queries.experiments)}, set(people))
        await run_in_threadpool(form.release_plan)
        if not form.errors:
            await run_in_threadpool(self._make, form)
        if form.errors:
            return self._form(visit, form.given, form.errors, await self._populations())
        self._accounts.pop(form.population, None)
        await self.engine.refresh(form.name)
        people_too = f", population {form.population}" if form.makes_population else ""
        visit.request.scope["made"] = f"experiment {form.name}{people_too}"
        return _to(f"/experiments/{form.name}")

    def _make(self, form: Form) -> None:
        """Create what a checked form describes; a refusal becomes an error of its field."""
        assert form.people is not None
        assert form.config is not None
        worker = self.engine.worker
        try:
            with contextlib.ExitStack() as undo:
                if form.makes_population:
                    worker.create_population(form.population, form.people)
                    undo.callback(self._unmake, form.population)
                worker.create(form.name, form.population, form.config)
                undo.pop_all()
        except BudgetExceeded as refused:
            shown = refused.preview
            form.errors["share"] = (
                f"In this period epsilon {epsilon(shown.spent)} of {epsilon(shown.limit)} is spent, and this"
                f" would make it {epsilon(shown.after)}. Take a smaller share, or another population."
            )
        except Conflict:
            form.errors["name"] = "This name is already taken."
        except OtherSegments:
            form.errors["segments"] = (
                "Another experiment about these people has other segments: take the same, or none."
            )
        except ShareUnavailable as refused:
            form.errors["share"] = (
                "Other experiments about these people have reserved the rest of every period:"
                f" at most {100 * refused.left:g} % are left. End or pause one, or take another population."
            )
        except InvalidField as error:
            form.errors[error.field if error.field in FIELDS else "form"] = str(error)
        except (ValueError, TypeError, NotImplementedError) as error:
            form.errors["form"] = str(error)

    def _unmake(self, population: str) -> None:
        """Delete a population that was made for an experiment, unless it has one."""
        with contextlib.suppress(InUse, LookupError, StoreError):
            self.engine.worker.delete_population(population)

    async def plan(self, visit: PageVisit) -> Response:
        """What would be released, updated while the form is typed."""
        form = Form(visit.given, await self._populations())
        plan = await run_in_threadpool(form.release_plan)
        whose, spent = form.people, []
        if whose is not None and not form.makes_population:
            now = self.engine.worker.period(whose)
            periods = (await self._account(form.population))["periods"]
            spent = [one for one in periods if one["period"] == now]
        own = form.config is not None and form.config.personal
        words, lifts = "" if whose is None else queries.promise(whose, personal=own), None
        if plan is not None and form.config is not None and whose is not None:
            lifts = await run_in_threadpool(detectable_lift, form.config, whose, int(form.visitors))
        told: dict[str, Any] = {"release_plan": plan, "promise": words, "spent": spent, "lifts": lifts}
        return self.page("plan.html", visit, asked=form, **told)

    async def forecast(self, visit: PageVisit) -> Response:
        """The forecast, which takes a moment; none for personal sets: synthetic people have no histories."""
        form, found, own = Form(visit.given, await self._populations()), None, False
        plan = await run_in_threadpool(form.release_plan)
        if plan is not None and form.config is not None and form.people is not None:
            own, people = form.config.personal, int(float(f"{form.visitors:.2g}"))
            with contextlib.suppress(ValueError, limits.TooLong):
                if not own:
                    found = await self.api.side_process.do(forecast, form.config, form.people, people)
        return self.page("forecast.html", visit, found=found, own=own, release_plan=plan, asked=form)

    # --- what happened ---------------------------------------------------------------------------

    async def populations(self, visit: PageVisit) -> Response:
        rows = await self.api.ask(queries.populations)
        for row in rows:
            account = await self._account(row["name"])
            row |= {"period": (account["periods"] or [None])[-1], "periods": len(account["periods"])}
        return self.page("populations.html", visit, rows=rows)

    async def population(self, visit: PageVisit) -> Response:
        name = str(visit.request.path_params["population"])
        account = await self.api.ask(queries.account, name)
        every = await self.api.ask(queries.experiments)
        given = {
            "account": account,
            "charges": await self.api.ask(queries.ledger, name),
            "experiments": [one for one in every if one["population"] == name],
            "erased": "erased" in visit.request.query_params,
        }
        return self.page("population.html", visit, **given)

    async def account(self, visit: PageVisit) -> Response:
        """The account of a population, as a file or as a document."""
        asked = visit.request.path_params
        found: Response = await self.api.told_account(asked["population"], asked["form"])
        return found

    async def releases(self, visit: PageVisit) -> Response:
        """The newest thousand releases, as a file."""
        found = await self.api.ask(queries.releases, visit.name, limit=1000)
        form = visit.request.path_params["form"]
        return exported(form, found, queries.releases_table, f"releases-{visit.name}")

    async def erase(self, visit: PageVisit) -> Response:
        population, person = visit.request.path_params["population"], visit.given.get("person", "")
        if not person:
            raise NOBODY_NAMED.with_()
        await self.api.forget(population, person)
        return _to(f"/populations/{population}?erased#erase")

    async def audit(self, visit: PageVisit) -> Response:
        """Who changed what, a hundred entries at a time."""
        found = await self.api.ask(queries.audit, **paged(visit.request))
        return self.page("audit.html", visit, rows=found, more=len(found) == 100)

    # --- keys ------------------------------------------------------------------------------------

    async def keys(self, visit: PageVisit, status: int = 200, **more: Any) -> Response:
        given = {"made": None, "error": None, "given": {}} | more
        given["keys"] = await run_in_threadpool(self.api.keys.listed)
        given["experiments"] = sorted(row["name"] for row in await self.api.ask(queries.experiments))
        return self.page("keys.html", visit, status, roles=list(ROLES), **given)

    async def new_key(self, visit: PageVisit) -> Response:
        """Create a key, which is shown this once."""
        name, role = visit.given.get("name", "").strip(), visit.given.get("role", "")
        scope = visit.given.get("experiments", "").replace(",", " ").split() or None
        if not 1 <= len(name) <= 100 or role not in ROLES:
            return await self.keys(visit, 422, error="Give the key a name and a role.", given=visit.given)
        days = visit.given.get("days", "").strip()
        lasts = Range(1, 3650, integer=True).read(days)
        if not name.isprintable() or (days and lasts is None):
            error = "A name has no control characters, and days are a number from 1 to 3650, or none."
            return await self.keys(visit, 422, error=error, given=visit.given)
        make = partial(self.api.keys.create, name, role, scope, days=lasts)
        number, token = await run_in_threadpool(make)
        visit.request.scope["made"] = f"key {number}"
        return await self.keys(visit, made={"id": number, "key": token, "name": name, "role": role})

    async def rotate_key(self, visit: PageVisit) -> Response:
        """Replace a key by a new one, shown this once; rotating one's own key ends the session."""
        old = visit.request.path_params["key"]
        number, token = await run_in_threadpool(self.api.keys.rotate, old, 0.0)
        visit.request.scope["made"] = f"key {number}"
        key = self.api.keys.of(number)
        made = {"id": number, "key": token, "name": key and key.name, "role": key and key.role}
        return await self.keys(visit, made=made)

    async def end_key(self, visit: PageVisit) -> Response:
        number = visit.request.path_params["key"]
        if number == visit.key.id:
            return await self.keys(visit, 422, error="This is the key that you are logged in with.")
        await run_in_threadpool(self.api.keys.revoke, number)
        return _to("/keys")


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, dict(HEADERS))


def chosen_segment(visit: PageVisit, status: dict[str, Any]) -> str:
    """The segment that a page is about; "" for all of them."""
    asked = visit.request.query_params.get("segment", "")
    return asked if asked in status["config"]["segments"] else ""


# --- the application ------------------------------------------------------------------------------------

# Seconds after which a computing thread yields to others: visitors wait that long for the worker.
_TURN = 0.001


def shown(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


class App:
    """The JSON routes, those for clients of Personalizer, and the pages."""

    def __init__(self, engine: DecisionEngine, *, rate: float | None = None, networks: str = "") -> None:
        self.engine = engine
        self._webhooks = Webhooks(engine.store, engine.secrets, webhooks.networks(networks))
        self.keys = Keys(engine.store, rate)
        routes = Api(engine, self.keys)
        self._pages = Pages(routes)
        self._api = routes
        self.routes = [
            *routes.routes(),
            *Personalizer(routes).routes(),
            Route("/health/live", self._alive),
            Route("/health/ready", self._ready),
            Route("/openapi.json", self._description),
            Route("/docs", self._docs),
            *self._pages.routes(),
        ]
        self._lifespan = Router(lifespan=self._live)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._endpoint(scope)(request)
        except Exception as error:
            answer = refusal(problem_of(error))
        await answer(scope, receive, send)

    def _endpoint(self, scope: Scope) -> Endpoint:
        """The function that answers; adds the route and its path parameters to the scope."""
        # Parsers treat the body of such a request as another protocol: a decision would be made without the
        # body, for nobody. The connection is closed, so that the body is not read as a request either.
        for name, _ in scope["headers"]:
            if name == b"upgrade":
                return self._upgrade
        path, method, others = scope["path"], scope["method"], False
        for route in self.routes:
            if (found := route.path_regex.match(path)) is not None:
                scope["route"], scope["path_params"] = route, found.groupdict()
                if method in (route.methods or ()):
                    return route.endpoint
                others = True
        return self._method if others else self._missing

    @contextlib.asynccontextmanager
    async def _live(self, _: Any) -> AsyncIterator[None]:
        await self.engine.start(every=self._refresh)
        self._webhooks.start()
        yield
        self._webhooks.stop()
        self._api.side_process.close()
        with contextlib.suppress(StoreError):
            await self.engine.stop()

    def _refresh(self) -> None:
        """Read what other processes may have changed: keys, and sessions that were ended."""
        self.keys.refresh()
        self._pages.sessions.refresh()

    async def _description(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(description())

    async def _docs(self, request: Request) -> Response:  # noqa: ARG002
        return self._pages.page("docs.html", None, operations=DOCUMENTED, shown=shown)

    async def _alive(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002
        try:
            await self.engine.ping()
        except StoreError as error:
            return refusal(problem_of(error))
        return JSONResponse({"status": "ready"})

    async def _upgrade(self, request: Request) -> Response:  # noqa: ARG002
        found = refusal(UPGRADE)
        found.headers["connection"] = "close"
        return found

    async def _missing(self, request: Request) -> Response:
        path = request.url.path.rstrip("/")
        if path != request.url.path and any(one.path_regex.match(path) for one in self.routes):
            return RedirectResponse(request.url.replace(path=path))
        return self._pages.missing(request) or refusal(NOT_FOUND)

    async def _method(self, request: Request) -> Response:
        """Refuse a method; the Allow header lists the methods of all routes of this path."""
        path = request.url.path
        taken = {name for one in self.routes if one.path_regex.match(path) for name in one.methods or ()}
        found = self._pages.missing(request, METHOD) or refusal(METHOD)
        found.headers["allow"] = ", ".join(sorted(taken))
        return found


_AGAIN = "with other keys everybody would count again: the operations page says what to do"


def prepare(settings: ServiceSettings) -> Path | None:
    """Create tables, secrets and the first admin key where missing; returns the file with a new key.

    None if there are keys already, or the first one is from the settings or an existing file.
    """
    secrets = Path(settings.secrets)
    with contextlib.closing(open_store(settings.store)) as store:
        store.migrate()
        if not secrets.exists():
            if any(one["status"] not in ("frozen", "ended") for one in queries.experiments(store)):
                raise ValueError(f"there is no {secrets}, and {_AGAIN}")
            with contextlib.suppress(FileExistsError):  # another process starts at the same time
                Secrets.fresh(secrets)
        if not Secrets.read(secrets).counts_in(store):
            raise ValueError(f"{secrets} is not the file of this store, and {_AGAIN}")
        return _first_key(settings, Keys(store))


def _first_key(settings: ServiceSettings, keys: Keys) -> Path | None:
    """Create the first admin key, in no log; it is in the file first, so that a crash cannot lose it."""
    if keys.listed():
        return None
    file = Path(settings.admin_key_file or Path(settings.secrets).with_name("discreet.admin-key"))
    given, written = settings.admin_key, None
    if given is None and not file.exists():
        with contextlib.suppress(FileExistsError):  # another process starts at the same time
            write_secret(file, new_key())
            written = file
    try:
        keys.create("first", "admin", token=given or file.read_text().strip())
    except Conflict:
        return None  # the other process has created it
    except ValueError as error:
        raise ValueError(f"{'admin_key' if given else file}: {error}") from None
    return written


def application(settings: ServiceSettings) -> App:
    engine = DecisionEngine(open_store(settings.store), Secrets.read(settings.secrets))
    return App(engine, rate=settings.rate or None, networks=settings.webhook_networks)


def instrumented(app: App, settings: ServiceSettings) -> Instrumented:
    """The application with the observers of its answers: log, metrics, spans."""
    told: list[AnswerObserver] = [RequestLog()]
    if settings.operator_port is not None:
        told.append(metrics := Metrics(app.engine.store))
        metrics.serve(settings.operator_host, settings.operator_port)
    if settings.telemetry is not None:
        told.append(spans_to(settings.telemetry))
    inner: Any = app
    if settings.origins:
        inner = CORSMiddleware(
            app,
            allow_origins=[one.strip() for one in settings.origins.split(",")],
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "idempotency-key"],
        )
    return Instrumented(inner, *told)


def run(settings: ServiceSettings, ready: Callable[[], object] = lambda: None) -> None:
    """Serve until a signal arrives; ``ready`` is called once requests are answered."""
    sys.setswitchinterval(_TURN)
    app = application(settings)
    gc.collect()
    gc.freeze()  # later collections skip the modules, so that visitors wait less
    config = limits.configured(
        instrumented(app, settings),
        connections=settings.connections,
        log_config=None,
        forwarded_allow_ips=settings.proxies,
    )
    server = limits.Server(config, ready)
    restart, sock = Restart(server), listening(settings.host, settings.port)
    server.run(sockets=[sock.dup()])
    if restart.asked:
        again(sock)
