"""Segments in the service: a learner each, one account, one limit, one chain, and an order of their own."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from urllib.parse import quote

import numpy as np
import pytest

import discreet as dc
from discreet.client import ServiceError
from discreet.privacy.population import Periods
from discreet.service.config import PopulationConfig
from discreet.service.learning import MOST_SEGMENTS, Learning
from discreet.service.worker import OtherSegments, linked, periods_of

from .pages import Visitor
from .world import ITEMS, NOISY, PURE, World, likes, taken

VALUES = ["fr", "de", "it"]
SIZE = 8


def liked(rng, favourite):
    return [item for i, item in enumerate(ITEMS) if rng.random() < (0.9 if i == favourite else 0.1)]


def twin_of(config, people):
    gate = Periods(dc.Budget(people.epsilon, people.delta), definition=people.definition).gate(
        "2026-11", config.seed
    )
    return Learning.begin(config, gate).learner


# --- the same as the library's ----------------------------------------------------------------------------


def to(segment):
    return {"segment": segment} if segment else {}


@pytest.mark.parametrize("values", [[], VALUES], ids=["one learner", "segments"])
def test_decisions_with_likes_are_those_of_the_library(file_url, values):
    """The same gate, seed, people and order: each segment shows what the library's does, sharing included."""
    config = likes(segments=values, holdout=0.0, measure=0.0, options={"first_batch": 8})
    world, twin = World(file_url, config), twin_of(config, NOISY)
    rng, sets = np.random.default_rng(0), {segment: set() for segment in config.queues}
    shown = {segment: twin.choose(**to(segment)).labels for segment in config.queues}
    for _ in range(30):
        segment = values[int(rng.integers(3)) // 2] if values else ""  # "it" has no visitors
        people, sequences = [liked(rng, config.queues.index(segment)) for _ in range(SIZE)], []
        for _ in people:
            _, sequence, labels = world.serve(segment)
            assert tuple(labels) == shown[segment]
            sequences.append(sequence)
        world.report_all(zip(sequences, people, strict=True))
        world.settle()
        for person in people:
            twin.choose(**to(segment))
            twin.learn(items=person, **to(segment))
        shown[segment] = twin.choose(**to(segment)).labels  # it was allocated again
        sets[segment].add(shown[segment])
    learned = world.one.learning.queues
    assert all(len(found) > 2 for segment, found in sets.items() if segment != "it")
    assert not values or (twin.share and learned["it"].round == 0)
    twins = {segment: twin.of(segment) if values else twin for segment in config.queues}
    assert all(learned[segment].ranking() == one.ranking() for segment, one in twins.items())


@pytest.mark.parametrize("values", [[], VALUES], ids=["one learner", "segments"])
def test_decisions_with_taken_items_are_those_of_the_library(file_url, values):
    config = taken(segments=values, holdout=0.0, measure=0.0)
    world, twin = World(file_url, config, PURE), twin_of(config, PURE)
    rng, sets = np.random.default_rng(0), set()

    def allocate(segment, count):
        return [twin.choose(wait=False, **to(segment)) for _ in range(count)]

    allocated = {segment: allocate(segment, 2 * SIZE) for segment in config.queues}
    for _ in range(40):
        segment = str(rng.choice(config.queues))
        answers, sequences = [], []
        for one in allocated[segment][:SIZE]:
            _, sequence, labels = world.serve(segment)
            assert tuple(labels) == one.labels
            answers.append(labels[0] if rng.random() < 0.5 else None)
            sequences.append(sequence)
        world.report_all(zip(sequences, answers, strict=True))
        world.settle()
        for one, answer in zip(allocated[segment][:SIZE], answers, strict=True):
            twin.learn(answer, round=one.round)
        allocated[segment] = allocated[segment][SIZE:] + allocate(segment, SIZE)
        sets.add(tuple(labels))
    assert len(sets) > 3


# --- apart from each other --------------------------------------------------------------------------------


def test_blocks_are_aggregated_in_the_order_of_their_segment(url):
    """A block waits for those of its own segment that come before it, and for no others."""
    world = World(url, taken(segments=["de", "fr"], holdout=0.0), PURE)
    world.serve("de")  # stays open
    early = world.leased["de"][0]
    for _ in range(2):
        world.report_all([(world.serve("fr")[1], None) for _ in range(SIZE)])
    world.settle()
    assert {segment for (segment,) in world.rows("SELECT segment FROM release")} == {"fr"}
    late = world.store.lease_block(world.shop, 0, world.owner, "de")
    world.rows("UPDATE block SET closed_at = 0 WHERE first = ? RETURNING first", late[2])
    while world.worker.tick(world.shop):
        pass
    assert world.rows("SELECT state FROM block WHERE first = ?", late[2]) == [
        (2,)
    ]  # closed, and not aggregated
    assert world.one.learning.queues["de"].waits_for(early.round)
    while not early.over:
        world.serve("de")
    world.settle()
    assert not world.rows("SELECT 1 FROM block WHERE first IN (?, ?)", early.first, late[2])
    assert not world.one.learning.queues["de"].waits_for(early.round)


@pytest.mark.parametrize("config", [likes(segments=VALUES), taken(segments=VALUES)], ids=["likes", "taken"])
def test_a_crash_in_the_middle_of_aggregating_keeps_every_segment_in_order(url, config):
    from discreet.service.database import failpoints

    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    world = World(url, config, NOISY if config.feedback == "full" else PURE)
    rng, points = np.random.default_rng(2), itertools.cycle(("outcomes read", "noise drawn", "block closed"))
    counted = dict.fromkeys(VALUES, 0)
    for number in range(30):
        segment = str(rng.choice(VALUES))
        reports = []
        for _ in range(4):
            _, sequence, labels = world.serve(segment)
            reports.append((sequence, labels[:1] if config.feedback == "full" else labels[0]))
        world.report_all(reports)
        if number % 5 == 4:
            world.write()
            failpoints[point := next(points)] = kill
            try:
                while world.worker.due():
                    world.worker.tick(world.shop)
            except Killed:
                pass
            finally:
                failpoints.pop(point, None)
            world.crash()
            world.shop = 1
        world.settle()
        rounds = {one: learner.round for one, learner in world.one.learning.queues.items()}
        assert all(rounds[one] >= counted[one] for one in VALUES)
        counted = rounds
    chain = linked(b"", "experiment 1")
    chains = {chain}
    for payload, link in world.rows("SELECT payload, chain FROM release ORDER BY seq"):
        chain = linked(chain, payload)
        chains.add(chain)
        assert bytes(link) == chain
    assert all(bytes(link) in chains for (link,) in world.rows("SELECT chain FROM block"))
    assert periods_of(world.store, 1).account("2026-11").epsilon() <= world.one.people.epsilon


# --- what it costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [likes, taken])
def test_segments_cost_what_one_learner_costs(tmp_path, make):
    people = NOISY if make is likes else PURE
    spent = []
    for segments in ([], VALUES):
        world = World(f"sqlite:///{tmp_path}/{len(segments)}.db", make(segments=segments), people)
        spent.append(periods_of(world.store, 1).account("2026-11"))
    alone, divided = spent
    assert divided.epsilon() == pytest.approx(alone.epsilon(), rel=1e-9)
    assert divided.epsilon() <= people.epsilon
    assert len(divided.ledger.parts) == 3
    assert "taken to be public" in str(divided)


TWICE = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp", max_rounds_per_person=2, period="month")


def rounds_that_change(url, pseudonym_in, **more):
    """In how many rounds the learners see another outcome when somebody says something else."""
    seen = []
    for item in ("item 1", "item 2"):
        world = World(f"{url}.{item[-1]}", likes(segments=VALUES, holdout=0.0, **more), TWICE)
        aggregated = []
        honest = world.one.learning.aggregate

        def aggregate(block, outcomes, honest=honest, aggregated=aggregated):
            sequences = range(block.first, block.first + block.count)
            aggregated.extend((block.segment, sequence, outcomes.get(sequence)) for sequence in sequences)
            honest(block, outcomes)

        world.one.learning.aggregate = aggregate
        for segment in [*VALUES, *VALUES]:
            for who, what in (("somebody", item), ("somebody else", "item 5")):
                pseudonym = pseudonym_in(who, segment)
                _, sequence, _ = world.serve(segment, pseudonym)
                world.report(sequence, [what], pseudonym=pseudonym)
        for block in world.blocks:
            block.over_at = 0.0
        world.settle()
        seen.append(sorted(aggregated, key=lambda one: one[:2]))
    assert [one[:2] for one in seen[0]] == [one[:2] for one in seen[1]]
    return sum(one != other for one, other in zip(*seen, strict=True))


def hashed(*who):
    return hashlib.blake2b(" ".join(who).encode(), digest_size=12).digest()


def test_somebody_in_three_segments_changes_no_more_rounds_than_allowed(tmp_path):
    """One pseudonym in all segments: whatever the person says, two rounds see it, as the account says."""
    assert rounds_that_change(f"sqlite:///{tmp_path}/service", lambda person, _: hashed(person)) == 2


def test_a_mark_for_each_segment_would_be_noticed(tmp_path):
    """The fault: somebody in three segments is three people, and changes two rounds in each."""
    assert rounds_that_change(f"sqlite:///{tmp_path}/service", hashed) == 6


def test_experiments_of_a_population_are_divided_alike(url):
    world = World(url, likes(segments=["de", "fr"], share=0.4))
    before = world.rows("SELECT count(*) FROM charge")
    with pytest.raises(OtherSegments):
        world.worker.create("second", "people", likes(segments=["de", "it"], share=0.2))
    assert world.rows("SELECT count(*) FROM charge") == before
    world.worker.create("third", "people", likes(segments=["fr", "de"], share=0.2))
    world.worker.create("fourth", "people", likes(share=0.4))
    with pytest.raises(dc.BudgetExceeded):
        world.worker.create("fifth", "people", likes(segments=["fr", "de"], share=0.1))
    assert 0.9 < periods_of(world.store, 1).account("2026-11").epsilon() <= 1.0


@pytest.mark.parametrize(
    "wrong",
    [["a", "a"], [""], [" a"], ["x" * 65], ["a\nb"], [str(one) for one in range(MOST_SEGMENTS + 1)]],
)
def test_segments_that_cannot_be(tmp_path, wrong):
    world = World(f"sqlite:///{tmp_path}/service.db", likes(share=0.5))
    with pytest.raises(ValueError, match="segments"):
        world.worker.create("wrong", "people", likes(segments=wrong, share=0.1))
    assert world.rows("SELECT name FROM experiment") == [("shop",)]


# --- over HTTP --------------------------------------------------------------------------------------------


def test_decisions_name_their_segment(shared_service):
    client = shared_service.client()
    client.request(
        "POST",
        "/v1/populations",
        {"name": "segments", "epsilon": 30.0, "delta": 1e-6, "definition": "gdp", "anonymous": True},
    )
    asked = {
        "population": "segments",
        "items": ITEMS,
        "k": 3,
        "block_size": 5,
        "outcome_wait": 0.0,
        "holdout": 0.0,
    }
    divided = asked | {"segments": ["de", "fr"], "share": 0.4, "options": {"first_batch": 4}}
    client.request("POST", "/v1/experiments", divided | {"name": "divided"})
    client.request("POST", "/v1/experiments", asked | {"name": "whole", "share": 0.1})

    def refusal(experiment, **more):
        with pytest.raises(ServiceError) as caught:
            client.decide(experiment, "somebody", **more)
        assert caught.value.status == 422
        assert "marker" not in json.dumps(caught.value.problem)
        return caught.value.name

    assert (
        refusal("divided")
        == refusal("divided", segment="a marker")
        == refusal("divided", segment="")
        == "segment"
    )
    assert refusal("whole", segment="de") == "segment"
    with pytest.raises(ServiceError) as caught:
        client.request(
            "POST", "/v1/experiments", divided | {"name": "other", "segments": ["a"], "share": 0.1}
        )
    assert (caught.value.status, caught.value.name) == (409, "other-segments")
    with pytest.raises(ServiceError) as caught:
        client.request("POST", "/v1/experiments", divided | {"name": "other", "segments": ["de", "fr", "fr"]})
    assert caught.value.name == "body"
    assert len(client.decide("whole", "somebody").items) == 3
    body = {"segment": "de", "count": 6}  # more than a block, which is over
    found = client.request("POST", "/v1/experiments/divided/decisions", body)["decisions"]
    outcomes = [{"decision_id": one["decision_id"], "likes": ["item 4"]} for one in found[1:]]
    client.report_many(outcomes)
    deadline = time.monotonic() + 60
    while not (released := client.request("GET", "/v1/experiments/divided/releases")["releases"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert {one["segment"] for one in released} == {"de"}
    path = "/v1/experiments/divided/releases?limit=1&segment="
    assert client.request("GET", path + "de")["releases"]
    assert not client.request("GET", path + "fr")["releases"]
    status = client.request("GET", "/v1/experiments/divided")
    assert [one["segment"] for one in status["segments"]] == ["de", "fr"]
    assert [len(one["display"] or ()) for one in status["segments"]] == [3, 0]  # of one nothing is known
    assert status["display"] is None
    assert "segment" not in json.dumps(client.request("GET", "/v1/experiments/whole/releases"))


def test_pages_of_segments(shared_service):
    """All segments together, or one of them."""
    admin, client = Visitor(shared_service.port, shared_service.key), shared_service.client()
    form = {"name": "lands", "items": "\n".join(ITEMS), "k": "2", "feedback": "slots", "epsilon": "8"}
    form |= {"anonymous": "yes", "block_size": "32", "wait": "0", "holdout": "25", "visitors": "20000"}
    hostile = "<b>\"'&</b>"
    for wrong in ("de\nde", "x" * 65):
        found = admin.post("/new", **form, segments=wrong)
        assert found.status == 422
        assert "segments must be" in found.text
    assert admin.post("/new", **form, segments=f"de\n{hostile}").status == 303
    people = {"name": "others", "population": "lands", "share": "1"}
    assert "has other segments" in admin.post("/new", **form | people, segments="fr").text
    for _ in range(4):
        before = client.request("GET", "/v1/experiments/lands")["releases"]
        body = {"segment": "de", "count": 32}
        asked = client.request("POST", "/v1/experiments/lands/decisions", body)["decisions"]
        client.report_many({"decision_id": one["decision_id"], "taken": one["items"][0]} for one in asked)
        deadline = time.monotonic() + 60
        while client.request("GET", "/v1/experiments/lands")["releases"] == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert "<b>" not in admin.get("/experiments/lands").text.replace("<body>", "")
    one = admin.get("/experiments/lands?segment=de").text
    again = re.search(r'hx-get="(/parts/experiments/lands\?seen=[^"]*)"', one)[1].replace("&amp;", "&")
    assert "On display in de" in admin.get(again).text
    empty = admin.get(f"/parts/experiments/lands/numbers?segment={quote(hostile)}").text
    full = admin.get("/parts/experiments/lands/numbers?segment=de").text
    assert "Nothing yet." in empty
    assert "Nothing yet." not in full
    assert full == admin.get("/parts/experiments/lands/numbers").text  # the others had nobody
    assert admin.get("/experiments/lands?segment=nowhere").status == 200


def test_a_segment_learns_from_its_own_people(tmp_path):
    """The noise is so small that a hundred people of a segment who like one item alone are always heard."""
    people = PopulationConfig(epsilon=60.0, delta=1e-6, definition="gdp", period="month")
    config = likes(segments=VALUES, seed=None, holdout=0.0)
    world = World(f"sqlite:///{tmp_path}/service.db", config, people)
    favourite = {"fr": "item 3", "de": "item 7"}
    for segment in ["fr", "de"] * 20:
        world.report_all([(world.serve(segment)[1], [favourite[segment]]) for _ in range(SIZE)])
        world.settle()
    world.blocks = []
    best = {segment: world.one.learning.payload(segment)["values"][0]["item"] for segment in favourite}
    assert best == favourite
    assert {segment for (segment,) in world.rows("SELECT segment FROM release")} == {"fr", "de"}
    for segment, item in favourite.items():
        assert item in world.serve(segment)[2]
    said = [(one, json.loads(payload)) for one, payload in world.rows("SELECT segment, payload FROM release")]
    assert all(one == payload["segment"] for one, payload in said)
    world.now = world.now.replace(month=12)
    world.settle()
    assert world.one.epoch == 1
    world.blocks = []
    for segment, item in favourite.items():  # each begins with what it has released itself
        assert item in world.serve(segment)[2]
    assert len(world.rows("SELECT seq FROM release WHERE epoch = 1")) == 3


def test_shares_of_segments_leave_in_blocks_of_their_own(tmp_path):
    world = World(
        f"sqlite:///{tmp_path}/service.db", taken(segments=["de", "fr"], measure=0.5, holdout=0.2), PURE
    )
    for number in range(600):
        segment = "de" if number % 3 else "fr"
        _, sequence, labels = world.serve(segment)
        world.report(sequence, labels[0] if segment == "de" else None)
        if number % 40 == 39:
            world.settle()
    sequences, served = {}, {}
    for segment, payload in world.rows("SELECT segment, payload FROM release"):
        for block in json.loads(payload)["shares"]:
            sequences[segment] = sequences.get(segment, 0) + sum(block["decisions"])
            served[segment] = served.get(segment, 0.0) + sum(block["served"])
    assert sequences["de"] > 150
    assert sequences["fr"] > 60
    assert abs(served["de"] - sequences["de"]) < 60
    assert abs(served["fr"]) < 60
