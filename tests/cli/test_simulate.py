"""``discreet simulate`` as a user runs it: with a file, with flags, wrongly, and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from discreet.evaluation.simulation import read_config, simulate

from .running import assert_refused, inside, process

QUICK = ("--rounds", 200, "--n-items", 10, "--k", 2, "--repeats", 2, "--workers", 1)


def test_flags_make_results_a_report_and_a_table(tmp_path):
    ended = process(
        "simulate", *map(str, QUICK), "--learner", "phased", "--learner", "greedy", "--out", str(tmp_path)
    )
    assert (ended.code, ended.err) == (0, "")
    for words in ("learner", "PhasedSelector", "greedy", "100.0 %", " +- ", "report.html", "results.parquet"):
        assert words in ended.out
    assert "NOT PRIVATE: true figures" in ended.out
    assert parquet.read_table(tmp_path / "results.parquet").num_rows == 4
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert len(list((tmp_path / "plots").iterdir())) == 2


def test_json_is_plain_and_says_where_everything_is(tmp_path, capsys):
    arguments = ("--learner", "hedge", "--epsilon", 1, "--epsilon", "inf", "--out", tmp_path, "--json")
    result = json.loads(inside(capsys, "simulate", *QUICK, *arguments).out)
    assert result["private"] is False
    assert [row["epsilon"] for row in result["rows"]] == [1.0, None]
    assert [row["account"] is None for row in result["rows"]] == [False, True]
    assert result["report"] == str(tmp_path / "report.html")


def test_recorded_streams(tmp_path, capsys):
    events = tmp_path / "visits.csv"
    events.write_text("who,what\n" + "".join(f"{i},{i % 4}\n" for i in range(40)))
    arguments = ("--events", events, "--person", "who", "--item", "what", "--learner", "greedy", "--k", 2)
    ended = inside(capsys, "simulate", *arguments, "--repeats", 1, "--workers", 1, "--out", tmp_path / "out")
    assert ended.code == 0
    assert "visits.csv" in ended.out
    assert "0.5000" in ended.out
    assert " +- " not in ended.out  # of one repeat
    assert "visits.csv: real data, the people of a file of events" in ended.out
    assert "greedy, in the end: 0, 1" in ended.out
    results = tmp_path / "out" / "results.parquet"
    before = results.read_bytes()
    (tmp_path / "again").symlink_to(tmp_path / "out")
    for folder in ("out", "again"):  # what is read is not replaced
        asked = ("--events", results, "--person", "key", "--item", "repeat", "--learner", "random", "--k", 1)
        ended = inside(capsys, "simulate", *asked, "--repeats", 1, "--workers", 1, "--out", tmp_path / folder)
        assert_refused(ended, "is a file that is read")
    assert results.read_bytes() == before
    report = (tmp_path / "out" / "report.html").read_text()
    assert "real data" in report
    assert "items in the last round" in report


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learner", "hedgehog"], "learner='hedgehog' is not one of"),
        (["--stream", "shoppers"], "family='shoppers' is not one of"),
        (["--k", "60"], "k=60 exceeds the 50 items"),
        (["--epsilon", "-1"], "must be greater than 0"),
        (["--workers", "0"], "workers=0 is too small"),
        (["--person", "who"], "--events FILE, which is missing"),
        (["--events", "nowhere.csv", "--person", "a", "--item", "b"], "nowhere.csv: no such file"),
        (["--events", "some.csv", "--rounds", "9"], "--rounds is for synthetic streams"),
        (["--events", "some.csv", "--n-items", "9"], "--n-items is for synthetic streams"),
        (["nowhere.toml"], "nowhere.toml: no such file"),
        (["nowhere.toml", "--k", "3"], "--k is for runs without a file"),
        (["nowhere.toml", "--learner", "hedge"], "--learner is for runs without a file"),
    ],
)
def test_mistakes_are_refused_in_one_line(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(inside(capsys, "simulate", *arguments), words)
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_events_are_no_public_list_of_their_items(tmp_path, capsys):
    """Accounts would not be conditional on the list, although one person's item is on it."""
    for name in ("monday.csv", "copy.csv"):
        (tmp_path / name).write_text("who,what\nann,tea\nben,rare\n")
    (tmp_path / "a.toml").write_text(
        '[[streams]]\nevents = "monday.csv"\nperson = "who"\nitem = "what"\nitems = "monday.csv"\n'
        '[[learners]]\nlearner = "hedge"\n'
    )
    events = ("--events", tmp_path / "monday.csv", "--person", "who", "--item", "what")
    for arguments in ([tmp_path / "a.toml"], [*events, "--items", tmp_path / "copy.csv"]):
        ended = inside(capsys, "simulate", *arguments, "--out", tmp_path / "out")
        assert_refused(ended, "items= is a file of its events")


