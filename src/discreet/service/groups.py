"""Groups: served decisions and reported outcomes, committed together; and which decisions count.

Whether a round counts depends on its decision, not on the outcome. Whom decisions are for is recorded in the
order of serving, and the first ``max_rounds_per_person`` decisions of a person in a period count, over all
experiments of the population. The others are left out of sums, of shares and of the number of rounds. An
outcome is accepted only once its decision is recorded, so that the answer says whether it counts.

*Guarantee.* Take two inputs with the same decisions that differ in one person's outcomes: these are replaced
by any others ("replace"), or left out ("add_remove"). The distributions of all releases then differ by at
most the loss in the account. *Proof.* Which decisions count is a function of the decisions: of their order,
their people, and the repeated requests. It depends neither on outcomes nor on erasure, so the rounds that
learners see, their number and their order are the same in both inputs. At most ``max_rounds_per_person`` of
them are this person's, and an outcome can differ in these only, by the sensitivity of a round under either
relation: the account multiplies the privacy loss of one round by their number. A round without an outcome is
one in which nothing was taken: it stays a round, as whether somebody reports is protected, too.

What is not covered: which decisions there were, when, and for whom. Several processes record what they served
in the order of their commits, and a crash leaves decisions of the last one or two commits unrecorded. Both
are effects of timing, which depends on reports only in that larger commits take longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .database import CLOSING, NOBODY, Database, Transaction, reach

RECORDED, DUPLICATE, LATE = "recorded", "duplicate", "late"
EARLY = "early"  # another process has not recorded the decision yet: try again
LOST = "lost"  # its block was leased in a state that this store has lost


class ReportedOutcome(NamedTuple):
    """The outcome of a decision, to be committed before it is acknowledged."""

    experiment: int
    epoch: int
    sequence: int
    altered: bool
    body: bytes
    pseudonym: bytes  # `NOBODY` for none
    lease: int = 0  # of the block; 0 if unknown


class Acknowledged(NamedTuple):
    """The status of an outcome, and whether its decision counts."""

    status: str
    counted: bool


class Cursor(NamedTuple):
    """How far a block has been served."""

    experiment: int
    epoch: int
    first: int
    served: int
    over: float | None  # how many seconds ago its last decision was served; None while it is served from
    altered: str = ""  # offsets of decisions that showed other items than were allocated


class KeptRequest(NamedTuple):
    """A decision that may be asked for again; its id is a keyed hash of what identifies the request."""

    experiment: int
    id: bytes
    epoch: int
    sequence: int
    altered: bool
    pseudonym: bytes
    active: bool  # False while activation is deferred: not reported as shown yet
    answer: str
    stays: float = 0.0  # seconds for which it is kept beyond `KEEP`


class ServedDecision(NamedTuple):
    """A served decision: its block, its person and their limit, and its request if it can be repeated."""

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
    """What is committed together: outcomes, cursors of blocks, decisions in the order of serving."""

    outcomes: Sequence[ReportedOutcome] = ()
    served: Sequence[Cursor] = ()
    decisions: Sequence[ServedDecision] = ()
    activated: Sequence[tuple[int, bytes]] = ()  # experiments and ids of requests


class Written(NamedTuple):
    """The answers to a group's outcomes, and the requests that are stored under the ids of its own."""

    outcomes: list[Acknowledged]
    requests: list[KeptRequest]


KEEP = 600.0  # seconds for which a request can be repeated, at the least
_MOST = 1024  # rows of one statement

# {} is replaced by rows of values. The block of a decision is the last one that begins at it or before.
_BLOCKS = (
    "SELECT experiment, epoch, first, count, served, state, closed_at, uncounted, lease FROM block"
    " WHERE (experiment, epoch, first) IN (SELECT o.column1, o.column2, (SELECT max(b.first) FROM block b"
    " WHERE b.experiment = o.column1 AND b.epoch = o.column2 AND b.first <= o.column3)"
    " FROM (VALUES {}) AS o) ORDER BY experiment, epoch, first"
)
_REQUEST = (
    "INSERT INTO request (experiment, id, epoch, sequence, altered, pseudonym, active, answer, at) VALUES {}"
    " ON CONFLICT (experiment, id) DO NOTHING RETURNING experiment, id"
)
_REQUESTS = (
    "SELECT experiment, id, epoch, sequence, altered, pseudonym, active, answer FROM request"
    " WHERE (experiment, id) IN (VALUES {})"
)
_VISIT = (
    "INSERT INTO visit (population, period, pseudonym, times) VALUES {}"
    " ON CONFLICT (population, period, pseudonym) DO UPDATE SET times = visit.times + excluded.times"
    " RETURNING population, period, pseudonym, times"
)
_OUTCOME = (
    "INSERT INTO outcome (experiment, epoch, sequence, altered, body, pseudonym) VALUES {}"
    " ON CONFLICT (experiment, epoch, sequence) DO NOTHING RETURNING experiment, epoch, sequence"
)
_THERE = "SELECT experiment, epoch, sequence FROM outcome WHERE (experiment, epoch, sequence) IN (VALUES {})"


