"""What is wrong with a store, by what clients saw; an empty list is what is hoped for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from discreet.service.database import Database, open_store
from discreet.service.worker import linked, periods_of

from .clients import Clients
from .world import HAD, LIMIT, World


def verdict(world: World, clients: Clients) -> list[str]:
    """Every promise that was broken; the service is down, and everything has been aggregated."""
    store = open_store(world.url)
    try:
        with store.transaction() as tx:
            learned = tx.all("SELECT epoch, sequence, body, segment FROM witness WHERE sequence >= 0")
            steps = tx.all("SELECT epoch, seq, segment, body FROM witness WHERE sequence < 0")
            releases = tx.all("SELECT seq, payload, chain FROM release ORDER BY seq")
            (number, seq, chain) = tx.one("SELECT id, seq, chain FROM experiment")
            (state_seq,) = tx.one("SELECT seq FROM private_state WHERE segment = ''")
            (raw,) = tx.one("SELECT count(*) FROM outcome")
            charges = tx.all("SELECT label, count FROM charge")
        found = list(dict.fromkeys(clients.refused))
        if clients.replaced:
            found.append(f"{clients.replaced} outcomes were recorded although there was one")
        times = Counter((epoch, sequence) for epoch, sequence, *_ in learned)
        if twice := [where for where, count in times.items() if count > 1]:
            found.append(f"{len(twice)} decisions were learned twice")
        bodies = {
            (epoch, sequence): None if body is None else bytes(body) for epoch, sequence, body, _ in learned
        }
        learned_in = {(epoch, sequence): segment for epoch, sequence, _, segment in learned}
        lost = [where for where in clients.acknowledged if where not in bodies]
        if lost:
            found.append(f"{len(lost)} acknowledged outcomes were lost")
        by_person: Counter[tuple[int, str]] = Counter()  # in an epoch
        for where, (sent, person, segment) in clients.acknowledged.items():
            kept = bodies.get(where)
            if learned_in.get(where, segment) != segment:
                found.append("an outcome was learned in another segment than it was asked for")
            if kept is not None:
                by_person[where[0], person] += 1
                if json.loads(kept) != json.loads(sent):
                    found.append("another outcome was learned than was acknowledged")
        if by_person and max(by_person.values()) > LIMIT:
            found.append(f"a person was learned from {max(by_person.values())} times")
        sequences = Counter((epoch, sequence) for epoch, sequence, _, _ in clients.shown)
        if again := [where for where, count in sequences.items() if count > 1]:
            found.append(f"{len(again)} decisions were served twice")
        link = linked(b"", f"experiment {number}")
        chains = {link[:8].hex()}
        for sequence, (number_, payload, stored) in enumerate(releases, 1):
            link = linked(link, payload)
            chains.add(link[:8].hex())
            if number_ != sequence or bytes(stored) != link:
                found.append("the releases form no chain")
                break
        if {policy for _, _, policy, _ in clients.shown} - chains:
            found.append("something was served that follows from no release")
        if bytes(chain) != link or not seq == state_seq == len(releases):
            found.append("the state is not that of the last release")
        rounds: Counter[tuple[int, str]] = Counter()
        # A release may have aggregated several blocks: those of a segment follow each other by their rounds.
        for _, before, after, *queue in sorted(
            (seq, *map(int, bytes(body).split()), epoch, segment) for epoch, seq, segment, body in steps
        ):
            if before != rounds[*queue]:
                found.append("a learner went on from another state than it was left in")
                break
            rounds[*queue] = after
        if world.shop.personal:
            found += _of_personal_sets(world, store, chains)
        if raw:
            found.append(f"{raw} raw outcomes were kept")
        if not charges:
            found.append("releases without a charge")
        periods = periods_of(store, 1)
        spent = max((periods.account(name).epsilon() for name in periods.names), default=0.0)
        if spent > world.people.budget.epsilon:
            found.append("more was spent than allowed")
        return list(dict.fromkeys(found))
    finally:
        store.close()


def _of_personal_sets(world: World, store: Database, chains: set[str]) -> list[str]:
    """A model that no release made, and histories in any file: of the store, its log of writes, or logs."""
    folders, mark = [world.folder], HAD.encode()
    with store.transaction() as tx:
        models = tx.all("SELECT chain FROM model")
        if world.url.startswith("postgres"):
            folders.append(Path(tx.one("SHOW data_directory")[0]))
    found = []
    if any(bytes(chain)[:8].hex() not in chains for (chain,) in models):
        found.append("a model follows from no release")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = [path.name for path in files if _holds(path, (mark, mark.hex().encode()))]
    return found + ([f"histories were kept, in {len(kept)} files"] if kept else [])


def _holds(path: Path, marks: tuple[bytes, ...]) -> bool:
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # of a server that runs
        return False
    return any(mark in content for mark in marks)
