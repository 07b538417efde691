"""How often somebody counts: whom places were served to, and what is left of a person's rounds in a period.

A round counts by its decision, whatever comes of it. Marks are written down with how far a hand was served,
an outcome is taken only of a place of which that is written down, and a person's first places count, in the
order in which hands are closed. Which hand is closed first follows from when its places were served, and from
no outcome. So whoever reports something else, or nothing, changes the same rounds, and never too many.
This takes commits and folds to last as long whatever is in them, and groups to begin whoever reports. A group
with one more outcome may take microseconds longer; a group of outcomes alone keeps the next decisions waiting
for its commit, some milliseconds. Both matter where a crash, or hands of two experiments, fall into just that
time.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..config import PopulationConfig
from ..hands import Hand
from ..keys import MARK, NOBODY
from .base import Store, Transaction
from .batches import found, write

_TIMES = "SELECT mark, times FROM visit WHERE population = ? AND period = ? AND mark IN ({})"
SERVED_TO = (  # a group that comes in late, after it was sent again with more, takes nothing away
    " ON CONFLICT (experiment, epoch, place) DO UPDATE SET marks ="
    " CASE WHEN length(excluded.marks) < length(served_to.marks) THEN served_to.marks ELSE excluded.marks END"
)
_VISIT = (
    "INSERT INTO visit (population, period, mark, times) VALUES {}"
    " ON CONFLICT (population, period, mark) DO UPDATE SET times = excluded.times"
)


def count(tx: Transaction, population: int, period: str, limit: int, hand: Hand) -> None:
    """Count the people whom a hand was served to, once, as it is closed: `Hand.uncounted` is written down."""
    where = (hand.experiment, hand.epoch, hand.first, hand.end)
    rows = tx.all(
        "SELECT place, marks FROM served_to WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?"
        " ORDER BY place",
        *where,
    )
    if not rows:
        return
    whose = {
        place - hand.first + number: bytes(marks[at : at + MARK])
        for place, marks in rows
        for number, at in enumerate(range(0, len(marks), MARK))
    }
    places = [(offset, mark) for offset, mark in sorted(whose.items()) if mark != NOBODY]
    tx.locked("SELECT id FROM population WHERE id = ?", population)  # other experiments count the same people
    marks = [*dict.fromkeys(mark for _, mark in places)]
    before = found(tx, _TIMES, [(population, period, mark) for mark in marks])
    times = {mark: before.get((population, period, mark), 0) for mark in marks}
    for offset, mark in places:
        if times[mark] >= limit:
            hand.uncounted.add(offset)
        else:
            times[mark] += 1
    write(tx, _VISIT, [(population, period, mark, many) for mark, many in times.items()])
    tx.do(
        "UPDATE hand SET uncounted = ? WHERE experiment = ? AND epoch = ? AND first = ?",
        *(" ".join(map(str, sorted(hand.uncounted))), *where[:3]),
    )
    tx.do(
        "DELETE FROM served_to WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?",
        *where,
    )


def exhaust(tx: Transaction, population: int, period: str, limit: int, mark: bytes) -> None:
    """Count nothing more of somebody in a period."""
    tx.locked("SELECT id FROM population WHERE id = ?", population)
    write(tx, _VISIT, [(population, period, mark, limit)])


def erase(
    store: Store, name: str, now: Callable[[PopulationConfig], str], mark: Callable[[int, str], bytes]
) -> None:
    """Drop what waits to be learned about whoever has these marks, and count nothing more of them."""
    marks = []
    with store.transaction() as tx:  # first: hands that are closed from then on count nothing of them
        found = tx.one("SELECT id, config FROM population WHERE name = ?", name)
        if found is None:
            raise LookupError("population")
        population, people = int(found[0]), msgspec.json.decode(found[1], type=PopulationConfig)
        past = tx.all("SELECT period FROM experiment WHERE population = ?", population)
        for period in {now(people), *[one for (one,) in past]}:  # not all have gone on yet
            marks.append(mark(population, period))
            exhaust(tx, population, period, people.max_rounds_per_person, marks[-1])
    with store.transaction() as tx:
        tx.locked(  # before outcomes, as keepers do, which delete them
            "SELECT experiment FROM lease WHERE experiment IN"
            " (SELECT id FROM experiment WHERE population = ?) ORDER BY experiment",
            population,
        )
        for one in marks:
            tx.do("UPDATE outcome SET body = NULL WHERE mark = ?", one)
    store.scrub()