class _Row(NamedTuple):
    """The row of a block."""

    experiment: int
    epoch: int
    first: int
    size: int
    served: int
    state: int
    closed_at: float | None
    uncounted: str
    lease: int

    def counts(self, offset: int) -> bool:
        return f" {offset} " not in f" {self.uncounted}"


def record(store: Database, group: Group) -> Written:
    """Commit a group: what was served, then outcomes. What was committed before counts once.

    It may be unknown whether an earlier transaction of this process was committed. Locking the rows of its
    blocks first, in the order that all transactions use, waits for the end of that transaction.
    """
    reach("outcomes queued")
    with store.transaction("groups") as tx:
        own = [one[:3] for one in group.served]
        blocks = _locked(tx, {*own, *[one[:3] for one in group.outcomes]}, "KEY SHARE")
        blocks |= _locked(tx, set(own) & blocks.keys(), "NO KEY UPDATE")
        requests = [one.request for one in group.decisions if one.request is not None]
        known = _requests(tx, requests)
        new = [
            one
            for one in group.decisions
            if (row := blocks.get(one[:3])) is not None and row.state < CLOSING and one.offset >= row.served
        ]
        again = {one for one in new if one.request is not None and not _same(one.request, known)}
        left_out: dict[tuple[Any, ...], str] = {}
        for one in sorted(again | _over_limit(tx, [one for one in new if one not in again])):
            left_out[one[:3]] = f"{left_out.get(one[:3], '')}{one.offset} "
        _cursors(tx, group.served, left_out, blocks)
        tx.many("UPDATE request SET active = 1 WHERE experiment = ? AND id = ?", sorted(group.activated))
        written = Written(_outcomes(tx, group.outcomes, blocks), [known[one[:2]] for one in requests])
    reach("outcomes committed")
    return written


def _locked(tx: Transaction, decisions: Iterable[tuple[Any, ...]], strength: str) -> dict[Any, _Row]:
    """The blocks of decisions, locked: they stay open, or closed, until the transaction ends."""
    found: dict[Any, _Row] = {}
    for sql, values in _filled(_BLOCKS, sorted(decisions)):
        found |= {row[:3]: _Row(*row) for row in tx.locked(sql, *values, strength=strength)}
    return found


def _requests(tx: Transaction, requests: Sequence[KeptRequest]) -> dict[tuple[int, bytes], KeptRequest]:
    """Store requests; returns what is stored under their ids, which may be an earlier decision."""
    now = tx.now() if requests else 0.0
    known: dict[tuple[int, bytes], KeptRequest] = {}
    for one in requests:
        known.setdefault(one[:2], one)
    rows = [
        (*one[:4], int(one.altered), one.pseudonym, int(one.active), one.answer, now + one.stays)
        for _, one in sorted(known.items())
    ]
    new = {(number, bytes(key)) for number, key in _answers(tx, _REQUEST, rows)}
    before = map(_read, _answers(tx, _REQUESTS, sorted(known.keys() - new)))
    return known | {found[:2]: found for found in before}


def _read(row: Sequence[Any]) -> KeptRequest:
    number, key, epoch, sequence, altered, pseudonym, active, answer = row
    return KeptRequest(
        number, bytes(key), epoch, sequence, bool(altered), bytes(pseudonym), bool(active), answer
    )


def _same(request: KeptRequest, known: dict[tuple[int, bytes], KeptRequest]) -> bool:
    """Whether the decision that is stored for a request is this one."""
    found = known[request[:2]]
    return (found.epoch, found.sequence) == (request.epoch, request.sequence)


