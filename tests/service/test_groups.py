"""Groups: who counts, by decisions and not by what is said of them; requests that are sent again."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from types import SimpleNamespace

import pytest

from discreet.service import engine as engine_module
from discreet.service import groups
from discreet.service.api import Api
from discreet.service.auth import Secrets
from discreet.service.config import PopulationConfig
from discreet.service.database import NOBODY, Fenced, StoreError, Transaction, failpoints
from discreet.service.engine import DecisionEngine
from discreet.service.groups import Acknowledged
from discreet.service.learning import Learning
from discreet.service.worker import PAUSED, RUNNING, Worker, periods_of

from .world import ITEMS, World, likes, taken

TWICE = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp", max_rounds_per_person=2, period="month")
ANN, BEN = b"a" * 12, b"b" * 12


class Told(World):
    """A world that remembers what its learner has heard of each decision that counts."""

    def __init__(self, url, people=TWICE, config=likes, **more):
        super().__init__(url, config(holdout=0.0, **more), people)
        self.heard = {}
        honest = self.one.learning.aggregate

        def aggregate(block, outcomes):
            sequences = [block.first + o for o in range(block.served) if o not in block.uncounted]
            self.heard |= {sequence: outcomes.get(sequence, (False, None))[1] for sequence in sequences}
            honest(block, outcomes)

        self.one.learning.aggregate = aggregate

    @property
    def measured(self):
        """How many decisions shares are about: of blocks that have left, and of the open one."""
        measure = self.one.learning.measure
        return measure._open[""].before + sum(measure._open[""].decisions)


# --- who counts ---------------------------------------------------------------------------------------------


def rounds_that_change(folder):
    """Rounds that differ between any two ways in which Ann, with four decisions, may report them, or not.

    None if how many rounds there are, or which, differs.
    """
    world = Told(f"sqlite:///{folder}/service.db", block_size=5)
    orders = [order for size in range(5) for order in itertools.permutations(range(4), size)]
    found = [story(world, order, item) for item in ("item 1", "item 2") for order in orders[::2]]
    if len({(tuple(heard), measured) for heard, measured in found}) > 1:
        return None
    return max(
        sum(a[sequence] != b[sequence] for sequence in a)
        for (a, _), (b, _) in itertools.combinations(found, 2)
    )


def story(world, order, item):
    """What is learned of five decisions, of which Ann has four and reports some, in this order."""
    with world.store.transaction() as tx:
        tx.do("DELETE FROM visit")  # another person, who is called Ann, too
    world.heard.clear()
    before = world.measured
    sequences = [world.serve(pseudonym=pseudonym)[1] for pseudonym in (ANN, ANN, BEN, ANN, ANN)]
    world.report(sequences[2], ["item 5"], pseudonym=BEN)
    first = sequences[0]
    del sequences[2]
    for number in order:
        counted = world.acknowledged(sequences[number], [item], pseudonym=ANN)
        assert counted == Acknowledged("recorded", number < 2)
    world.settle()
    return {sequence - first: body for sequence, body in world.heard.items()}, world.measured - before


def test_whatever_somebody_reports_no_more_rounds_change_than_the_account_says(tmp_path):
    """Anything else, or nothing: both relations are among the pairs."""
    assert rounds_that_change(tmp_path) == 2


def test_a_count_of_what_was_reported_would_be_noticed(tmp_path, monkeypatch):
    """The fault: the first outcomes count, so that somebody chooses by reporting which rounds these are."""
    monkeypatch.setattr(groups, "_over_limit", lambda *_: set())
    honest, heard = groups._outcomes, {}

    def outcomes(tx, reported, blocks):
        for one in reported:
            if not tx.one("SELECT 1 FROM visit"):
                heard.clear()
            heard[one.pseudonym] = heard.get(one.pseudonym, 0) + 1
            tx.do("INSERT INTO visit VALUES (1, ?, ?, 1) ON CONFLICT DO NOTHING", "", one.pseudonym)
            row = blocks[max(key for key in blocks if key[2] <= one.sequence)]
            if heard[one.pseudonym] > 2:
                text = f"{row.uncounted}{one.decision - row.first} "
                blocks[row[:3]] = row._replace(uncounted=text)
                tx.do("UPDATE block SET uncounted = ? WHERE first = ?", text, row.first)
        return honest(tx, reported, blocks)

    monkeypatch.setattr(groups, "_outcomes", outcomes)
    with pytest.raises(AssertionError):
        rounds_that_change(tmp_path)


@pytest.mark.parametrize("config", [likes, taken])
def test_rounds_beyond_the_limit_are_left_out_of_sums_and_shares(url, config):
    """Everybody takes something each time they come; nobody is heard to have taken nothing."""
    people = TWICE if config is likes else PopulationConfig(epsilon=4.0, max_rounds_per_person=2)
    world = Told(url, people, config, block_size=10, measure=0.5)
    for number in range(40):
        pseudonym = bytes([number % 4 + 1]) * 12
        _, sequence, labels = world.serve(pseudonym=pseudonym)
        said = world.acknowledged(
            sequence, [labels[0]] if config is likes else labels[0], pseudonym=pseudonym
        )
        assert said == Acknowledged("recorded", number < 8)
        world.settle()
    assert [*world.heard] == [*range(8)]
    assert None not in world.heard.values()
    assert world.measured == 8
    if config is likes:
        assert world.one.learning.learner.round == 8
    shares = [block for one in world.rows("SELECT payload FROM release") for block in one]
    assert len(shares) == 4  # a release for every block: when they come depends on nobody
    assert world.rows("SELECT count(*) FROM outcome WHERE body IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("cut", [False, True])
def test_people_count_in_the_order_of_serving_however_groups_are_cut(url, monkeypatch, cut):
    """Another experiment was served from before: whether a commit came in between changes nothing."""
    monkeypatch.setattr(engine_module, "_FLUSH", 3600.0)
    once = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp")
    world = World(url, likes(seed=None, share=0.5), once)
    world.worker.create("other", "people", likes(seed=None, share=0.5))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        shop, other = await engine.live("shop"), await engine.live("other")
        for live in (shop, other):
            await engine.next_decision(live)
        await engine._flushing
        engine._begin_group = lambda: None
        engine.take(other, BEN)
        if cut:
            await engine._flush_now()
        engine.take(shop, ANN)
        engine.take(other, ANN)
        await engine._flush_now()
        left_out = world.rows("SELECT experiment, uncounted FROM block WHERE uncounted <> ''")
        await engine.stop()
        return left_out, other.id

    left_out, other = asyncio.run(story())
    assert left_out == [(other, "2 ")]


@pytest.mark.parametrize("pseudonym", [ANN, NOBODY])
def test_decisions_that_a_crash_left_unknown_take_no_outcome_and_are_no_rounds(url, pseudonym):
    """Nobody knows whether they were served, or whom they were for."""
    world = Told(url, block_size=4)
    known = world.serve(pseudonym=pseudonym)[1]
    world.write()
    lost = world.serve(pseudonym=pseudonym)[1]
    world.crash()
    assert world.report(known, ["item 1"], pseudonym=pseudonym) == "recorded"
    assert world.report(lost, ["item 1"], pseudonym=pseudonym) == "late"
    before = world.one.learning.learner.round
    world.settle()
    assert world.one.learning.learner.round == before + 1
    assert world.rows("SELECT times FROM visit") == ([(1,)] if pseudonym == ANN else [])


def test_groups_that_are_written_again_count_once(url):
    """Nobody knows whether a group was committed: it is sent again, with more, and may come in late."""
    world = Told(url, block_size=4)
    world.serve(pseudonym=BEN)
    world.serve(pseudonym=ANN)
    late = world.group()
    world.serve(pseudonym=ANN)
    world.serve(pseudonym=ANN, request=b"r")
    for group in (world.group(), late, world.group()):
        written = groups.record(world.store, group)
    assert [one.answer for one in written.requests] == ["3"]
    assert world.rows("SELECT served, uncounted FROM block WHERE first = 0") == [(4, "3 ")]
    assert sorted(world.rows("SELECT pseudonym, times FROM visit")) == [(ANN, 3), (BEN, 1)]


@pytest.mark.parametrize("when", ["before the decision", "before the outcome", "after the outcome"])
def test_nothing_more_is_learned_of_somebody_who_was_erased_and_it_is_seen_nowhere(url, when):
    world, secrets = Told(url, block_size=2), Secrets.fresh()
    pseudonym = secrets.pseudonym(1, "2026-11", "ann")
    whose = partial(secrets.pseudonym, person="ann")
    steps = {
        "before the decision": lambda: None,
        "before the outcome": lambda: world.serve(pseudonym=pseudonym),
        "after the outcome": lambda: world.acknowledged(0, [ITEMS[1]], pseudonym=pseudonym),
    }
    for name, step in steps.items():
        if name == when:
            world.worker.erase("people", whose)
        said = step()
    if when == "after the outcome":
        world.worker.erase("people", whose)
    assert said == Acknowledged("recorded", True)
    world.serve(pseudonym=BEN)
    world.settle()
    assert world.heard == {0: None, 1: None}  # rounds as before


@pytest.mark.parametrize("point", ["block closed", "outcomes read", "noise drawn"])
def test_what_the_worker_has_read_of_somebody_who_is_erased_is_not_learned(url, monkeypatch, point):
    world, secrets, heard = World(url, likes(holdout=0.0, block_size=2), TWICE), Secrets.fresh(), []
    honest = Learning.aggregate

    def aggregate(learning, block, outcomes):
        heard.append([outcomes.get(sequence, (False, None))[1] for sequence in (0, 1)])
        honest(learning, block, outcomes)

    monkeypatch.setattr(Learning, "aggregate", aggregate)
    world.serve(pseudonym=secrets.pseudonym(1, "2026-11", "ann"))
    world.serve(pseudonym=BEN)
    world.acknowledged(0, [ITEMS[1]], pseudonym=secrets.pseudonym(1, "2026-11", "ann"))
    monkeypatch.setitem(
        failpoints, point, lambda: world.worker.erase("people", partial(secrets.pseudonym, person="ann"))
    )
    with pytest.raises(Fenced):
        world.worker.tick(world.shop)
    monkeypatch.delitem(failpoints, point)
    assert world.rows("SELECT count(*) FROM release") == [(0,)]
    world.settle()
    assert heard[-1] == [None, None]
    assert world.rows("SELECT count(*) FROM release") == [(1,)]


def test_people_of_one_request_are_erased_at_once(url):
    """Every worker begins its step again once, and not once for each of them."""
    world, secrets = World(url, likes(block_size=4), TWICE), Secrets.fresh()
    people = {name: secrets.pseudonym(1, "2026-11", name) for name in ("ann", "ben", "cleo", "dan")}
    for name, pseudonym in people.items():
        _, sequence, _ = world.serve(pseudonym=pseudonym)
        world.acknowledged(sequence, [name], pseudonym=pseudonym)
    fence = world.store.lease(world.shop, world.owner)

    async def receive():
        return {"body": b'{"people": ["ann", "ben", "dan", "nobody"]}'}

    request = SimpleNamespace(path_params={"population": "people"}, receive=receive)
    api = Api(SimpleNamespace(worker=world.worker, secrets=secrets), None)
    assert asyncio.run(api.erase(request)) == {"status": "erased"}
    assert world.rows("SELECT fence FROM lease") == [(fence + 1,)]
    said = [body and bytes(body) for (body,) in world.rows("SELECT body FROM outcome ORDER BY sequence")]
    assert said == [None, None, b'["cleo"]', None]
    assert world.rows("SELECT count(*) FROM erased") == [(4,)]


def test_who_has_counted_is_not_forgotten_where_a_paused_experiment_goes_on(url):
    """A clock that is ahead for a while: pseudonyms of the month are dropped, and what goes on is charged."""
    world = World(url, taken(holdout=0.0, block_size=1), TWICE)
    for _ in range(3):
        _, sequence, labels = world.serve(pseudonym=ANN)
        counted = world.acknowledged(sequence, labels[0], pseudonym=ANN).counted
        world.settle()
    assert not counted
    world.worker.set_status(world.shop, PAUSED)
    right, world.now = world.now, world.now.replace(month=12)
    world.settle()
    world.worker.forget_people()
    assert world.rows("SELECT count(*) FROM visit") == [(0,)]
    world.now, world.leased = right, {}
    world.worker.set_status(world.shop, RUNNING)
    assert (world.one.period, world.one.status) == ("2026-12", RUNNING)
    assert len(periods_of(world.store, 1).names) == 2
    whose = partial(Secrets.fresh().pseudonym, person="ben")
    world.worker.erase("people", whose)
    world.worker.forget_people()
    assert sorted(world.rows("SELECT period FROM erased")) == [("2026-12",)]


def resumed(world):
    world.worker.set_status(world.shop, RUNNING)


def made(world):
    world.worker.create("other", "people", taken(share=0.4))


@pytest.mark.parametrize("step", [resumed, made])
def test_nothing_begins_in_a_period_that_was_forgotten_meanwhile(url, monkeypatch, step):
    """Its pseudonyms are gone, and who was erased in it: another process is in the next period already."""
    world, learner = World(url, taken(share=0.4), TWICE), Learning.begin
    world.serve(pseudonym=ANN)
    world.settle()
    world.worker.set_status(world.shop, PAUSED)
    world.now, other = world.now.replace(month=12), Worker(world.store)
    world.settle()
    with world.store.transaction() as tx:
        tx.do("INSERT INTO erased VALUES (1, '2026-12', ?)", ANN)
    other.clock = lambda: world.now.replace(year=2027)

    def slowly(*given):
        other.forget_people()
        return learner(*given)

    monkeypatch.setattr(Learning, "begin", slowly)
    with pytest.raises(Fenced):
        step(world)
    assert not world.rows("SELECT name FROM experiment WHERE period = '2026-12'")
    step(world)
    assert world.rows("SELECT max(period) FROM experiment") == [("2027-12",)]


# --- requests that are sent again -----------------------------------------------------------------------


def test_requests_are_kept_for_ten_minutes_and_as_long_as_their_outcomes_are_taken(url):
    world = Told(url, block_size=1)
    for request in (b"old", b"new", b"open"):
        if request == b"open":
            world.settle()
        world.serve(pseudonym=ANN, request=request)
        world.write()
    with world.store.transaction() as tx:
        ages = {b"old": 601.0, b"new": 590.0, b"open": 601.0}
        for request, age in ages.items():
            tx.do("UPDATE request SET at = ? WHERE id = ?", tx.now() - age, request)
        tx.do("UPDATE block SET closed_at = NULL WHERE state = 1")
    groups.forget_requests(world.store)
    assert sorted(bytes(one) for (one,) in world.rows("SELECT id FROM request")) == [b"new", b"open"]
    assert groups.KEEP == 600.0


def test_sticky_requests_are_kept_for_longer(file_url, monkeypatch):
    """Two blocks of one group: each decision is looked up in its own."""
    monkeypatch.setattr(Transaction, "now", lambda _: 5000.0)
    world = Told(file_url, block_size=1, outcome_wait=60.0)
    for stays in (0.0, 3000.0):
        world.serve(pseudonym=ANN, request=b"%d" % stays)
        last = world.sequences[-1]
        world.sequences[-1] = last._replace(request=last.request._replace(stays=stays))
        world.write()
    assert sorted(world.rows("SELECT at FROM request")) == [(5000.0,), (8000.0,)]
    said = world.report_all([(sequence, ["item 1"]) for sequence in (0, 1, 2)])
    assert said == ["recorded", "recorded", "late"]


def test_a_block_was_closed_when_its_last_decision_was_served(url):
    world = World(url, likes(outcome_wait=60.0))
    block = world.serve()[0]
    groups.record(
        world.store, groups.Group([], [world.cursors()[0]._replace(over=40.0)], list(world.sequences))
    )
    with world.store.transaction() as tx:
        ((closed,),) = tx.all("SELECT closed_at FROM block WHERE first = ?", block.first)
        assert tx.now() - closed >= 40.0


def test_an_engine_answers_alike_until_what_it_kept_is_forgotten(url, monkeypatch):
    """Also where the first commit has failed, or nobody knows how it ended."""
    world, secrets = World(url, likes(seed=None, outcome_wait=60.0)), Secrets.fresh()

    async def story():
        engine = DecisionEngine(world.store, secrets)
        await engine.start(work=False)
        shop = await engine.live("shop")

        async def ask(answer):
            await engine.next_decision(shop, ANN)
            return (await engine.keep(b"r", False, answer)).answer

        plain = groups.record

        def cut(store, group):
            if ending == "committed":
                plain(store, group)
            raise StoreError("nobody knows")

        found = []
        for ending in ("lost", "committed"):
            monkeypatch.setattr(groups, "record", cut)
            with pytest.raises(StoreError):
                await ask(f"first, {ending}")
            monkeypatch.setattr(groups, "record", plain)
            found += [await ask("second"), await ask("third")]
        await engine.stop()
        return found

    assert asyncio.run(story()) == ["first, lost"] * 4
    assert world_rows(url, "SELECT times FROM visit") == [(1,)]


def world_rows(url, sql):
    """What is in a store whose engine has stopped."""
    world = World(url)
    return world.rows(sql)


def test_the_first_decisions_of_a_person_count_over_blocks(url):
    world = Told(url, block_size=2, outcome_wait=60.0)
    sequences = []
    for pseudonym in (BEN, ANN, BEN, ANN, ANN, BEN):
        sequences.append((world.serve(pseudonym=pseudonym)[1], pseudonym))
        world.write()
    for sequence, pseudonym in reversed(sequences):
        assert world.acknowledged(sequence, ["item 1"], pseudonym=pseudonym) == Acknowledged(
            "recorded", sequence < 4
        )
    with world.store.transaction() as tx:
        tx.do("UPDATE block SET closed_at = 0 WHERE state = 1")
    world.settle()
    assert [*world.heard] == [0, 1, 2, 3]
    assert sorted(world.rows("SELECT pseudonym, times FROM visit")) == [(ANN, 3), (BEN, 3)]


def test_what_is_not_counted_is_not_kept(url):
    world = Told(url, block_size=4, outcome_wait=3600.0)
    for number in range(4):
        sequence = world.serve(pseudonym=ANN)[1]
        for status in ("recorded", "duplicate"):
            said = world.acknowledged(sequence, ["item 1"], pseudonym=ANN, altered=True)
            assert said == Acknowledged(status, number < 2)
    kept = world.rows("SELECT altered, body IS NOT NULL, pseudonym FROM outcome ORDER BY sequence")
    assert kept == [(1, True, ANN)] * 2 + [(0, False, None)] * 2


def test_decisions_without_a_person_are_not_limited(url):
    world = Told(url, block_size=4)
    for sequence in [world.serve()[1] for _ in range(4)]:
        assert world.acknowledged(sequence, ["item 1"]) == Acknowledged("recorded", True)
    world.settle()
    assert len(world.heard) == 4
    assert None not in world.heard.values()
    assert not world.rows("SELECT * FROM visit")


def test_a_request_that_is_sent_again_has_its_answer_and_counts_once(url):
    world = Told(url, block_size=4)
    first = world.serve(pseudonym=ANN, request=b"r")[1]
    assert [one.sequence for one in world.write().requests] == [first]
    again = world.serve(pseudonym=ANN, request=b"r")[1]
    second = world.serve(pseudonym=ANN, request=b"s")[1]
    third = world.serve(pseudonym=ANN, request=b"s")[1]  # in the same group
    assert [one.sequence for one in world.write().requests] == [first, second, second]
    assert world.rows("SELECT times FROM visit") == [(2,)]
    for sequence, counted in ((first, True), (again, False), (second, True), (third, False)):
        assert world.acknowledged(sequence, ["item 1"], pseudonym=ANN) == Acknowledged("recorded", counted)
    world.settle()
    assert [*world.heard] == [first, second]


def test_a_request_is_known_after_a_crash_if_it_was_written_down(url):
    world = Told(url, block_size=4)
    first = world.serve(pseudonym=ANN, request=b"r")[1]
    world.write()
    world.serve(pseudonym=ANN, request=b"lost")
    world.crash()
    world.serve(pseudonym=ANN, request=b"r")
    new = world.serve(pseudonym=ANN, request=b"lost")[1]
    assert [one.sequence for one in world.write().requests] == [first, new]
    assert world.rows("SELECT times FROM visit") == [(2,)]
