"""An interrupt anywhere in any call loses people at most: nobody counts twice, nothing is drawn unpaid.

Every call of a story is interrupted at its n-th place and made again, until no call has so many places
(`tests/interrupts.py`). What is released is compared with what was released without an interrupt. One place
of each setting is tried with the other tests, every fifth with ``make audit``.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.audit.hooks import swapped
from discreet.objectives import Coverage
from discreet.online.learner import Rounds
from discreet.online.pending import Pending
from discreet.online.registry import REGISTRY
from discreet.online.sums import PrivateTotal
from discreet.privacy import (
    Gate,
    GaussianNoise,
    LaplaceNoise,
    MemoryLedger,
    PeopleSplit,
    RunningSum,
    SQLiteLedger,
    select_partitions,
)
from discreet.privacy.account import Releases
from discreet.privacy.accountant import Accountant
from tests.interrupts import HALFWAY, Watch, interrupted, watched
from tests.online.examples import EXAMPLES
from tests.online.learners import FAMILIES, LIBRARY

# Interrupts come to ``__del__`` too, and go no further.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PEOPLE, DIGITS = 24, 12
# What a call may say when it is made again, and had taken place.
DONE = ("comes after choose()", "has been counted", "is over", "waits for no", "is late", "already")


def distinct(name: str, words: str) -> bool:
    """Whether everybody can want an item of their own, so that sums show who is in them twice."""
    one = EXAMPLES[name][words]
    return (
        LIBRARY[name].learns_from == "function"
        and isinstance(one.arguments[0], int)
        and ("constraint" not in one.options)
    )


def check_account(gate: Gate) -> None:
    """What a gate says was released is what its ledger holds, entry by entry."""
    listed = Releases()
    for group, entry, count, _ in gate._accountant.ledger.entries():
        listed.of_group(group).add(entry, count)
    said = gate.spent.ledger
    assert dict(gate_entries(said)) == dict(gate_entries(listed)), "the account is not the ledger"
    assert said.loss == listed.loss, "the account is not the ledger"


def gate_entries(releases: Releases) -> Any:
    return (((group, entry), count) for group, entry, count in releases.entries())


class Life:
    """A learner, and what the world knows of it."""

    learn_all = 1  # how many parts learn from one person

    def __init__(self, name: str, words: str, watch: Watch, path: Any) -> None:
        example, self.family = EXAMPLES[name][words], FAMILIES[REGISTRY[name].learns_from]
        self.kind, self.watch, self.path = REGISTRY[name].kind(name), watch, path
        arguments, self.alone = example.arguments, distinct(name, words)
        if self.alone:
            arguments = (PEOPLE + 1, *arguments[1:])
        self.people = Coverage(np.eye(PEOPLE, PEOPLE + 1)) if self.alone else self.family.people(PEOPLE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few people, or of published constants
            self.learner = self.made(example.budget, arguments, example.options)
        self.told = self.learned = 0
        self.sets: dict[int, Any] = {}
        self.private = self.learner.budget.private
        self.follow()

    def made(self, budget: Any, arguments: Any, options: Any) -> Any:
        return self.kind(*arguments, budget, seed=None, **options)

    @property
    def parts(self) -> Any:
        """The learners that take people up."""
        return [self.learner]

    def follow(self) -> None:
        """Count who is taken up."""

        def observing(person: Any, observe: Any) -> None:
            nobody = person is None or (isinstance(person, tuple) and person[-1] is None)
            self.learned += 0 if nobody else Fraction(1, self.learn_all)
            observe(person)

        for learner in self.parts:
            learner._observe = partial(observing, observe=learner._observe)

    def next(self, decision: Any) -> Any:
        """What the next person tells of a decision."""
        person, number = self.people[self.told % PEOPLE], self.told
        self.told += 1
        if getattr(self.learner, "_rewarded", False):
            worth = 4.0**-number if number < DIGITS else 0.0
            return worth if self.learner.feedback == "bandit" else [worth, *[0.0] * (len(decision.items) - 1)]
        return self.family.feedback(self.learner, person, decision)

    def see(self, decision: Any) -> None:
        """A decision that was served: of a round there is only one."""
        if hasattr(decision, "items"):
            assert self.sets.setdefault(decision.round, decision).items == decision.items, "another set"
        self.shown = decision

    # --- calls: prepared without an interrupt, and made with one -------------------------------------------

    def shows(self) -> Any:
        return self.learner.choose()

    def choose(self) -> Callable[[], Any]:
        return self.shows

    def ahead(self) -> Callable[[], Any]:
        return lambda: self.learner.choose(wait=False)

    def learn(self) -> Callable[[], Any]:
        self.see(self.shows())
        told = self.next(self.shown)
        return lambda: self.learner.learn(told)

    def late(self) -> Callable[[], Any] | None:
        if not self.learner.pending or self.learner.pending[0] not in self.sets:
            return None
        late = self.learner.pending[0]
        told = self.next(self.sets[late])
        return lambda: self.learner.learn(told, round=late)

    def skip(self) -> Callable[[], Any] | None:
        late = self.learner.pending[:1]
        return (lambda: self.learner.skip(late)) if late else None

    def expire(self) -> Callable[[], Any]:
        return lambda: self.learner.expire(self.learner.round - 1)

    def save(self) -> Callable[[], Any]:
        return lambda: self.learner.save(self.path)

    def load(self) -> Callable[[], Any]:
        return lambda: self.learner.to_bytes()  # loaded again after it

    def run(self) -> Callable[[], Any]:
        start, first = self.learner.round, self.told
        self.told += 4
        people = (
            self.people[first % (PEOPLE - 4) : first % (PEOPLE - 4) + 4]
            if not self.alone
            else (self.people[first : first + 4])
        )

        def run() -> None:
            if (left := start + 4 - self.learner.round) > 0 and not self.learner.over:
                self.learner.run(people[4 - left :])

        return run

    def retire(self) -> Callable[[], Any]:
        self.shows()
        label = self.learner.n_items - 1  # nobody of those who are alone wants it
        self.gone = label
        return lambda: self.learner.retire_items([label])

    def bring_back(self) -> Callable[[], Any]:
        return lambda: self.learner.add_items([self.gone])

    def merge(self) -> Callable[[], Any] | None:
        try:
            part = self.learner.partial("another")
        except (NotImplementedError, ValueError):
            return None
        if part.room == 0:
            return None
        try:
            part.add(self.next(self.learner.choose()))
        except TypeError:
            return None
        return lambda: self.learner.merge(part)

    def finish(self) -> Callable[[], Any]:
        return lambda: self.learner.finish()

    def epoch(self) -> Callable[[], Any]:
        return lambda: self.learner.next_epoch(self.learner.budget)

    # --- what must hold ---------------------------------------------------------------------------------

    def check(self) -> None:
        learner = self.learner
        account = learner.privacy
        check_account(learner._gate)
        if self.private:
            assert account.spent.epsilon(learner.budget.delta) <= account.epsilon(learner.budget.delta)
        said = {one[1] for one in account.spent.ledger.entries()}
        if self.told:
            missing = {one for one in self.watch.used if one.label != "post-processing"} - said
            assert not missing, f"released, and in no account: {missing}"
        assert self.learned <= self.told, "somebody was learned from twice"
        total = getattr(learner, "_sum", None)
        if not self.private and hasattr(total, "released") and self.alone:
            self.watch.highest("released", total.released)

    def after(self, step: str, found: Any) -> None:
        """What the world does with the answer of a call."""
        if step in ("choose", "ahead") and found is not None:
            self.see(found)
        elif step == "load":
            self.learner = dc.load(found)
            self.follow()
        elif step in ("retire", "bring_back"):  # the open round serves another set
            self.sets.pop(self.learner.round, None)


class OnLedger(Life):
    """A learner whose charges are in a ledger, in memory or in a file, that a saved one comes back to."""

    def __init__(self, name: str, words: str, watch: Watch, path: Any, kept: str) -> None:
        self.file = Path(tempfile.mkdtemp(dir=path.parent)) / "ledger" if kept == "file" else None
        self.ledger = MemoryLedger() if self.file is None else SQLiteLedger(self.file)
        self.over = False  # whether the ledger was closed under the learner
        super().__init__(name, words, watch, path)

    def gate(self) -> Gate:
        definition = "zcdp" if self.full.delta else "pure"
        return Gate(self.full, definition=definition, ledger=self.ledger)

    def made(self, budget: Any, arguments: Any, options: Any) -> Any:
        self.full = budget
        return super().made(self.gate(), arguments, options)

    def load(self) -> Callable[[], Any]:
        state = self.learner.to_bytes()
        if self.file is None:
            return lambda: self.refused(state)

        self.over = True

        def load() -> Any:
            self.ledger.close()  # what an interrupted call took up as well
            self.ledger = SQLiteLedger(self.file)
            return dc.load(state, gate=self.gate())

        return load

    def refused(self, state: bytes) -> None:
        with pytest.raises(ValueError, match="already in use"):
            dc.load(state, gate=self.gate())

    def after(self, step: str, found: Any) -> None:
        if step == "load":
            if found is not None:
                self.learner, self.over = found, False
                self.follow()
        else:
            super().after(step, found)

    def check(self) -> None:
        if not self.over:
            super().check()


class Divided(Life):
    """Segments, whose rounds are numbered together."""

    def made(self, budget: Any, arguments: Any, options: Any) -> Any:
        self.turn, self.places = 0, {}
        make = partial(self.kind, *arguments, **options)
        return dc.online.Segments(make, ["a", "b"], budget, by="place")

    @property
    def parts(self) -> Any:
        return self.learner._learners

    @property
    def segment(self) -> str:
        return "babba"[self.turn % 5]

    def see(self, decision: Any) -> None:
        super().see(decision)
        place = self.places.setdefault(decision.round, self.segment)
        assert place == self.segment, "two rounds have one number"

    def shows(self) -> Any:
        return self.learner.choose(self.segment)

    def choose(self) -> Callable[[], Any]:
        self.turn += 1
        return self.shows

    def ahead(self) -> Callable[[], Any]:
        self.turn += 1
        return lambda: self.learner.choose(self.segment, wait=False)

    def learn(self) -> Callable[[], Any]:
        self.see(self.shows())
        number, told = self.shown.round, self.next(self.shown)
        return lambda: self.learner.learn(told, round=number)

    def run(self) -> Callable[[], Any]:
        people, start = self.people[self.told : self.told + 4], self.passed
        self.told += 4

        def run() -> None:
            if (done := self.passed - start) < 4:
                self.learner.run(people[done:], list("abba")[done:])

        return run

    @property
    def passed(self) -> int:
        return sum(one.round for one in self.parts)

    def after(self, step: str, found: Any) -> None:
        super().after(step, found)
        if step in ("retire", "bring_back"):
            self.sets.clear()


class Ordered(Life):
    """Experts, each of which learns from everybody."""

    learn_all = 3

    def made(self, budget: Any, arguments: Any, options: Any) -> Any:
        rounds = arguments[2]
        make = partial(self.kind, PEOPLE + 1, 1, rounds, **options)
        return dc.online.Experts(make, self.learn_all, budget, n_items=PEOPLE + 1)

    @property
    def parts(self) -> Any:
        return self.learner.experts

    def check(self) -> None:
        check_account(self.learner._gate)
        assert self.learned <= self.told, "somebody was learned from twice"


SELECTOR = (
    "choose learn learn ahead ahead ahead late save skip load ahead ahead expire merge learn learn retire"
    " learn ahead late bring_back learn run epoch run learn finish choose finish"
)
POINTS = "choose learn learn save learn learn load run learn learn run finish choose finish"
FIRST = "choose load learn ahead learn"
SEGMENTS = (
    "choose choose learn learn ahead ahead ahead late save skip load ahead learn ahead expire learn retire"
    " choose learn bring_back learn run save choose learn finish choose finish"
)
EXPERTS = "choose learn learn learn choose learn"


class Halfway(Exception):
    """An interrupted call left a learner that refuses to go on."""


class Story:
    """The calls of a life, each interrupted at the same place, but not those that leave it half-way."""

    def __init__(self, name: str, words: str, path: Any, steps: str | None = None, life: Any = None) -> None:
        self.name, self.words, self.path, self.life = name, words, path, life or Life
        kind = REGISTRY[name].kind(name)
        whole = SELECTOR if issubclass(kind, dc.online.OnlineSelector) else POINTS
        self.steps = (steps or whole).split()
        self.clean = self.told(None)[1]

    def told(self, at: int | None) -> tuple[bool, Watch]:
        """Whether any call had a place ``at``, and what was released."""
        without: set[int] = set()
        while True:
            try:
                return self._told(at, without)
            except Halfway:
                continue

    def _told(self, at: int | None, without: set[int]) -> tuple[bool, Watch]:
        reached, last = False, -1
        with watched() as watch:
            life = self.life(self.name, self.words, watch, self.path / "learner")
            for number, step in enumerate(self.steps):
                where = ""
                try:
                    if (call := getattr(life, step)()) is None:
                        continue
                    never = at is None or number in without
                    found, where = interrupted(call, 10**9 if never else at)
                    if where:
                        reached, last, found = True, number, None
                        life.check()
                        try:
                            found = call()
                        except (RuntimeError, ValueError) as error:
                            if not any(one in str(error) for one in DONE):
                                raise
                    life.after(step, found)
                    life.check()
                except Exception as error:
                    if isinstance(error, RuntimeError) and HALFWAY in str(error) and last >= 0:
                        without.add(last)
                        raise Halfway from None
                    about = f"{self.words}: {step} (call {number}), cut at {at}: {where}"
                    raise AssertionError(f"{about}: {error!r}") from error
        return reached, watch

    def survives(self, at: int) -> bool:
        """Tell the story with interrupts at ``at``, and compare; whether any call had such a place."""
        reached, watch = self.told(at)
        for name, found in watch.sums.items() if distinct(self.name, self.words) else ():
            once = float(np.max(self.clean.sums.get(name, np.inf)))
            once = max(once, 1.0) if name.startswith("window") else once  # a secret sample, perhaps of nobody
            if "difference" not in name:
                assert float(np.max(found)) <= once * (1 + 1e-9), f"{self.words}, cut at {at}: {name} twice"
        return reached


EVERY = [(name, words) for name in LIBRARY for words in EXAMPLES[name]]


@pytest.mark.parametrize("name", LIBRARY)
def test_a_learner_that_was_interrupted_goes_on_or_refuses(name, tmp_path):
    for words in EXAMPLES[name]:
        story = Story(name, words, tmp_path)
        first = 31 * EVERY.index((name, words)) % 397  # other places for each setting
        assert story.survives(first + 397 * (first % 2))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), EVERY)
def test_a_learner_that_was_interrupted_goes_on_or_refuses_at_length(name, words, tmp_path):
    story = Story(name, words, tmp_path)
    for at in itertools.count(EVERY.index((name, words)) % 5, 5):
        if not story.survives(at):
            break


@pytest.mark.parametrize("name", ["PhasedSelector", "RollingSelector", "BestOfBothSelector"])
def test_a_first_set_is_drawn_however_the_call_was_interrupted(name, tmp_path):
    story = Story(name, next(iter(EXAMPLES[name])), tmp_path, FIRST)
    for at in itertools.chain(range(2, 60, 3), itertools.count(60, 97)):
        if not story.survives(at):
            break


OTHERS: dict[str, tuple[str, str, str | None, Any]] = {
    "segments, leader": ("LeaderSelector", "leader selector, endless", SEGMENTS, Divided),
    "segments, hedge": ("HedgeSelector", "hedge, batches", SEGMENTS, Divided),
    "experts, hedge": ("HedgeSelector", "hedge, batches", EXPERTS, Ordered),
    "experts, sums": ("RunningSumSelector", "running sum, sqrt", EXPERTS, Ordered),
} | {
    f"{name} on a ledger, {kept}": (name, next(iter(EXAMPLES[name])), None, partial(OnLedger, kept=kept))
    for name in LIBRARY
    for kept in ("memory", "file")
}


@pytest.mark.parametrize("name", ["segments, leader", "experts, sums", "HedgeSelector on a ledger, file"])
def test_others_that_were_interrupted_go_on_or_refuse(name, tmp_path):
    Story(*OTHERS[name][:2], tmp_path, *OTHERS[name][2:]).survives(13)


def test_rounds_of_segments_have_numbers_of_their_own(tmp_path):
    name, words, _, kind = OTHERS["segments, hedge"]
    story = Story(name, words, tmp_path, "choose choose", kind)
    for at in itertools.count(0, 3):
        if not story.survives(at):
            break


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_others_that_were_interrupted_go_on_or_refuse_at_length(name, tmp_path):
    story = Story(*OTHERS[name][:2], tmp_path, *OTHERS[name][2:])
    for at in itertools.count(len(name) % 5, 5):
        if not story.survives(at):
            break


# --- single releases -----------------------------------------------------------------------------------

CROWD = Coverage(np.eye(6).repeat(5, axis=0))
TABLE = {"who": list(range(60)), "what": ["tea", "milk"] * 30}
SUM = GaussianNoise(9.0, 90.0)
RELEASES: dict[str, Callable[[Gate], Any]] = {
    "choice": lambda gate: gate.choose([1.0, 2.0, 3.0], 0.1, 1.0),
    "Laplace": lambda gate: gate.laplace([1.0, 2.0], 10.0, 1.0),
    "spherical": lambda gate: gate.spherical_laplace([1.0, 2.0], 10.0, 1.0),
    "reserved": lambda gate: gate.reserve(LaplaceNoise(1.0, 10.0), 3).steps(2),
    "sum": lambda gate: gate.running_sum(3, 4, norm_bound=1.0, event=SUM).add([1.0, 0.0, 0.0]),
    "keys": lambda gate: select_partitions(np.arange(60), np.arange(60) % 2, 2, gate, share=0.3),
    "part": lambda gate: PeopleSplit(3, bytes(16)).gate(gate, 1).choose([1.0, 2.0], 0.1, 1.0),
    "greedy": lambda gate: dc.offline.PrivateGreedy(2, gate.share(0.3)).select(CROWD),
    "continuous": lambda gate: dc.offline.ContinuousGreedy(2, gate.share(0.3), steps=2).select(CROWD),
    "curvature": lambda gate: dc.offline.CurvatureGreedy(2, gate.share(0.3), steps=2).select(CROWD),
    "estimator": lambda gate: dc.offline.PrivateItemSelector(2, budget=gate.share(0.3)).fit(
        np.eye(6).repeat(5, axis=0)
    ),
    "recommender": lambda gate: dc.offline.PrivateRecommender(gate.share(0.3)).fit(CROWD),
    "catalogue": lambda gate: dc.data.private_catalogue(TABLE, gate, person="who", item="what", share=0.3),
}


SPEND_ALL = ("keys", "catalogue")  # of delta: once


def released(name: str, ledger: str, path: Any, at: int) -> bool:
    """Interrupt a release at a place and make it again; nobody's account says less than the ledger."""
    kept = {"own": lambda: None, "memory": MemoryLedger, "file": lambda: SQLiteLedger(path / f"{at}")}[
        ledger
    ]()
    definition = "pure" if name in SPEND_ALL else "zcdp"

    def gate() -> Gate:
        return Gate(dc.Budget(3.0, 1e-5), definition=definition, ledger=kept)

    with watched():
        one = gate()
        _, where = interrupted(lambda: RELEASES[name](one), at)
        for more in (RELEASES[name] if where else None, lambda gate: gate.laplace(1.0, 100.0, 1.0)):
            if more is not None:
                if at % 2:  # otherwise the next charge is the first to read the ledger again
                    check_account(one)
                with suppress(dc.BudgetExceeded) if name in SPEND_ALL else nullcontext():
                    more(one)
        check_account(one)
        other = Gate.from_state(one.state()) if kept is None else gate()
        assert 3.0 >= one.spent.epsilon(1e-5) == other.spent.epsilon(1e-5) > 0.0, where
    return bool(where)