def test_a_file_in_the_place_of_the_folder_and_broken_data(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert_refused(inside(capsys, "simulate", *QUICK, "--out", tmp_path / "file"), "is a file")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    columns = ("--person", "a", "--item", "b", "--out", tmp_path / "out")
    assert_refused(
        inside(capsys, "simulate", "--events", tmp_path / "broken.parquet", *columns), "discreet simulate: "
    )


CONFIG = """
rounds = 300
items = 12
k = 2
repeats = 2

[[streams]]
family = "product display"

[[learners]]
learner = "phased"
[[learners]]
learner = "hedge"
epsilon = inf
[[learners]]
learner = "popularity"
"""

# The command, in processes that run the first repeat and wait in the second one until they are ended.
HELD = """
import signal, sys, time
from discreet.cli import main
from discreet.evaluation import simulation

run = simulation.run_cell

def run_cell(cell):
    while cell.repeat:
        time.sleep(0.1)
    return run(cell)

simulation.run_cell = run_cell
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are deaf to it
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def held(tmp_path):
    """A simulation whose first three cells are finished, and whose two workers are busy with others."""
    config, out, script = tmp_path / "c.toml", tmp_path / "out", tmp_path / "held.py"
    config.write_text(CONFIG)
    script.write_text(HELD)
    command = [sys.executable, script, "simulate", config, "--out", out, "--workers", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            while len(list(out.glob("cells/*.json"))) < 3:
                assert running.poll() is None, running.communicate()
                time.sleep(0.01)
            yield running, config, out
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def resumed(capsys, config, out):
    """What the same command adds to the three cells, which it does not run again."""
    finished = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    assert len(finished) == 3
    assert not (out / "results.parquet").exists()
    assert not list(out.rglob(".*"))
    ended = inside(capsys, "simulate", config, "--out", out, "--workers", 1, "--json")
    assert ended.code == 0, ended.err
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    whole = simulate(read_config(config), None, workers=1)
    kept = parquet.read_table(out / "results.parquet").to_pylist()
    assert [row["average"] for row in kept] == [one.average for one in whole.outcomes]
    assert len(kept) == 6


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs signals to a group of processes")
def test_interrupted_and_resumed(held, capsys):
    """Ctrl-C on a terminal reaches every process of the group; what is finished stays, to the byte."""
    running, *files = held
    os.killpg(running.pid, signal.SIGINT)
    said, noted = running.communicate(timeout=600)
    assert running.returncode == 130
    assert said == ""
    assert "run the same command again to go on" in noted
    assert "interrupted" in noted
    assert "Traceback" not in noted
    resumed(capsys, *files)


def group_of(leader):
    """The processes of a process group that are running, as the kernel lists them."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            state, _, group = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # not a process, or one that has just ended
        if int(group) == leader and state != "Z":
            found.append(int(entry))
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_killed_and_resumed(held, capsys):
    """A process that is killed says nothing; its workers end by themselves, and finished cells stay."""
    running, *files = held
    assert len(group_of(running.pid)) >= 3  # with its two workers
    running.kill()
    running.wait()
    deadline = time.monotonic() + 300.0
    while left := group_of(running.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    resumed(capsys, *files)


def test_candidates_are_named_or_read_from_a_file(tmp_path, capsys):
    listed = tmp_path / "best.txt"
    listed.write_text("4\n\n 2\n")
    arguments = (
        "--learner",
        "phased",
        "--learner",
        "greedy",
        "--candidates",
        f"@{listed}",
        "--candidates",
        9,
    )
    found = json.loads(inside(capsys, "simulate", *QUICK, *arguments, "--out", tmp_path / "o", "--json").out)
    assert [row["learner"] for row in found["rows"]] == ["PhasedSelector(candidates=3 items)", "greedy"]
    assert set(found["rows"][0]["shown"]) <= {"4", "2", "9"}
    assert found["rows"][0]["epsilon"] == 1.0  # where nothing was said
