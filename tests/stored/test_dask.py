"""A Dask cluster gives the answers of one process, whatever happens to its workers, or refuses to."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import discreet as dc
from discreet.core.checks import DataError
from discreet.data.store import Store
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage, WeightedTopics
from discreet.objectives import stored as engines
from discreet.objectives.stored import Answer, Dask, EngineError, Extent, Threads, answer, combined
from discreet.offline import PrivateGreedy
from discreet.privacy import Release

from .stores import keys_of, store_of
from .test_online import LEARNERS, after
from .test_scores import (
    CHOOSERS,
    CONSTRAINTS,
    N_ITEMS,
    N_PEOPLE,
    chosen,
    chosen_in_memory,
    matrix,
    the_same_coins,
    vectors,
)

distributed = pytest.importorskip("distributed", reason="NOT TESTED: install discreet[dask]")
SECRET_ROW = "4711 and 4712"


@pytest.fixture(scope="module")
def client():
    import cloudpickle
    import dask

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see the tests
    # Workers are copies of a process that has everything imported: new ones are there at once.
    loaded = ["distributed.nanny", "discreet.objectives.stored", "discreet.kernels.stores"]
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    distributed.utils.get_mp_context().set_forkserver_preload(loaded)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return store_of(tmp_path_factory.mktemp("dask") / "people", matrix(), 7, weighted=True)


def in_memory() -> ProbabilisticCoverage:
    return ProbabilisticCoverage(matrix())


class Killing(Dask):
    """Loses a worker in some of its rounds, when the tasks of the round have been handed out."""

    def __init__(self, store, client, rounds) -> None:
        super().__init__(store, client)
        self.rounds, self.round, self.killed = rounds, 0, 0

    def total(self, scan):
        found = super().total(scan)
        self.round += 1
        return found

    def _submitted(self, scan, place):
        future = super()._submitted(scan, place)
        if self.round in self.rounds and place == len(self._shards) - 1:
            self.rounds = tuple(one for one in self.rounds if one != self.round)
            alive = [one.pid for one in self._client.cluster.workers.values() if one.pid]
            os.kill(alive[self.round % len(alive)], signal.SIGKILL)
            self.killed += 1
        return future


def test_every_score_vector_is_that_of_one_process(client, store):
    assert vectors(ProbabilisticCoverage.from_store(store, client)) == vectors(
        ProbabilisticCoverage(matrix())
    )
    shards = Dask(store, client, shards=5)  # more than there are workers
    assert vectors(Coverage.from_store(store, shards)) == vectors(Coverage(matrix()))


@pytest.mark.parametrize("name", [*CHOOSERS, *CONSTRAINTS])
@pytest.mark.filterwarnings("ignore:.*too small")
def test_choosers_choose_and_charge_the_same(client, store, name):
    with the_same_coins(keys_of(N_PEOPLE)):
        assert chosen(name, ProbabilisticCoverage.from_store(store, client)) == chosen_in_memory(name)


def test_extensions_are_those_of_threads(client, store):
    """They are floats within a piece of a bucket, and whole steps when pieces are added up."""
    x = np.random.default_rng(4).random(N_ITEMS)
    here, there = (FacilityLocation.from_store(store, engine) for engine in ("threads", client))
    assert here.multilinear(x) == there.multilinear(x)
    assert (here.multilinear_gradient(x) == there.multilinear_gradient(x)).all()
    assert here.total_curvature() == there.total_curvature()


def test_topics_are_those_of_one_process(client, store):
    covers = np.random.default_rng(2).random((5, N_ITEMS))
    memory = WeightedTopics(matrix(), covers, bound=4.0)
    assert vectors(WeightedTopics.from_store(store, covers, client, bound=4.0), (3, 0)) == vectors(
        memory, (3, 0)
    )


@pytest.mark.parametrize("name", ["running sums", "leader", "best of both", "frank wolfe", "windows"])
def test_parts_and_windows_are_those_of_one_process(client, tmp_path, name):
    room = min(N_PEOPLE, LEARNERS[name]().partial(server="x").room)
    some = store_of(tmp_path / "some", matrix()[:room], 3, keys=keys_of(N_PEOPLE)[:room], weighted=True)
    found = [
        after(LEARNERS[name](), lambda part, _, people=people: part.add_all(people))
        for people in (
            ProbabilisticCoverage(matrix()[:room]),
            ProbabilisticCoverage.from_store(some, client),
        )
    ]
    assert found[0] == found[1]


class Draws:
    """Counts whatever a release draws, and the entries of the account."""

    def __init__(self, monkeypatch) -> None:
        self.names: list[str] = []
        for name in ("steps", "noise", "noisy", "choice", "permute_and_flip", "sample", "words"):
            monkeypatch.setattr(Release, name, self._counted(name, getattr(Release, name)))

    def _counted(self, name, plain):
        def counted(release, *given, **options):
            self.names.append(name)
            return plain(release, *given, **options)

        return counted

    def of(self, selector, people):
        """What is chosen, the draws it took, and what the account says."""
        self.names.clear()
        selection = selector.select(people)
        ledger = selector.privacy.ledger.counts
        return selection.items, selection.gains, tuple(self.names), len(ledger), selector.privacy.to_json()


@pytest.mark.parametrize(("method", "rounds"), [("zcdp", (0, 2, 3)), ("subsampled", (1,))])
def test_lost_workers_change_nothing_and_nothing_is_drawn_twice(client, store, monkeypatch, method, rounds):
    """In the first, a middle and the last round: the same picks, draws and entries of the account."""
    draws, engine = Draws(monkeypatch), Killing(store, client, rounds=())
    people = ProbabilisticCoverage.from_store(store, engine)
    engine.round, engine.rounds = 0, rounds
    found = [
        draws.of(PrivateGreedy(4, dc.Budget(5.0, 1e-6), method, seed=5), one)
        for one in (ProbabilisticCoverage.from_store(store), people)
    ]
    assert (engine.round, engine.killed) == (4, len(rounds))
    assert found[0] == found[1]
    if method == "zcdp":
        assert found[0][2] == ("choice",) * 4
        assert draws.of(PrivateGreedy(4, dc.Budget(5.0, 1e-6), method, seed=5), in_memory()) == found[0]


class Losing(Dask):
    """Loses all workers once all of them have finished and nothing of it has been fetched."""

    def __init__(self, store, client, lose) -> None:
        super().__init__(store, client)
        self.lose, self.lost = lose, 0

    def _gathered(self, futures):
        if not self.lost:
            distributed.wait(futures)
            self.lost += 1
            self.lose()
        return super()._gathered(futures)


def test_answers_that_are_lost_with_all_workers_are_worked_out_again(client, store):
    def killed():
        for one in client.cluster.workers.values():
            os.kill(one.pid, signal.SIGKILL)

    expected = Threads(store).total(Extent(True))
    engine = Losing(store, client, killed)
    assert (engine.total(Extent(True)) == expected).all()
    assert engine.lost == 1


def test_a_cluster_without_workers_is_given_up(store, monkeypatch):
    monkeypatch.setattr(engines, "_PATIENCE", 0.1)
    monkeypatch.setattr(engines, "_ALONE", 0.3)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def gone():
            cluster.scale(0)
            while client.scheduler_info(n_workers=-1)["workers"]:
                time.sleep(0.02)

        with pytest.raises(EngineError, match="no workers for 0 s"):
            Losing(store, client, gone).total(Extent(True))


@dataclass(frozen=True)
class Failing(Extent):
    """Fails with a row in its message."""

    def of(self, bucket, first, last):
        raise RuntimeError(f"row {SECRET_ROW} of {bucket} {first} {last}")


def everything_said(client, error, capfd) -> str:
    """Of an error, all logs of the cluster and all that was printed."""
    said = [str(error), repr(error.__cause__), repr(error.__context__), *capfd.readouterr()]
    said += [str(line) for lines in client.get_worker_logs().values() for line in lines]
    return " ".join([*said, str(client.get_scheduler_logs())])


def test_errors_of_workers_hold_no_rows(client, store, capfd):
    with pytest.raises(EngineError, match="a worker failed: RuntimeError") as caught:
        Dask(store, client).total(Failing(False))
    assert SECRET_ROW not in everything_said(client, caught.value, capfd)


def test_an_altered_store_is_refused_by_name(client, tmp_path, capfd):
    """The keys and the weights of whom the refusal is about are planted, and appear nowhere."""
    altered = store_of(
        tmp_path / "altered",
        0.4711 * np.eye(4),
        2,
        keys=np.array([2, 3, 47114711, 47114711], dtype=np.uint64),
        home=np.array([0, 1, 0, 1]),
        weighted=True,
    )
    with pytest.raises(
        DataError, match=r"altered: bucket 0: one person in it belongs to another bucket"
    ) as caught:
        FacilityLocation.from_store(altered, client)
    assert "4711" not in everything_said(client, caught.value, capfd)


# --- what a worker says, without a cluster --------------------------------------------------------------


def test_a_bucket_that_is_counted_twice_or_not_at_all_is_refused(store):
    parts = [answer(shard, Extent(True)) for shard in shards_of(store)]
    whole = combined(7, parts, Extent(True))
    assert (combined(7, parts[::-1], Extent(True)) == whole).all()
    for wrong in ([*parts, parts[0]], parts[1:], [parts[0], parts[0]]):
        with pytest.raises(EngineError, match="not about every bucket exactly once"):
            combined(7, wrong, Extent(True))
    with pytest.raises(EngineError, match=r"version 0\.0\.0"):
        combined(7, [replace(parts[0], version="0.0.0"), parts[1]], Extent(True))


def shards_of(store):
    class NoCluster:
        def scheduler_info(self, n_workers):
            return {"workers": {"a": n_workers, "b": n_workers}}

    return Dask(store, NoCluster())._shards


def test_another_store_under_the_same_path_is_refused(store):
    shard = replace(shards_of(store)[0], digest="0" * 64)
    found = answer(shard, Extent(True))
    assert isinstance(found, Answer)
    assert "another store" in found.problem
    gone = answer(replace(shard, path="/nowhere/at/all"), Extent(True))
    assert gone.refused


def test_clusters_without_workers_and_asynchronous_clients_are_refused(store):
    class Empty:
        asynchronous = False

        def scheduler_info(self, n_workers):
            return {"workers": {}} if n_workers else {}

    with pytest.raises(ValueError, match="no workers"):
        Dask(store, Empty())
    Empty.asynchronous = True
    with pytest.raises(ValueError, match="asynchronous"):
        Dask(store, Empty())


def test_a_round_is_quick(client, store):
    """benchmarks/scans.py measures it; this notices one that has become many times as long as an answer."""
    people = Coverage.from_store(store, client)
    rows, answers, rounds = people.row_source(), [], []
    for number in range(8):
        start = time.perf_counter()
        assert client.submit(abs, -number, pure=False).result() == number
        answers.append(time.perf_counter() - start)
        rows.change((1, 2), 3, 2.0**40, 2.0**40)
        rounds.append(time.perf_counter() - start - answers[-1])
    assert min(rounds) < 15 * min(answers)


def test_a_recommender_is_the_same(client, tmp_path):
    from discreet.offline import PrivateRecommender

    rows = np.random.default_rng(1).random((2500, 12)) < 0.3
    store = store_of(tmp_path / "store", rows, 5)
    here = PrivateRecommender(dc.Budget(1.0, 1e-6), seed=0).fit(Coverage(rows))
    there = PrivateRecommender(dc.Budget(1.0, 1e-6), seed=0).fit(Coverage.from_store(store, client))
    assert (there.popularity == here.popularity).all()
    assert (there.factors.diagonal == here.factors.diagonal).all()
