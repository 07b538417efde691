"""Groups: what was served and what was reported, written down together, and who counts.

A round counts by its decision, whatever comes of it. Whom a decision was for is written down in the order of
serving, and a person's first ``max_rounds_per_person`` decisions of a period count, over all experiments of
the population. The others are left out: of sums, of shares, of the number of rounds. An outcome is taken of a
place that is written down, so that its answer says whether it counts.

*Guarantee.* Compare two inputs with the same decisions, of which one person's outcomes differ: they are
anything else ("replace"), or there are none ("add_remove"). Whatever is released differs as the account says.
*Proof.* Which places count is a function of the decisions: of their order, their people, and the requests
that were sent again. No outcome enters it, nor does erasing, so the rounds that learners see, their number
and their order are the same in both inputs. At most ``max_rounds_per_person`` of them are this person's, and
only in these can an outcome differ, by what a round moves under either relation: the account multiplies what
one round costs by their number. A round without an outcome is one in which nothing was taken: it stays one,
as whether somebody reports is theirs to protect, too.

What is not covered: which decisions there were, when, and for whom. Two processes write down what they served
in the order of their commits, and a crash leaves places unknown that were served within the last commit or
two. Both are times: they depend on reports as far as commits take longer with more in them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .blocks import CLOSING, NOBODY

if TYPE_CHECKING:
    from .database import Transaction


RECORDED, DUPLICATE, LATE = "recorded", "duplicate", "late"
EARLY = "early"  # another process has not written down yet whom the place was served to: ask again


class Outcome(NamedTuple):
    """What came of a decision: to be written down before it is acknowledged."""

    experiment: int
    epoch: int
    place: int
    altered: bool
    body: bytes
    pseudonym: bytes  # `keys.NOBODY` for none


class Acknowledged(NamedTuple):
    """What is said of an outcome, and whether its decision is one that is learned from."""

    status: str
    counted: bool


class Cursor(NamedTuple):
    """How far a block has been served."""

    experiment: int
    epoch: int
    first: int
    served: int
    over: float | None  # how many seconds ago its last place was served
    altered: str = ""  # offsets of places that showed other items than were allocated


class KeptRequest(NamedTuple):
    """A decision that may be asked for again, by a keyed hash of what the request is known by."""

    experiment: int
    id: bytes
    epoch: int
    place: int
    altered: bool
    pseudonym: bytes
    active: bool  # whether what was decided was shown, as far as that is told
    answer: str


class ServedDecision(NamedTuple):
    """A place that was served: of which block, for whom, how often they count, by which request."""

    experiment: int
    epoch: int
    first: int
    offset: int
    pseudonym: bytes
    population: int
    period: str
    limit: int
    request: KeptRequest | None = None


class Group(NamedTuple):
    """What is written down together: outcomes, cursors of blocks, places in the order of serving."""

    outcomes: Sequence[Outcome] = ()
    served: Sequence[Cursor] = ()
    places: Sequence[ServedDecision] = ()
    activated: Sequence[tuple[int, bytes]] = ()  # experiments and ids of requests


class Written(NamedTuple):
    """What is said of a group's outcomes, and the requests that are known by the ids of its own."""

    outcomes: list[Acknowledged]
    requests: list[KeptRequest]


KEEP = 600.0  # seconds for which a request can be sent again, at the least
_MOST = 1024  # rows of one statement

# {} is where rows of values come. The block of a place is the last one that begins at it or before.
_HANDS = (
    "SELECT experiment, epoch, first, count, served, state, closed_at, uncounted FROM block"
    " WHERE (experiment, epoch, first) IN (SELECT o.column1, o.column2, (SELECT max(h.first) FROM block h"
    " WHERE h.experiment = o.column1 AND h.epoch = o.column2 AND h.first <= o.column3)"
    " FROM (VALUES {}) AS o) ORDER BY experiment, epoch, first"
)
_REQUEST = (
    "INSERT INTO request (experiment, id, epoch, place, altered, pseudonym, active, answer, at) VALUES {}"
    " ON CONFLICT (experiment, id) DO NOTHING RETURNING experiment, id"
)
_REQUESTS = (
    "SELECT experiment, id, epoch, place, altered, pseudonym, active, answer FROM request"
    " WHERE (experiment, id) IN (VALUES {})"
)
_VISIT = (
    "INSERT INTO visit (population, period, pseudonym, times) VALUES {}"
    " ON CONFLICT (population, period, pseudonym) DO UPDATE SET times = visit.times + excluded.times"
    " RETURNING population, period, pseudonym, times"
)
_OUTCOME = (
    "INSERT INTO outcome (experiment, epoch, place, altered, body, pseudonym) VALUES {}"
    " ON CONFLICT (experiment, epoch, place) DO NOTHING RETURNING experiment, epoch, place"
)
_THERE = "SELECT experiment, epoch, place FROM outcome WHERE (experiment, epoch, place) IN (VALUES {})"


