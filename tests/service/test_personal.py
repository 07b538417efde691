"""Personal sets: a history is used for its answer and kept nowhere, nor is what somebody was shown."""

from __future__ import annotations

import contextlib
import html
import json
import random
import re
import sqlite3
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.client import ServiceError
from discreet.personal import Recommender, word_features
from discreet.service import database
from discreet.service.config import PopulationConfig
from discreet.service.learning import InvalidField, release_plan
from discreet.service.web import DEFAULTS

from .conftest import Running, _free_port
from .pages import Visitor
from .test_api import refused
from .test_browser import browser  # noqa: F401
from .test_js import JS
from .world import World, likes

SCRIPT = Path(dc.__file__).parent / "personal.js"
GROUPS = 4  # of items that people have together
ITEMS = [f"item {number}" for number in range(24)]
PEOPLE = PopulationConfig(epsilon=40.0, delta=1e-6, definition="gdp", period="month")
MARKER = "marker-5d1c7e"


def group_of(label):
    return int(label.split()[1]) % GROUPS


def tastes(seed=1):
    """What people have: most items of one group, and the first item, which is popular."""
    rng = random.Random(seed)
    while True:
        group = rng.randrange(GROUPS)
        yield [item for item in ITEMS if (group_of(item) == group and rng.random() < 0.8) or item == ITEMS[0]]


def personal(**more):
    return likes(items=ITEMS, learner="PersonalSelector", block_size=100, **more)


def serve(world, blocks):
    people = tastes()
    for _ in range(blocks * 100):
        _, sequence, _ = world.serve()
        world.report(sequence, {"likes": next(people), "served": True})
        if world.blocks[0].over:
            world.settle()


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"feedback": "slots"}, "feedback", "not public"),
        ({"feedback": "bandit"}, "feedback", "not public"),
        ({"sticky": 60.0}, "sticky", "kept nowhere"),
        ({"segments": ["de"]}, "segments", "leave segments out"),
        ({"control": ITEMS[:3]}, "control", "most popular"),
    ],
)
def test_what_would_keep_or_learn_from_shown_sets_is_refused(file_url, more, field, words):
    with pytest.raises(InvalidField, match=words) as caught:
        World(file_url, personal(**more), PEOPLE)
    assert caught.value.field == field


def test_a_model_is_written_with_its_release_or_not_at_all(url, monkeypatch):
    world = World(url, personal(), PEOPLE)
    serve(world, 5)
    ((seq, chain, body),) = world.rows("SELECT seq, chain, body FROM model")
    assert Recommender.load(bytes(body)).rank_ > 0
    releases = world.rows("SELECT seq, chain, payload FROM release ORDER BY seq")
    (found,) = [one for one in releases if one[0] == seq]
    assert (bytes(found[1]), "model" in json.loads(found[2])) == (bytes(chain), True)

    def killed():
        raise KeyboardInterrupt

    for point in ("block closed", "outcomes read", "noise drawn"):
        monkeypatch.setitem(database.failpoints, point, killed)
        with pytest.raises(KeyboardInterrupt):
            serve(world, 20)
        monkeypatch.delitem(database.failpoints, point)
        world.crash()
        ((now,),) = world.rows("SELECT seq FROM model")
        ((last,),) = world.rows("SELECT max(seq) FROM release WHERE payload LIKE '%sha256%'")
        assert now == last
    serve(world, 8)
    assert world.rows("SELECT seq FROM model")[0][0] > seq


def test_a_block_holds_what_is_popular_and_catalogues_stay(file_url):
    world = World(file_url, personal(holdout=0.5), PEOPLE)
    serve(world, 5)
    for _, body in world.rows("SELECT first, body FROM block"):
        lists = json.loads(bytes(body))["lists"]
        assert len({tuple(one) for one in lists}) == 1
        assert json.loads(bytes(body))["mixed"] == 0  # no propensities
    with pytest.raises(ValueError, match="stays as it is"):
        world.worker.change_items(world.shop, [], [ITEMS[3]])


def known(client):
    """Whether the service has a model that tells tastes apart."""
    try:
        return len(client.model("shop").get("left", [[]])[0]) >= 3
    except ServiceError:
        return False


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with a model, and what was planted in histories on the way."""
    told = {"DISCREET_LOG_LEVEL": "debug", "DISCREET_OPERATOR_PORT": str(_free_port())}
    found = Running(tmp_path_factory.mktemp("personal"), **told)
    client = found.client()
    client.create_population("people", 40.0, delta=1e-6, definition="gdp", anonymous=True)
    settings = {"learner": "PersonalSelector", "block_size": 100, "outcome_wait": 0.5, "share": 1.0}
    client.create_experiment("shop", "people", ITEMS, 3, holdout=0.2, **settings)
    assert refused(lambda: client.model("shop")).name == "no-model"
    first = client.decide("shop", history=[*ITEMS[:20], MARKER])
    assert set(first.items) <= set(ITEMS[20:])  # before there is a model
    people, deadline = tastes(), time.monotonic() + 120
    while not known(client):
        assert time.monotonic() < deadline
        decisions = client.decide_many("shop", 100)
        client.report_many(
            {"decision_id": one.id, "likes": next(people), "served": True} for one in decisions
        )
        time.sleep(0.2)
    time.sleep(3.0)  # nothing more is released: blocks that are not over wait
    yield found
    found.stop()


def decided(client, wanted, history):
    """A decision of the hold-out, or of somebody's own set."""
    while True:
        found = client.decide("shop", history=history)
        if found.personal == wanted:
            return found


