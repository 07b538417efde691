"""Pages over HTTP: who sees what, what is refused, and that nothing on them can be turned against anybody."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from discreet.online.registry import REGISTRY
from discreet.service import auth
from discreet.service.web import DEFAULTS, LEARNERS, interval

from .pages import Visitor, key_of, make, serve

HOSTILE = ['<script>alert("item")</script>', "\"><img src=x onerror='alert(1)'>", "{{ 7 * 7 }}", "plain"]
MARKER = "a-person-who-must-not-be-seen"
WEB = Path(auth.__file__).parent


@pytest.fixture(scope="module")
def world(shared_service):
    """Three experiments, a key of each role, and some outcomes."""
    client = shared_service.client()
    make(client, "shop", HOSTILE)
    make(client, "other", ["a", "b", "c"])
    decision = client.decide("other", MARKER)
    client.report(decision, taken=decision.items[0])
    serve(client, "shop", "plain", 4)
    keys = {role: key_of(client, role) for role in ("app", "analyst", "operator", "admin")}
    keys["scoped"] = key_of(client, "analyst", ["shop"])
    keys["scoped operator"] = key_of(client, "operator", ["shop"])
    return shared_service, keys


def visitor(world, role):
    service, keys = world
    return Visitor(service.port, keys[role])


@pytest.fixture(scope="module")
def admin(world):
    return visitor(world, "admin")


@pytest.fixture(scope="module")
def operator(world):
    return visitor(world, "operator")


@pytest.fixture(scope="module")
def analyst(world):
    return visitor(world, "analyst")


PAGES = ["/experiments", "/experiments/shop", "/new", "/keys", "/populations", "/populations/other", "/audit"]
PARTS = ["", "/shop", "/shop/numbers", "/shop/shares", "/shop/items?find=plain"]


# --- what is seen --------------------------------------------------------------------------------------


def test_shares_are_those_of_the_releases(world, analyst):
    """The last point of the chart is the sum of what was released over the decisions it is about."""
    released = world[0].client().request("GET", "/v1/experiments/shop/releases")["releases"]
    blocks = [block for release in released for block in release["shares"]]
    assert blocks
    sequences = sum(block["decisions"][0] for block in blocks)
    served = sum(block["served"][0] for block in blocks) / sequences
    points = world[0].client().request("GET", "/v1/experiments/shop/shares")["points"]
    told = points[-1]
    assert told["learned"]["value"] == pytest.approx(min(max(served, 0.0), 1.0), abs=1e-5)
    assert told["learned"]["low"] <= told["learned"]["value"] <= told["learned"]["high"]
    chart = analyst.get("/parts/experiments/shop/shares")
    assert chart.headers["content-type"] == "application/json"
    drawn = [one for one in json.loads(chart.text)["learned"] if one is not None]
    known = [one["learned"]["value"] for one in points if one["learned"]["known"]]
    assert drawn == pytest.approx(known, abs=1e-5)


def test_a_seed_is_told_where_there_is_one(world, analyst):
    """Whoever believes that an experiment is not private switches it off."""
    make(world[0].client(), "seeded", ["a", "b", "c"], seed=7)
    for name, told in (("other", False), ("seeded", True)):
        assert ("for tests only, not private" in analyst.get(f"/experiments/{name}").text) == told


def test_nobody_is_on_pages(admin):
    for path in [*PAGES, "/experiments/other", *(f"/parts/experiments{part}" for part in PARTS)]:
        assert MARKER not in admin.get(path).text


# --- roles ---------------------------------------------------------------------------------------------

PEOPLE = {"/populations", "/populations/other"}
ALLOWED = {
    "analyst": {"/experiments", "/experiments/shop", "/experiments/other", *PEOPLE},
    "operator": {"/experiments", "/experiments/shop", "/experiments/other", "/new", *PEOPLE},
    "admin": {"/experiments", "/experiments/shop", "/experiments/other", "/new", "/keys", "/audit", *PEOPLE},
    "scoped": {"/experiments", "/experiments/shop"},
    "scoped operator": {"/experiments", "/experiments/shop"},
}


@pytest.mark.parametrize("role", ALLOWED)
def test_roles_decide_what_is_seen_and_done(world, role):
    one = visitor(world, role)
    for path in (*PAGES, "/experiments/other"):
        assert one.get(path).status == (200 if path in ALLOWED[role] else 403), path
    for part in PARTS[1:]:
        theirs = part.replace("shop", "other")
        assert one.get(f"/parts/experiments{theirs}").status == (403 if "scoped" in role else 200)
    listed = one.get("/experiments").text
    assert 'href="/experiments/shop"' in listed
    assert ('href="/experiments/other"' in listed) == ("scoped" not in role)
    assert ('href="/new"' in listed) == ("/new" in ALLOWED[role])
    assert ('href="/keys"' in listed) == (role == "admin")
    page = one.get("/experiments/shop").text
    operates = role not in ("analyst", "scoped")
    assert (">Pause</a>" in page) == operates
    assert (">End</a>" in page) == operates
    assert ("Add or retire items" in page) == operates
    for path, least in (("/experiments/other/items", "operator"), ("/new", "operator"), ("/keys", "admin")):
        allowed = role == "admin" or role == least
        assert (one.post(path).status == 403) == (not allowed), path


def test_keys_of_applications_see_nothing(world):
    service, keys = world
    one = Visitor(service.port)
    found = one.post("/login", key=keys["app"])
    assert found.status == 403
    assert "for applications" in found.text
    assert "set-cookie" not in found.headers
    assert one.get("/experiments").status == 401


def test_without_a_session_there_is_only_the_first_page(world):
    one = Visitor(world[0].port)
    for path in (*PAGES, *(f"/parts/experiments{part}" for part in PARTS)):
        found = one.get(path)
        assert found.status == 401
        assert "shop" not in found.text.replace(f'name="next" value="{path}"', "")
    assert one.post("/keys", name="x", role="admin").status == 401
    found = one.get("/parts/experiments", **{"HX-Request": "true"})
    assert (found.status, found.headers["hx-redirect"]) == (401, "/")


# --- sessions ------------------------------------------------------------------------------------------


def test_cookies_are_for_this_site_and_for_no_script(world):
    service, keys = world
    found = Visitor(service.port).post("/login", key=keys["analyst"])
    words = found.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/", f"max-age={auth.LIFE}"):
        assert part in words
    assert "secure" not in words  # not over plain HTTP; see below
    assert keys["analyst"] not in words


def test_cookies_over_tls_are_secure(world):
    service, keys = world
    one = Visitor(service.port)
    for said in ({"Origin": f"https://127.0.0.1:{service.port}"}, {"X-Forwarded-Proto": "https"}):
        headers = {"Sec-Fetch-Site": "same-origin"} | said
        found = one.send("POST", "/login", f"key={keys['analyst']}", **headers)
        assert "secure" in found.headers["set-cookie"].lower()


def test_wrong_keys_and_cookies_are_refused(world):
    service, _ = world
    one = Visitor(service.port)
    assert one.post("/login", key="dk_wrong").status == 401
    assert one.post("/login").status == 401
    good = visitor(world, "analyst")
    name, _, value = good.cookie.partition("=")
    for wrong in (
        "",
        "x",
        value[:-4] + "AAA=",
        "A" + value[1:],
        value[::-1],
        "%ff",
        "é".encode().decode("latin-1"),
    ):
        one.cookie = f"{name}={wrong}"
        assert one.get("/experiments").status == 401, wrong
        assert one.cookie == f'{name}=""'  # and taken away


def test_sessions_end(world):
    one = visitor(world, "analyst")
    stolen = one.cookie
    found = one.post("/logout")
    assert (found.status, found.headers["location"]) == (303, "/")
    one.cookie = stolen
    assert one.get("/experiments").status == 401


def test_a_session_ends_with_its_key(world, admin):
    service, _ = world
    token = key_of(service.client(), "analyst")
    one = Visitor(service.port, token)
    number = token.split("_")[1]
    assert admin.post(f"/keys/{number}/revoke").status == 303
    assert one.get("/experiments").status == 401
    assert admin.post(f"/keys/{number}/revoke").status == 404


# --- other sites ---------------------------------------------------------------------------------------


def test_cross_site_requests_are_refused_and_change_nothing(world, operator):
    service, keys = world
    here, path = f"http://127.0.0.1:{service.port}", "/experiments/other/pause"
    token = f"token={operator.token}"
    forms = [
        (token, {}),
        (token, {"Origin": "https://evil.example"}),
        (token, {"Origin": "null"}),
        (token, {"Origin": here, "Sec-Fetch-Site": "cross-site"}),
        (token, {"Origin": here, "Sec-Fetch-Site": "same-site"}),
        (token, {"Sec-Fetch-Site": "none"}),
        ("", {"Origin": here, "Sec-Fetch-Site": "same-origin"}),
        ("token=" + "0" * 64, {"Origin": here}),
        (f"token={visitor(world, 'operator').token}", {"Origin": here}),  # of another session
        ("\xff=%ff&token=\xe9", {"Origin": here}),
    ]
    for body, headers in forms:
        assert operator.send("POST", path, body.encode("latin-1"), **headers).status == 403, headers
    assert service.client().request("GET", "/v1/experiments/other")["status"] == "running"
    login = Visitor(service.port).send(
        "POST", "/login", f"key={keys['admin']}", Origin="https://evil.example"
    )
    assert login.status == 403
    assert "set-cookie" not in login.headers
    assert operator.post(path).status == 303
    assert service.client().request("GET", "/v1/experiments/other")["status"] == "paused"
    assert "refused decisions" in operator.get("/experiments/other").text
    assert operator.post("/experiments/other/resume").status == 303
    assert service.client().request("GET", "/v1/experiments/other")["status"] == "running"


def test_cookies_are_of_no_use_for_the_api(admin):
    assert admin.get("/v1/keys").status == 401
    assert admin.post("/v1/experiments/other/pause").status == 401


def test_headers_are_on_every_page(world, admin):
    nobody = Visitor(world[0].port)
    answers = [nobody.get("/"), nobody.get("/experiments"), nobody.post("/login", key="wrong")]
    answers += [admin.get(path) for path in (*PAGES, "/experiments/none", "/")]
    answers += [admin.get(f"/parts/experiments{part}") for part in PARTS]
    answers += [admin.post("/parts/plan"), admin.post("/new"), admin.send("POST", "/new")]
    answers += [nobody.get("/no/such/page", Accept="text/html,*/*")]
    for found in answers:
        policy = found.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "same-origin"
        assert found.headers["cache-control"] == "no-store"
    assert nobody.get("/no/such/page").headers["content-type"] == "application/problem+json"


def test_pages_hold_no_script_or_style_of_their_own(admin):
    for path in (*PAGES, "/parts/experiments/shop"):
        text = admin.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+\s*=\s*[\"']|javascript:", text), path
        assert all(re.search(r"<script src=\"/static/", tag) for tag in re.findall(r"<script[^>]*>", text))
        assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_files_come_with_the_package(world):
    one = Visitor(world[0].port)
    names = {path.name for path in (WEB / "static").iterdir()}
    assert {"htmx.min.js", "htmx.LICENSE.txt", "uPlot.iife.min.js", "uPlot.LICENSE.txt", "page.css"} <= names
    for name in names:
        found = one.get(f"/static/{name}?x")
        assert found.status == 200
        assert "max-age" in found.headers["cache-control"]
    for wrong in ("nothing.js", "..%2fweb.py", "%2e%2e/web.py", ""):
        assert one.get(f"/static/{wrong}").status == 404


# --- labels --------------------------------------------------------------------------------------------


def test_labels_are_escaped(admin):
    for path in ("/experiments/shop", "/parts/experiments/shop", "/parts/experiments/shop/items"):
        text = admin.get(path).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "49" not in re.findall(r"<li>(.*?)</li>", text)
    catalogue = admin.get("/parts/experiments/shop/items").text
    shown = [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", catalogue)]
    assert sorted(shown) == sorted(HOSTILE)
    find = admin.get("/experiments/shop?find=%22%3E%3Cscript%3Ealert(2)%3C/script%3E").text
    assert "<script>alert" not in find
    assert "&lt;script&gt;alert(2)" in find
    made = admin.post("/keys", name=HOSTILE[0], role="app").text
    assert "<script>alert" not in made
    form = admin.post(
        "/new", **DEFAULTS | {"name": HOSTILE[1], "items": HOSTILE[0], "epsilon": HOSTILE[1]}
    ).text
    assert "<script>alert" not in form
    assert "<img src=x" not in form


# --- forms ---------------------------------------------------------------------------------------------

FORM = DEFAULTS | {"name": "made-here", "items": "a\nb\n\n c \nd", "k": "2", "wait": "0", "block_size": "16"}


def test_candidates_of_a_form_are_on_its_page(world, operator):
    few = FORM | {"name": "few", "people_name": "few", "candidates": "d\n a\nb"}
    assert operator.post("/new", **few).status == 303
    assert world[0].client().request("GET", "/v1/experiments/few/status")["config"]["candidates"] == [*"dab"]
    assert "<dt>Candidates</dt><dd>3: d, a, b</dd>" in operator.get("/experiments/few").text


def test_a_form_makes_an_experiment(world, operator):
    client = world[0].client()
    for wrong, words in (
        ({"name": "no spaces"}, "Letters, digits"),
        ({"name": "shop"}, "taken by another experiment"),
        ({"people_name": "shop"}, "taken by another population"),
        ({"items": ""}, "one in a line"),
        ({"items": "a\na"}, "items must be distinct"),
        ({"candidates": "a\nz"}, "candidates has 'z', which is not among the items"),
        ({"candidates": "a"}, "at least k = 2 different items"),
        ({"k": "9"}, "k must be from 1 to the number of items"),
        ({"k": "two"}, "An integer"),
        ({"epsilon": "0"}, "above 0"),
        ({"epsilon": "nan"}, "above 0"),
        ({"epsilon": "1e400"}, "above 0"),
        ({"delta": "0", "feedback": "full"}, "needs a delta"),
        ({"feedback": "mood"}, "Nothing was made"),
        ({"learner": "HedgeSelector", "rounds": "99"}, "learner must be one of"),
        ({"learner": "Nobody"}, "Choose one of these"),
        ({"learner": "BanditSelector"}, "how many rounds"),
        ({"feedback": "full", "learner": "MetaFrankWolfe", "rounds": "99"}, "is for groups"),
        ({"groups": "a: a; b\nb (2): c; d"}, "Groups need full feedback"),
        ({"feedback": "full", "groups": "x: a; b"}, "in one group"),
        ({"feedback": "full", "groups": "x: a; b; c; d; e"}, "in one group"),
        ({"feedback": "full", "groups": "a; b; c; d"}, "One group in a line"),
        ({"feedback": "full", "groups": "x (0): a; b; c; d"}, "One group in a line"),
        ({"options": "no value"}, "One option in a line"),
        ({"options": "mood = 3"}, "which ThompsonSelector does not take"),
        ({"rounds": "many"}, "An integer"),
        ({"measure": "0"}, "holdout needs measure above 0"),
        ({"population": "nobody"}, "no such population"),
        ({"population": "shop", "share": "50"}, "is spent, and this would make it"),
    ):
        found = operator.post("/new", **FORM | wrong)
        assert found.status == 422, wrong
        assert words in html.unescape(found.text), wrong
        assert "Nothing was made" in found.text
    assert "made-here" not in {one["name"] for one in client.request("GET", "/v1/experiments")["experiments"]}
    found = operator.post("/new", **FORM)
    assert (found.status, found.headers["location"]) == (303, "/experiments/made-here")
    assert set(client.decide("made-here", "ann").items) <= {"a", "b", "c", "d"}
    budget = next(
        one["budget"]
        for one in client.request("GET", "/v1/populations")["populations"]
        if one["name"] == "made-here"
    )
    assert (budget["epsilon"], budget["definition"], budget["delta"]) == (1.0, "pure", 0.0)
    assert not budget["anonymous"]


@pytest.mark.parametrize(
    ("control", "words"),
    [
        ("a", None),
        ("a\nb", None),
        ("a\nb\nc", "up to k = 2 different items"),
        ("a\na", "up to k = 2 different items"),
        ("a\nz", "'z', which is not among the items"),
    ],
)
def test_a_control_set_is_up_to_k_different_items(operator, control, words):
    asked = {
        "name": f"control-{len(control)}",
        "people_name": f"p{len(control)}",
        "k": "2",
        "holdout": "20",
        "control": control,
    }
    found = operator.post("/new", **FORM | asked)
    assert found.status == (303 if words is None else 422)
    assert words is None or words in html.unescape(found.text)


def test_a_form_offers_learners_groups_and_options(world, operator):
    text = operator.get("/new").text
    fit = [name for name, one in REGISTRY.items() if one.learns_from in ("function", "reward")]
    assert set(LEARNERS) == {"auto", *fit} - {"ToySelector"}  # which other tests register
    assert all(f'<option value="{name}"' in text for name in LEARNERS)
    groups = {
        "name": "grouped",
        "feedback": "full",
        "k": "3",
        "groups": "x (2): a; b ;\ny: c;d",
        "holdout": "50",
    }
    assert operator.post("/new", **FORM | groups).status == 303
    client = world[0].client()
    for _ in range(20):
        items = set(client.decide("grouped", "ann").items)
        assert len(items & {"c", "d"}) <= 1
        assert len(items & {"a", "b"}) <= 2
    config = client.request("GET", "/v1/experiments/grouped")["config"]
    assert config["constraint"] == {"groups": {"x": ["a", "b"], "y": ["c", "d"]}, "limits": {"x": 2, "y": 1}}
    more = {"name": "optional", "feedback": "full", "learner": "HedgeSelector", "rounds": "1,000"}
    found = operator.post("/new", **FORM | more | {"options": "resample_every = 10"})
    assert found.status == 303
    config = client.request("GET", "/v1/experiments/optional")["config"]
    assert (config["learner"], config["rounds"], config["options"]) == (
        "HedgeSelector",
        1000,
        {"resample_every": 10},
    )


def test_the_catalogue_is_changed_by_a_form(world, operator):
    client = world[0].client()
    make(client, "stock", ["a", "b", "c"])
    found = operator.post("/experiments/stock/items", add=" new one \n\n", retire="a")
    assert found.status == 303
    listed = {
        one["item"]: one["retired"] for one in client.request("GET", "/v1/experiments/stock/items")["items"]
    }
    assert listed == {"a": True, "b": False, "c": False, "new one": False}
    assert "retired" in operator.get("/parts/experiments/stock/items").text
    for wrong in ({"add": "b"}, {"retire": "nothing"}, {"retire": "b\nc"}):
        found = operator.post("/experiments/stock/items", **wrong)
        assert found.status == 422
        assert "cannot be changed like that" in found.text
    found = operator.post("/experiments/stock/items", retire="nothing")
    assert "nothing" in found.text  # the learner's own words
    make(client, "held", ["a", "b", "c"], control=["a", "b"])
    found = operator.post("/experiments/held/items", retire="a")
    assert found.status == 422
    assert "which is in the control set; keep it" in found.text
    client.request("POST", "/v1/experiments/held/end")
    found = operator.post("/experiments/held/items", add="d")
    assert found.status == 409
    assert "has ended" in found.text
    again = {
        one["item"]: one["retired"] for one in client.request("GET", "/v1/experiments/stock/items")["items"]
    }
    assert again == listed


def test_keys_are_shown_once(world, admin):
    service, _ = world
    found = admin.post("/keys", name="the shop", role="app", experiments="shop, other")
    key = re.search(r'id="new-key"[^>]*>(dk_\w+)<', found.text)[1]
    assert found.headers["cache-control"] == "no-store"
    assert service.client(key).decide("other").items
    page = admin.get("/keys").text
    assert "the shop" in page
    assert "other, shop" in page
    assert key not in page
    assert admin.post("/keys", name="", role="app").status == 422
    assert admin.post("/keys", name="x", role="king").status == 422
    assert "yours" in page  # which has no button
    assert admin.post("/keys/none/revoke").status == 404


def test_an_experiment_with_everything_that_may_be_known(analyst):
    found = analyst.get("/experiments/shop").text
    for words in (
        "People served",
        "Lift over random sets",
        "exp(8) times",
        "Account of every release",
        "95 %",
    ):
        assert words in found
    assert "parts of people who were served" in found  # the account
    assert found.count("ThompsonSelector") == 1
    listed = analyst.get("/experiments").text
    assert re.search(r"[\d.]+ to [\d.]+ %", listed)
    assert "±" not in listed


def test_parts_are_sent_when_something_has_changed(world, analyst):
    first = analyst.get("/parts/experiments/shop?seen=")
    assert first.status == 200
    assert first.headers["hx-trigger"] == "released"
    again = re.search(r'hx-get="(/parts/experiments/shop\?seen=[0-9a-f]+)"', first.text)[1]
    assert analyst.get(again).status == 204
    serve(world[0].client(), "shop", "plain", 1)
    assert analyst.get(again).status == 200


@pytest.mark.parametrize("feedback", ["slots", "full", "bandit"])
def test_the_plan_is_that_of_the_experiment_itself(operator, feedback):
    """What the plan says is read off the learner that would be made: its block and noise."""
    form = FORM | {"feedback": feedback, "items": "\n".join(map(str, range(20))), "visitors": "2000"}
    form |= {"share": "100", "measure": "10", "holdout": "5"}
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", operator.post("/parts/plan", **form).text))
    words = {
        "slots": "Every 54 people counts are released, with noise of about ± 3.1 people",
        "full": "The first counts are released after 81 people",
        "bandit": "Every 34 people counts are released, with noise of about ± 1.6 people",
    }
    assert words[feedback] in text
    assert f"after {503 if feedback == 'full' else 300} people" in text
    assert "exp(1) times" in text
    assert "None with 2,000 people" in text  # a lift: by 100 people of the hold-out
    better = operator.post(
        "/parts/plan", **form | {"visitors": "50000", "measure": "30", "holdout": "20"}
    ).text
    assert re.search(r"After 50,000 people, <strong>[\d.]+ points</strong> or more", better)
    found = operator.post("/parts/forecast", **form)
    assert found.status == 200
    assert "of what the best fixed set would serve" in found.text


def test_a_plan_says_what_others_have_taken(operator):
    text = operator.post("/parts/plan", **FORM | {"population": "shop"}).text
    assert "have taken <strong>ε 8</strong> of 8" in text
    assert "nothing is left" in text
    assert "have taken" not in operator.post("/parts/plan", **FORM).text


def test_a_plan_of_an_unfinished_form_says_what_is_missing(operator):
    found = operator.post("/parts/plan", **FORM | {"items": "", "epsilon": "x"})
    assert found.status == 200
    assert 'href="#items"' in found.text
    assert 'href="#epsilon"' in found.text
    assert "cannot be simulated" in operator.post("/parts/forecast", **FORM | {"items": ""}).text


def test_a_drawn_interval_is_the_value_and_its_95_percent():
    """From the lowest end, or 0, to the highest, in percent; 95 % are 1.96 deviations each way."""
    rows = [
        {"value": 3.0, "deviation": 1.5},
        {"value": -1.0, "deviation": 0.5},
        {"value": 1.0, "deviation": None},
    ]
    # From -1 - 2 x .5 to 3 + 2 x 1.5: eight wide.
    found = [interval(row, rows) for row in rows]
    assert [one["zero"] for one in found] == [round(200 / 8, 2)] * 3
    assert [one["at"] for one in found] == [round(100 * x / 8, 2) for x in (5.0, 1.0, 3.0)]
    assert [one["from"] for one in found] == [round(100 * x / 8, 2) for x in (5.0 - 2.94, 1.0 - 0.98, 3.0)]
    assert [one["to"] for one in found] == [round(100 * x / 8, 2) for x in (5.0 + 2.94, 1.0 + 0.98, 3.0)]