def _over_limit(tx: Transaction, decisions: Sequence[ServedDecision]) -> set[ServedDecision]:
    """Count the decisions of each person; returns those beyond the person's limit."""
    whose: dict[tuple[int, str, bytes], list[ServedDecision]] = {}
    for one in decisions:
        if one.pseudonym != NOBODY:
            whose.setdefault((one.population, one.period, one.pseudonym), []).append(one)
    over = set[ServedDecision]()
    rows = sorted((*who, len(found)) for who, found in whose.items())
    for population, period, pseudonym, times in _answers(tx, _VISIT, rows):
        found = whose[population, period, bytes(pseudonym)]
        over.update(found[max(0, found[0].limit - (times - len(found))) :])
    return over


def _cursors(
    tx: Transaction,
    served: Sequence[Cursor],
    left_out: Mapping[tuple[Any, ...], str],
    blocks: dict[Any, _Row],
) -> None:
    """Write how far blocks were served, unless they have been closed meanwhile."""
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


def _outcomes(
    tx: Transaction, outcomes: Sequence[ReportedOutcome], blocks: Mapping[Any, _Row]
) -> list[Acknowledged]:
    """Store outcomes, each once; for decisions that do not count, without a body."""
    order = sorted(blocks)
    found: list[tuple[str, bool]] = []
    taken: dict[tuple[int, int, int], tuple[Any, ...]] = {}
    for one in outcomes:
        at = bisect_right(order, one[:3]) - 1
        row = blocks[order[at]] if at >= 0 else None
        if row is None or row[:2] != one[:2] or one.sequence >= row.first + row.size:
            found.append((LATE, False))
            continue
        if one.lease not in (0, row.lease):
            found.append((LOST, False))
            continue
        offset = one.sequence - row.first
        counts = row.counts(offset)
        if row.state >= CLOSING:
            found.append((LATE, counts))
        elif offset >= row.served:
            found.append((EARLY if row.closed_at is None else LATE, False))
        else:
            found.append((RECORDED, counts))
            pseudonym = None if one.pseudonym == NOBODY else one.pseudonym
            said = (int(one.altered), one.body, pseudonym) if counts else (0, None, None)
            taken.setdefault(one[:3], (*one[:3], *said))
    rows = sorted(taken.values(), key=lambda row: row[:3])
    new = {tuple(row) for row in _answers(tx, _OUTCOME, rows)}
    there = {tuple(row) for row in _answers(tx, _THERE, sorted({one[:3] for one in outcomes} - new))}
    answers = []
    for one, (status, counts) in zip(outcomes, found, strict=True):
        if status == RECORDED and one[:3] in new:
            new.discard(one[:3])  # if a group has two outcomes of one decision, the first one counts
            there.add(one[:3])
            answers.append(Acknowledged(RECORDED, counts))
        elif status != LOST and one[:3] in there:
            answers.append(Acknowledged(DUPLICATE, counts))
        else:
            answers.append(Acknowledged(status, False))
    return answers


def _answers(tx: Transaction, sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [found for part, values in _filled(sql, rows) for found in tx.all(part, *values)]


def _filled(sql: str, rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[str, list[Any]]]:
    """Statements about many rows, in powers of two, so that there are few different statements."""
    start = 0
    while left := len(rows) - start:
        size = min(1 << (left.bit_length() - 1), _MOST)
        row = f"({','.join('?' * len(rows[0]))})"
        some = rows[start : start + size]
        yield sql.format(",".join([row] * size)), [value for one in some for value in one]
        start += size


# --- requests ------------------------------------------------------------------------------------------


def request(store: Database, experiment: int, number: bytes) -> KeptRequest | None:
    """The request of this id; None if it is not known, or not any more."""
    with store.transaction() as tx:
        found = tx.all(_REQUESTS.format("(?, ?)"), experiment, number)
    return _read(found[0]) if found else None


def forget_requests(store: Database) -> None:
    """Delete requests older than `KEEP` seconds whose decisions do not accept outcomes any more."""
    with store.transaction() as tx:
        old = tx.locked(
            "SELECT r.experiment, r.id FROM request r WHERE r.at < ? AND NOT EXISTS (SELECT 1 FROM block b"
            " WHERE b.experiment = r.experiment AND b.epoch = r.epoch AND b.first <= r.sequence"
            " AND r.sequence < b.first + b.count)",
            tx.now() - KEEP,
            strength="UPDATE OF r SKIP LOCKED",
        )
        tx.many("DELETE FROM request WHERE experiment = ? AND id = ?", old)