class _Row(NamedTuple):
    """What the database knows of a block."""

    experiment: int
    epoch: int
    first: int
    size: int
    served: int
    state: int
    closed_at: float | None
    uncounted: str

    def counts(self, offset: int) -> bool:
        return f" {offset} " not in f" {self.uncounted}"


def write(tx: Transaction, group: Group) -> Written:
    """Write a group down: what was served, then outcomes. What was written before is not counted again.

    Nobody may know whether an earlier transaction of this process was committed. The rows of its blocks are
    locked first, in the order in which everybody locks them, which waits for the end of that one.
    """
    own = [one[:3] for one in group.served]
    rows = _locked(tx, {*own, *[one[:3] for one in group.outcomes]}, "KEY SHARE")
    blocks = {row[:3]: row for row in rows}
    blocks |= {row[:3]: row for row in _locked(tx, set(own) & blocks.keys(), "NO KEY UPDATE")}
    requests = [place.request for place in group.places if place.request is not None]
    known = _requests(tx, requests)
    new = [
        place
        for place in group.places
        if (row := blocks.get(place[:3])) is not None and row.state < CLOSING and place.offset >= row.served
    ]
    again = {place for place in new if place.request is not None and not _same(place.request, known)}
    left_out: dict[tuple[Any, ...], str] = {}
    for place in sorted(again | _over_limit(tx, [place for place in new if place not in again])):
        left_out[place[:3]] = f"{left_out.get(place[:3], '')}{place.offset} "
    _cursors(tx, group.served, left_out, blocks)
    tx.many("UPDATE request SET active = 1 WHERE experiment = ? AND id = ?", sorted(group.activated))
    return Written(_outcomes(tx, group.outcomes, blocks), [known[one[:2]] for one in requests])


def _locked(tx: Transaction, places: Iterable[tuple[Any, ...]], strength: str) -> list[_Row]:
    """The blocks of places, which stay open, or closed, until the transaction ends."""
    found = []
    for sql, values in _padded(_HANDS, sorted(places)):
        found += [_Row(*row) for row in tx.locked(sql, *values, strength=strength)]
    return found


def _requests(tx: Transaction, requests: Sequence[KeptRequest]) -> dict[tuple[int, bytes], KeptRequest]:
    """Write requests down; what is known by their ids, which may be another decision, made before."""
    now = tx.now() if requests else 0.0
    known: dict[tuple[int, bytes], KeptRequest] = {}
    for one in requests:
        known.setdefault(one[:2], one)
    rows = [
        (*one[:4], int(one.altered), one.pseudonym, int(one.active), one.answer, now)
        for _, one in sorted(known.items())
    ]
    new = set()
    for sql, values in _padded(_REQUEST, rows):
        new |= {(number, bytes(key)) for number, key in tx.all(sql, *values)}
    for sql, values in _padded(_REQUESTS, sorted(known.keys() - new)):
        known |= {found[:2]: found for found in map(_read, tx.all(sql, *values))}
    return known


def _read(row: Sequence[Any]) -> KeptRequest:
    number, key, epoch, place, altered, pseudonym, active, answer = row
    return KeptRequest(
        number, bytes(key), epoch, place, bool(altered), bytes(pseudonym), bool(active), answer
    )


def _same(request: KeptRequest, known: dict[tuple[int, bytes], KeptRequest]) -> bool:
    """Whether a request is known as the decision that it was made for."""
    found = known[request[:2]]
    return (found.epoch, found.place) == (request.epoch, request.place)


def _over_limit(tx: Transaction, places: Sequence[ServedDecision]) -> set[ServedDecision]:
    """Count people; the places of those who had been counted often enough."""
    whose: dict[tuple[int, str, bytes], list[ServedDecision]] = {}
    for place in places:
        if place.pseudonym != NOBODY:
            whose.setdefault((place.population, place.period, place.pseudonym), []).append(place)
    over = set[ServedDecision]()
    rows = sorted((*who, len(found)) for who, found in whose.items())
    for sql, values in _exactly(_VISIT, rows):
        for population, period, pseudonym, times in tx.all(sql, *values):
            found = whose[population, period, bytes(pseudonym)]
            over.update(found[max(0, found[0].limit - (times - len(found))) :])
    return over