def test_sets_follow_histories_and_the_hold_out_sees_what_is_popular(running):
    client = running.client()
    for group in range(1, GROUPS):
        own = [item for item in ITEMS if group_of(item) == group]
        assert {group_of(item) for item in decided(client, True, [ITEMS[0], *own[:3]]).items[:2]} == {group}
    assert ITEMS[0] in decided(client, False, []).items
    assert ITEMS[0] not in decided(client, False, [ITEMS[0]]).items
    for own in (ITEMS, ITEMS * 100):  # however long
        assert client.decide("shop", history=own).items == ()  # not refused: refusals are counted
    again = [client.decide("shop", key="visit", history=[ITEMS[1], MARKER]) for _ in range(2)]
    assert again[0] == again[1]


def test_a_model_has_an_etag(running):
    url = f"{running.url}/v1/experiments/shop/model"
    headers = {"authorization": f"Bearer {running.key}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        tag, model = answer.headers["etag"], json.load(answer)
    assert tag == f'"{model["policy"]}"'
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers | {"if-none-match": tag}))
    assert caught.value.code == 304
    caught.value.close()
    client = running.client()
    assert client.model("shop") is client.model("shop") is not None


def test_other_outcomes_are_refused_with_the_reason(running):
    client = running.client()
    decision = client.decide("shop")
    for given in ({"taken": None}, {"value": 1.0}, {"likes": []}):
        assert "kept nowhere" in str(refused(lambda given=given: client.report(decision, **given)))
    assert client.report(decision, likes=[], served=False).status in ("recorded", "late")
    assert (
        refused(
            lambda: client.request(
                "POST", "/v1/experiments/shop/decisions", {"people": ["a", "b"], "history": []}
            )
        ).status
        == 422
    )


def test_nothing_of_a_history_is_kept(running):
    """Neither its labels, nor what was shown by it: not in the database, logs, metrics, audit or releases."""
    client = running.client()
    own = [item for item in ITEMS if group_of(item) == 2][:3]
    answers = [client.decide("shop", key=f"kept {n}", history=[*own, MARKER]) for n in range(30)]
    shown = next(one.items for one in answers if one.personal)
    text = json.dumps([client.audit(), client.releases("shop"), client.experiment("shop")])
    text += "".join(path.read_bytes().decode("latin-1") for path in running.folder.iterdir())
    with urllib.request.urlopen(f"http://127.0.0.1:{running.env['DISCREET_OPERATOR_PORT']}/metrics") as found:
        text += found.read().decode()
    assert "/v1/experiments/{name}/decisions" in text
    assert MARKER not in text
    with contextlib.closing(sqlite3.connect(running.folder / "service.db")) as file:
        kept = [json.loads(answer) for (answer,) in file.execute("SELECT answer FROM request")]
        altered = file.execute("SELECT 1 FROM block WHERE altered <> ''").fetchall()
    assert len(kept) >= 30  # what was answered is known by its key, without anybody's set
    assert not any(set(one["items"]) == set(shown) for one in kept)
    assert not altered


def test_the_page_shows_rank_neighbours_and_the_statement(running):
    page = Visitor(running.port, running.key).get("/experiments/shop?item=item+1")
    assert "Joint differential privacy" in page.text
    assert "most popular items" in page.text
    model = page.text.partition('id="model"')[2].partition("</section>")[0]
    assert "<td" in model
    assert 'th scope="row">item 5<' in model or 'th scope="row">item 9<' in model


def test_the_form_says_when_own_sets_begin_and_simulates_nothing(running):
    """By public sizes: from the settings of the learner that would be made, before and after that number."""
    form = DEFAULTS | {
        "name": "made",
        "items": "\n".join(ITEMS),
        "k": "3",
        "feedback": "full",
        "holdout": "20",
    }
    form |= {"learner": "PersonalSelector", "visitors": "20000", "epsilon": "4", "share": "100"}
    operator = Visitor(running.port, running.key)

    def said(**more):
        found = operator.post("/parts/forecast", **form | more)
        assert found.status == 200
        return " ".join(re.sub(r"<[^>]+>", "", found.text).split())

    enough = said()
    assert "synthetic people have no histories" in enough
    assert "best fixed set" not in enough
    after = int(re.search(r"own sets after ([\d,]+) people", enough)[1].replace(",", ""))
    assert "own sets after" in said(visitors=str(int(after / 0.8) + 2))
    few = said(visitors=str(int(after / 0.8) - 2))
    assert f"Popular items only: for everybody's own sets {after:,} people" in few
    plan = operator.post("/parts/plan", **form).text
    assert "A first model, of popularity and pairs of items" in plan
    config = personal(holdout=0.2)
    people = PopulationConfig(epsilon=4.0, delta=1e-6, definition="gdp")
    assert release_plan(config, people).own_after == after