@pytest.mark.parametrize("ledger", ["own", "memory", "file"])
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.filterwarnings("ignore:.*too small.*")
def test_a_release_that_was_interrupted_is_charged_before_it_is_drawn(name, ledger, tmp_path):
    for at in itertools.count(0, 1 if name == "choice" and ledger != "file" else 283):
        if not released(name, ledger, tmp_path, at):
            break


@pytest.mark.slow
@pytest.mark.parametrize("ledger", ["own", "memory", "file"])
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.filterwarnings("ignore:.*too small.*")
def test_a_release_that_was_interrupted_is_charged_before_it_is_drawn_at_length(name, ledger, tmp_path):
    for at in itertools.count(0, 1 if name in ("choice", "Laplace", "sum", "keys", "part") else 13):
        if not released(name, ledger, tmp_path, at):
            break


# --- sums, loads and what comes after them ---------------------------------------------------------------


def ledger_of(kind: str, path: Any) -> Any:
    return {"own": lambda: None, "memory": MemoryLedger, "file": lambda: SQLiteLedger(path)}[kind]()


def gate_over(ledger: Any) -> Gate:
    return Gate(dc.Budget(3.0, 1e-5), definition="zcdp", ledger=ledger)


def again(call: Callable[[], Any]) -> None:
    """Make a call again that was interrupted, and may have taken place."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        if not any(one in str(error) for one in (*DONE, "taken them all", HALFWAY)):
            raise


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_the_end_of_a_sum_is_written_however_its_last_addition_was_interrupted(kind, tmp_path):
    reached = True
    for at in itertools.count(3, 1 if kind == "memory" else 29):
        ledger, reached = ledger_of(kind, tmp_path / f"{at}"), False
        total = gate_over(ledger).running_sum(3, 2, norm_bound=1.0, event=SUM)
        total.add([1.0, 0.0, 0.0])
        with watched():
            _, reached = interrupted(lambda one=total: one.add([0.0, 1.0, 0.0]), at)
            again(lambda one=total: one.add([0.0, 1.0, 0.0]))
        if total.taken == 2:
            assert not list(ledger.unfinished()), reached
        if not reached:
            break


def test_an_interrupted_load_lets_no_earlier_state_back_and_an_interrupted_end_is_written(tmp_path):
    for at in itertools.count(5, 397):
        ledger = SQLiteLedger(tmp_path / f"{at}")
        learner = dc.online.RunningSumSelector(5, 2, 8, gate_over(ledger))
        for name in ("old", "new"):
            learner.choose()
            learner.learn(items=[1])
            learner.save(tmp_path / name)
        ledger.close()
        with SQLiteLedger(ledger.path) as ledger, watched():
            _, where = interrupted(lambda one=ledger: dc.load(tmp_path / "new", gate=gate_over(one)), at)
        with SQLiteLedger(ledger.path) as ledger, pytest.raises(ValueError, match="saved again, or went on"):
            dc.load(tmp_path / "old", gate=gate_over(ledger))
        with SQLiteLedger(ledger.path) as ledger:
            learner = dc.load(tmp_path / "new", gate=gate_over(ledger))
            assert learner.round == 2
            interrupted(learner.finish, at % 97)
            learner.finish()
            assert not list(ledger.unfinished())
        with SQLiteLedger(ledger.path) as ledger, pytest.raises(ValueError, match="drawn everything"):
            dc.load(tmp_path / "new", gate=gate_over(ledger))
        if not where:
            break


def test_copies_of_a_ledger_that_were_interrupted_are_whole_or_refused(tmp_path):
    with SQLiteLedger(tmp_path / "ledger") as ledger:
        gate_over(ledger).laplace(1.0, 10.0, 1.0)
        held = list(ledger.entries())
        for at in itertools.count(1, 7):
            copy = tmp_path / f"copy {at}"
            _, where = interrupted(lambda copy=copy: ledger.backup(copy), at)
            back = copy.with_suffix(".back")
            if copy.exists():
                again_copied(copy, back, held)
            if not where:
                break
    for at in itertools.count(1, 7):
        back = tmp_path / f"back {at}"
        _, where = interrupted(lambda back=back: SQLiteLedger.restore(copy, back).close(), at)
        if back.exists():
            with suppress(ValueError, TimeoutError), SQLiteLedger(back, timeout=0.01) as found:
                assert list(found.entries()) in (held, []), where
        if not where:
            break


def again_copied(copy: Path, back: Path, held: Any) -> None:
    with suppress(ValueError), SQLiteLedger.restore(copy, back) as found:
        assert list(found.entries()) == held


@pytest.mark.parametrize("over", [False, True])
def test_the_next_epoch_is_charged_and_learns_on_its_own(over):
    for at in itertools.count(5 + over, 167):
        periods = dc.privacy.Periods(dc.Budget(1.0, 1e-6))
        learner = dc.online.RunningSumSelector(5, 2, 8, periods.gate("2026-11"))
        with watched():
            for _ in range(3):
                learner.choose()
                learner.learn(items=[1])
            if over:
                interrupted(learner.finish, at % 97)
                learner.finish()
            epoch = partial(learner.next_epoch, periods.gate("2026-12"))
            found, where = interrupted(epoch, at)
            with suppress(dc.BudgetExceeded):  # what was charged is not drawn, and not given back
                found = epoch() if where else found
            if found is not None:
                for _ in range(3):
                    found.choose()
                    found.learn(items=[2])
                assert found.round == learner.round == 3
                check_account(found._gate)
        check_account(learner._gate)
        begun = "2026-12" in periods.names
        assert periods.account("2026-12").epsilon() <= 1.0
        assert any("were not over" in one for one in periods.account("2026-12").caveats) == (begun > over)
        if not where:
            break


@pytest.mark.parametrize("kind", ["RunningSumSelector", "LeaderSelector"])
def test_people_who_return_are_apart_in_the_sums_however_calls_were_interrupted(kind):
    every, add = {"resample_every": 2} if kind == "RunningSumSelector" else {"batch": 2}, RunningSum.add
    sums: list[Any] = []

    def added(self: RunningSum, vector: Any) -> Any:
        sums.append(vector.copy())
        return add(self, vector)

    for at in itertools.count(3, 79):
        budget, reached = dc.Budget(np.inf, 1e-6, max_rounds_per_person=3), False
        learner = getattr(dc.online, kind)(4, 1, 60, budget, min_separation=2, **every)
        sums.clear()
        with swapped(RunningSum, "add", added):
            for t in range(30):
                who = t * 7 % 4
                for call in (learner.choose, partial(learner.learn, items=[who], person_id=who)):
                    if interrupted(call, at)[1]:
                        reached = True
                        again(call)
                if t % 10 == 9:
                    learner = dc.load(learner.to_bytes())
        for one in np.array(sums).T:
            held = np.flatnonzero(one)
            assert one.max() <= 1.0
            assert len(held) <= 3
            assert (np.diff(held) >= 2).all()
        if not reached:
            break


# --- injected faults -----------------------------------------------------------------------------------


def cleared_after(self: PrivateTotal) -> Any:
    if self.sum is None or self.sum.taken >= self.sum.spec.rounds:
        return self.released
    found = self.sum.add(self.pending.ravel() / (self._units or 1.0)).reshape(self._shape)
    self.released, self.pending = found, self._nothing()
    return found


def learned_before(self: Rounds, count: int = 1, then: Any = None) -> None:
    if then is not None:
        then()
    self.number, self.is_open = self.number + count, False


def emptied_after(draw: Any) -> Any:
    def drawn(self: Any) -> Any:
        held = vars(self._window).copy()
        try:
            return draw(self)
        except KeyboardInterrupt:
            vars(self._window).update(held)
            raise

    return drawn


@contextmanager
def charged_after():
    """A charge is made when the next one is."""
    charge, late = Accountant.charge, []

    def charging(self: Accountant, *given: Any) -> None:
        for one in late:
            charge(self, *one)
        late[:] = [given]

    with swapped(Accountant, "charge", charging):
        yield


# What is broken, in which learner, how, and what is then said of it.
FAULTS = {
    "sum cleared after its release": (
        "RunningSumSelector", "blt", lambda: swapped(PrivateTotal, "release", cleared_after),
        r"gains \(blt factorization\) twice"),
    "learned before the round is closed": (
        "HedgeSelector", "tight", lambda: swapped(Rounds, "close", learned_before),
        "somebody was learned from twice"),
    "window emptied after its set": (
        "PhasedSelector", "composed",
        lambda: swapped(dc.online.PhasedSelector, "_draw", emptied_after(dc.online.PhasedSelector._draw)),
        "window of a Window twice"),
    "late feedback still awaited": (
        "HedgeSelector", "tight", lambda: swapped(Pending, "take", Pending.__getitem__),
        "somebody was learned from twice"),
    "charged after the draw": (
        "BanditSelector", "blocks", charged_after, "drawn before its charge"),
    "noise kept": (
        "BanditSelector", "blocks", lambda: swapped(dc.online.bandit.ValueFeedback, "_fresh_noise",
                                                   lambda self: np.full(self.schedule.samples, 7)),
        "noise was used twice"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_an_injected_fault_is_noticed(fault, tmp_path):
    name, words, injected, said = FAULTS[fault]
    words = next(one for one in EXAMPLES[name] if one.endswith(words))
    sound = Story(name, words, tmp_path)
    with injected(), pytest.raises(AssertionError, match=said):
        list(map(sound.survives, range(0, 900, 5)))