def _cursors(
    tx: Transaction,
    served: Sequence[Cursor],
    left_out: Mapping[tuple[Any, ...], str],
    blocks: dict[Any, _Row],
) -> None:
    """How far blocks were served, unless they have been closed meanwhile."""
    now = tx.now() if any(one.over is not None for one in served) else 0.0
    changed = []
    for one in served:
        row = blocks.get(one[:3])
        if row is None or row.state >= CLOSING:
            continue
        more = left_out.get(one[:3], "")
        closed = row.closed_at if row.closed_at is not None or one.over is None else now - one.over
        upto = max(row.served, one.served)
        blocks[one[:3]] = row._replace(served=upto, closed_at=closed, uncounted=row.uncounted + more)
        changed.append((upto, one.altered, more, closed, *one[:3]))
    tx.many(
        "UPDATE block SET served = ?, altered = ?, uncounted = uncounted || ?, closed_at = ?"
        " WHERE experiment = ? AND epoch = ? AND first = ?",
        changed,
    )


def _outcomes(tx: Transaction, outcomes: Sequence[Outcome], blocks: Mapping[Any, _Row]) -> list[Acknowledged]:
    """Write outcomes down, each once; of places that do not count only that there was one."""
    order = sorted(blocks)
    found: list[tuple[str, bool]] = []
    taken: dict[tuple[int, int, int], tuple[Any, ...]] = {}
    for one in outcomes:
        at = bisect_right(order, one[:3]) - 1
        row = blocks[order[at]] if at >= 0 else None
        if row is None or row[:2] != one[:2] or one.place >= row.first + row.size:
            found.append((LATE, False))
            continue
        offset = one.place - row.first
        counts = row.counts(offset)
        if row.state >= CLOSING:
            found.append((LATE, counts))
        elif offset >= row.served:
            found.append((EARLY if row.closed_at is None else LATE, False))
        else:
            found.append((RECORDED, counts))
            body, pseudonym = (
                (one.body if counts else None),
                (None if one.pseudonym == NOBODY else one.pseudonym),
            )
            taken.setdefault(one[:3], (*one[:3], int(one.altered), body, pseudonym))
    rows = sorted(taken.values(), key=lambda row: row[:3])
    new = {tuple(row) for sql, values in _padded(_OUTCOME, rows) for row in tx.all(sql, *values)}
    asked = sorted({one[:3] for one in outcomes} - new)
    there = {tuple(row) for sql, values in _padded(_THERE, asked) for row in tx.all(sql, *values)}
    answers = []
    for one, (status, counts) in zip(outcomes, found, strict=True):
        if status == RECORDED and one[:3] in new:
            new.discard(one[:3])  # somebody may have reported twice at once: the first one counts
            there.add(one[:3])
            answers.append(Acknowledged(RECORDED, counts))
        elif one[:3] in there:
            answers.append(Acknowledged(DUPLICATE, counts))
        else:
            answers.append(Acknowledged(status, False))
    return answers


def _padded(sql: str, rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[str, list[Any]]]:
    """Statements about many rows, of few sizes, so that they are used again: the last row is repeated."""
    for start in range(0, len(rows), _MOST):
        some = list(rows[start : start + _MOST])
        some += some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
        yield _filled(sql, some)


def _exactly(sql: str, rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[str, list[Any]]]:
    """The same where no row may be repeated: statements of each power of two."""
    start = 0
    while left := len(rows) - start:
        size = min(1 << (left.bit_length() - 1), _MOST)
        yield _filled(sql, rows[start : start + size])
        start += size


def _filled(sql: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    row = f"({','.join('?' * len(rows[0]))})"
    return sql.format(",".join([row] * len(rows))), [value for one in rows for value in one]


# --- requests and people -------------------------------------------------------------------------------


def request(tx: Transaction, experiment: int, number: bytes) -> KeptRequest | None:
    """The request of this id; None for one that is not known, or not any more."""
    found = tx.all(_REQUESTS.format("(?, ?)"), experiment, number)
    return _read(found[0]) if found else None


def unseen(tx: Transaction, experiment: int, epoch: int, first: int, end: int) -> set[int]:
    """Places of which nobody said that they were seen, though that was to be said.

    They count as "took nothing", whatever was reported: who has seen something is as private as what came of
    it, so such a place stays a round, and moves one person's part of it only.
    """
    rows = tx.all(
        "SELECT place FROM request WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?"
        " AND active = 0",
        *(experiment, epoch, first, end),
    )
    return {place for (place,) in rows}


def forget_requests(tx: Transaction) -> None:
    """Drop requests of `KEEP` seconds ago whose decisions take no outcome any more."""
    old = tx.locked(
        "SELECT r.experiment, r.id FROM request r WHERE r.at < ? AND NOT EXISTS (SELECT 1 FROM block h"
        " WHERE h.experiment = r.experiment AND h.epoch = r.epoch AND h.first <= r.place"
        " AND r.place < h.first + h.count)",
        tx.now() - KEEP,
        strength="UPDATE OF r SKIP LOCKED",
    )
    tx.many("DELETE FROM request WHERE experiment = ? AND id = ?", old)