def test_no_page_or_document_promises_that_own_sets_are_covered(running):
    """What anybody else sees is; somebody's own set follows from their own history (joint privacy)."""
    visitor, client = Visitor(running.port, running.key), running.client()
    client.create_population("others", 1.0, delta=1e-6, anonymous=True)
    pages = [
        visitor.get("/experiments/shop").text,
        visitor.get("/populations/people").text,
        visitor.get("/populations/people/account.html").text,
        json.dumps(client.account("shop")),
    ]
    for page in map(html.unescape, pages):
        assert "published in it or shown to anybody else is at most" in page
        assert "was shown or published" not in page
        assert "it is for them alone" in page
    assert "sets that were shown, but for personal ones" in pages[2]
    assert "Somebody's own set, towards anyone who sees it" in html.unescape(pages[2])
    assert "was shown or published in it" in visitor.get("/populations/others").text
    assert "Add or retire items" not in pages[0]


def test_a_browser_decides_as_the_service_does(running, browser):  # noqa: F811
    client = running.client()
    page = browser.new_context(offline=True).new_page()
    module = (JS / "index.js").read_text().replace("export ", "")
    page.add_script_tag(content=f"{SCRIPT.read_text()}\n{module}\nwindow.d = {{ PersonalModel, ownItems }};")
    people, seen = tastes(7), set()
    for _ in range(60):
        history = [*next(people)[::2], "unknown"]
        answer = client.decide("shop", history=history)
        model = client.model("shop")
        if answer.policy != model["policy"]:
            continue  # a release came in between
        asked = [{"items": ["", "", ""], "personal": answer.personal}, model, history]
        own = page.evaluate("([a, m, h]) => d.ownItems(a, new d.PersonalModel(m), h)", asked)
        assert tuple(own) == answer.items
        seen.add(answer.personal)
    assert seen == {True, False}


# --- public facts about items --------------------------------------------------------------------------

WORDS = {item: f"group{group_of(item)} thing" for item in ITEMS}


@pytest.mark.parametrize("kind", ["words", "numbers"])
def test_features_of_items_are_in_the_model(file_url, kind):
    """By label, as words or as numbers: the same rows as in Python, also after a crash."""
    rows = {item: [float(group_of(item) == group) for group in range(GROUPS)] for item in ITEMS}
    about, wanted = rows, np.array(list(rows.values()))
    if kind == "words":
        about, wanted = WORDS, word_features(list(WORDS.values()))
    world = World(file_url, personal(options={"features": about}), PEOPLE)
    serve(world, 5)

    def modelled():
        ((seq, body),) = world.rows("SELECT seq, body FROM model")
        assert Recommender.load(bytes(body)).features == pytest.approx(wanted)
        return seq

    before = modelled()
    world.crash()
    serve(world, 8)
    assert modelled() > before


def test_features_that_say_nothing_are_refused_at_their_place(running):
    client = running.client()
    settings = {"learner": "PersonalSelector", "share": 0.01}

    def made(about):
        return refused(
            lambda: client.create_experiment(
                "about", "people", ITEMS, 3, options={"features": about}, **settings
            )
        )

    found = made({"nothing": "of it"})
    assert (found.status, found.problem["at"]) == (422, "$.options.features")
    assert "about 'nothing', which is not among the items" in str(found)
    assert "no two items have a word in common" in str(made({ITEMS[0]: "alone"}))
    assert "features say nothing about" in str(made({ITEMS[0]: [1.0]}))


def test_the_form_takes_words_about_items(running):
    form = DEFAULTS | {"name": "about", "items": "\n".join(ITEMS), "feedback": "full", "delta": "1e-6"}
    form |= {"learner": "PersonalSelector", "people_name": "readers", "epsilon": "4"}
    operator = Visitor(running.port, running.key)

    def said(**more):
        return html.unescape(operator.post("/new", **form | more).text)

    assert "One of the items in a line, each once" in said(features="item 0: a\nitem 0: b")
    assert "One of the items in a line" in said(features="tea: green")
    assert "are for PersonalSelector" in said(features="item 0: a", learner="LeaderSelector")
    assert "no two items have a word in common" in said(features="item 0: a")
    lines = "\n".join(f"{item}: {words}" for item, words in WORDS.items())
    assert operator.post("/new", **form | {"features": lines}).status == 303
    assert running.client().experiment("about")["config"]["options"] == {"features": WORDS}
    page = operator.get("/experiments/about").text
    assert "<dt>features</dt><dd>of 24 items</dd>" in page
