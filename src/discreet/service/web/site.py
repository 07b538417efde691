"""Who comes to the pages, what every page has, and how it is refused."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..keys import Secrets
from ..store import Frozen, StoreError
from . import problems
from .api import Api
from .auth import ROLES, Key, Throttle
from .forms import Fields, fields
from .hot import body
from .problems import Problem
from .rendering import Templates
from .sessions import COOKIE, HEADERS, Session, Sessions, same_site, same_token, set_cookie

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
