"""The life of a selector as a service leads it: any calls in any order, and what must hold after each one.

What was learned and what was drawn is counted beside the learner, which cannot hide anything from it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import discreet as dc
from discreet.online import HedgeSelector

ACTIONS = (
    "choose",
    "choose",
    "exclude",
    "include",
    "late",
    "late",
    "unknown round",
    "expire",
    "skip",
    "retire",
    "add",
    "save",
    "part",
    "part",
    "merge",
    "merge",
    "epoch",
)


def by_slot(learner: Any) -> bool:
    """Whether feedback tells which of the shown items was taken."""
    return learner._rewarded and learner._sum.units.by_slot


def refusal(call: Any, *given: Any, words: tuple[str, ...], **named: Any) -> str | None:
    """The words of a refusal, which must hold some of these; None where there was none."""
    try:
        call(*given, **named)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        said = str(error)
    else:
        return None
    assert any(word in said for word in words), said
    return said


class Life:
    """A learner and what the world knows of it."""

    def __init__(self, learner: Any, names: list[str]) -> None:
        self.active, self.retired, self.added = set(names), [], 0
        self.parts: list[Any] = []
        self.begin(learner)

    def begin(self, learner: Any) -> None:
        """A new learner: nobody has come, and nothing was drawn."""
        self.told = self.learned = 0  # people
        self.drawn: set[int] = set()  # rounds
        self.waits: dict[int, Any] = {}  # the sets of rounds whose feedback may come
        self.whole = learner.privacy.epsilon(learner.budget.delta)
        self.watch(learner)

    def watch(self, learner: Any) -> None:
        """Count what is drawn and who is taken up."""
        self.learner, draw, observe = learner, learner._draw, learner._observe
        gather = learner._add_sums

        def drawing() -> Any:
            assert learner.round not in self.drawn, "a second draw in one round, which nobody paid for"
            self.drawn.add(learner.round)
            return draw()

        def observing(person: Any) -> None:
            gone = person is None or (isinstance(person, tuple) and person[-1] is None)
            self.learned += not gone
            observe(person)

        def gathering(sums: Any, count: int) -> None:
            self.learned += count
            gather(sums, count)

        learner._draw, learner._observe, learner._add_sums = drawing, observing, gathering

    def act(self, action: str, number: int) -> None:
        """One thing that happens, and everything that must hold then."""
        getattr(self, f"_{action.replace(' ', '_')}")(number)
        learner = self.learner
        assert learner.privacy.spent.epsilon(learner.budget.delta) <= self.whole <= learner.budget.epsilon
        assert set(learner.pending) <= set(self.waits)
        assert self.learned <= self.told, "somebody was learned from twice"
        if isinstance(learner, HedgeSelector):  # whose draws protect people; sums refuse by themselves
            paid = learner.settings.releases
            assert (len(self.drawn) - 1) * learner.k <= paid, "more draws than were paid for"

    def end(self) -> None:
        """Everybody who came was learned from, or waits for a batch with room."""
        waiting, learner = len(self.learner._waiting), self.learner
        if learner.budget.max_rounds_per_person == 1:
            assert self.learned + waiting == self.told, "somebody was lost"
        if learner.over:
            learner.continue_without_learning()
            self.shown(learner.choose(wait=False))
            tell(learner, learner.choose(), True)
            assert self.learned + waiting == self.told, "somebody was learned from after the last round"

    def shown(self, shown: Any, without: tuple[str, ...] = (), must: tuple[str, ...] = ()) -> None:
        """A set that was served: of what is available, with what must be in it."""
        labels, size = shown.labels, self.learner._width
        assert len(set(labels)) == len(labels) <= size
        assert set(labels) <= self.active - set(without), "an item that is not available"
        assert set(must) <= set(labels)

    # --- sets ------------------------------------------------------------------------------------

    def _serve(self, without: tuple[str, ...] = (), must: tuple[str, ...] = ()) -> None:
        named = {"exclude": without or None, "include": must or None}
        shown = self.learner.choose(wait=False, **named)
        self.shown(shown, without, must)
        if not self.learner.over:
            self.waits[shown.round] = shown

    def _choose(self, _: int) -> None:
        self._serve()

    def _exclude(self, number: int) -> None:
        if len(self.active) > self.learner._width:
            self._serve(without=(sorted(self.active)[number % len(self.active)],))

    def _include(self, number: int) -> None:
        wanted, learner = sorted(self.active)[number % len(self.active)], self.learner
        if not learner._constrained or learner._feasible([learner._catalogue.item(wanted)]):
            self._serve(must=(wanted,))

    def _retire(self, number: int) -> None:
        gone = sorted(self.active)[number % len(self.active)]
        if refusal(self.learner.retire_items, [gone], words=("left",)) is None:
            self.active.remove(gone)
            self.retired.append(gone)

    def _add(self, number: int) -> None:
        fresh = self.retired.pop() if self.retired and number % 2 else f"new {self.added}"
        self.added += 1
        if refusal(self.learner.add_items, [fresh], words=("new learner", "start=")) is None:
            self.active.add(fresh)

    # --- feedback --------------------------------------------------------------------------------

    def _late(self, number: int) -> None:
        if self.waits:
            late = sorted(self.waits)[number % len(self.waits)]
            altered = late in self.learner.pending and self.learner._pending[late][:1] == (1,)
            altered = altered or (late == self.learner.round and self.learner._rounds.altered)
            nothing = altered and self.learner._rewarded  # of another set nothing is learned
            tell(self.learner, self.waits.pop(late), number % 2, round=late)
            self.told += not nothing
            self._not_again(late)

    def _not_again(self, round: int) -> None:
        words = ("has been counted", "has not been chosen")
        given = {"items": []} if not self.learner._rewarded else {"person": _nothing(self.learner)}
        again = refusal(self.learner.learn, **given, round=round, words=words)
        assert again is not None, "a round that can be learned from again"

    def _unknown_round(self, _: int) -> None:
        self._not_again(10**6)

    def _expire(self, _: int) -> None:
        before = max(self.waits, default=0)
        self.learner.expire(before)
        if gone := [late for late in self.waits if late < before]:
            self.waits = {late: shown for late, shown in self.waits.items() if late >= before}
            self._not_again(gone[0])

    def _skip(self, number: int) -> None:
        if self.waits:
            late = sorted(self.waits)[number % len(self.waits)]
            del self.waits[late]
            self.learner.skip([late])
            self._not_again(late)

    # --- parts, files, epochs --------------------------------------------------------------------

    def _part(self, number: int) -> None:
        words = (
            "of people to divide",
            "shows a set of its own",
            "go by rounds",
            "goes by rounds",
            "counts rounds",
            "retired",
        )
        found: list[Any] = []
        if refusal(lambda: found.append(self.learner.partial(server=f"web {number % 3}")), words=words):
            return
        part, shown = found[0], self.learner.choose()
        self.shown(shown)
        self.waits[shown.round] = shown
        for place in range(min(number % 4, part.room)):
            if self.learner._rewarded:
                taken = shown.labels[0] if by_slot(self.learner) else 1.0
                part.add(taken if place else _nothing(self.learner))
            else:
                part.add(items=shown.labels[:place])
        self.parts.append(part)

    def _merge(self, number: int) -> None:
        if not self.parts:
            return
        part, before, learner = self.parts[number % len(self.parts)], self.learner.round, self.learner
        words = (
            "is late",
            "was merged",
            "room for",
            "rounds are left",
            "of other items",
            "another learner",
        )
        self.told += part.count
        if refusal(learner.merge, part, words=(*words, "over")) is not None:
            self.told -= part.count
            assert learner.round == before
            return
        assert learner.round == before + part.count
        if part.count:
            self.waits.pop(before, None)  # the round that was open is somebody's of the part
        assert refusal(learner.merge, part, words=words), "a part was merged twice"

    def _save(self, _: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.learner.save(Path(folder) / "state")
            self.watch(dc.load(Path(folder) / "state"))

    def _epoch(self, number: int) -> None:
        before = self.learner
        after = before.next_epoch(before.budget, discount=(number % 3) / 2, seed=number)
        entries = [[entry.label for entry in one.privacy.ledger.counts] for one in (before, after)]
        assert entries[0] == entries[1], "an epoch that is not paid for"
        self.begin(after)


def _nothing(learner: Any) -> Any:
    return None if by_slot(learner) or not learner._rewarded else 0.0


def tell(learner: Any, shown: Any, coin: int | bool, round: int | None = None) -> None:
    """Feedback of somebody who likes the first item shown if the coin says so."""
    if not learner._rewarded:
        learner.learn(items=list(shown.labels[:1]) if coin else [], round=round)
    elif by_slot(learner):
        learner.learn(shown.labels[0] if coin else None, round=round)
    else:
        learner.learn(float(coin), round=round)


def live(learner: Any, names: list[str], actions: list[tuple[str, int]]) -> Life:
    """A whole life."""
    life = Life(learner, names)
    for action, number in actions:
        if life.learner.over:
            break
        life.act(action, number)
    life.end()
    return life
