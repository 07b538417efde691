"""Stored results know their sources: what is stale is said, and what is not known is not called fresh."""

from __future__ import annotations

import ast
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import evidence, results
from tools.evidence import ROOT, TABLE

RESULT = "benchmarks/results/privacy_core.json"
PAGE = "docs/chaos.md"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """What the results of `TABLE` depend on, somewhere else."""
    skip = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.png", "*.ipynb")
    for folder in ("src", "benchmarks", "tools", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skip)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "benchmarks" / "results")
    return tmp_path


def _marked(copy, result=RESULT):
    """A result that was made with the sources as they are."""
    path = copy / result
    path.write_text(json.dumps({"a": 1, "evidence": [evidence.mark(result, copy) | {"entries": ["a"]}]}))


def _edit(path: Path, old: str, new: str):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


# --- the table ---------------------------------------------------------------------------------------


def test_every_stored_result_is_declared_and_every_source_is_there():
    assert evidence.undeclared() == []
    for result, made in TABLE.items():
        assert (ROOT / result).exists(), result
        assert [name for name, path in evidence.sources(result).items() if not path.exists()] == []
        assert [page for page in made.pages if not (ROOT / page).exists()] == []


def test_a_result_that_is_not_declared_is_noticed(copy):
    (copy / "benchmarks" / "results" / "new.json").write_text("{}")
    mark = json.dumps(evidence.mark(PAGE, copy))
    (copy / "docs" / "new.md").write_text(f"# New\n\n<!-- evidence: {mark} -->\n")
    assert evidence.undeclared(copy) == ["benchmarks/results/new.json", "docs/new.md"]


def _imported(path: Path) -> set[str]:
    """The packages of `discreet` that a script imports; ``import discreet`` alone says nothing."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("discreet.")}
    return found


@pytest.mark.parametrize("result", TABLE)
def test_what_scripts_import_is_declared(result):
    made = TABLE[result]
    files = [
        f for one in made.scripts if one != "tests" for f in evidence._files(ROOT / one) if f.suffix == ".py"
    ]
    imported = set().union(*map(_imported, files)) if files else set()
    assert imported <= evidence.reached(made.packages)


def test_packages_bring_what_they_import():
    assert {"core", "kernels", "constraints", "privacy", "data", "objectives"} <= evidence.reached(["online"])
    assert evidence.reached(["privacy"]) == {"core", "kernels", "privacy"}
    whole = {path.stem for path in (ROOT / "src" / "discreet").iterdir() if path.suffix in ("", ".py")}
    assert evidence.reached(evidence.LIBRARY) == whole - {"__init__", "__main__", "__pycache__"}


def test_scripts_bring_what_they_import(copy):
    """Of other scripts, and what those import; by the text of imports, beside what Python itself imports."""
    every = {result: evidence.local(made.scripts) for result, made in TABLE.items()}
    shared = {result for result, found in every.items() if "benchmarks/shared.py" in found}
    says = {
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if "benchmarks.shared" in path.read_text()
    }
    assert {f"benchmarks/results/{name}.json" for name in says} & set(TABLE) <= shared
    assert "benchmarks/results/privacy_core.json" in shared
    assert {"benchmarks/offline.py", "benchmarks/shared.py", "tools/results.py"} <= every[
        "benchmarks/results/continuous_greedy.json"
    ]
    assert every["docs/chaos.md"] == set()
    ask = "import sys, benchmarks.continuous_greedy; print(*(m.__file__ for name, m in sys.modules.items()"
    ask += " if name.split('.')[0] in ('benchmarks', 'tools') and m.__file__))"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    loaded = subprocess.run(
        [sys.executable, "-c", ask], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    ).stdout.split()
    names = {Path(one).relative_to(ROOT).as_posix() for one in loaded} - {"benchmarks/continuous_greedy.py"}
    assert len(names) > 2
    assert names - {evidence.MARKS} <= every["benchmarks/results/continuous_greedy.json"]
    _edit(copy / "benchmarks" / "shared.py", "\nimport ", "\nfrom . import store\nimport ")
    assert "benchmarks/store.py" in evidence.local(["benchmarks/privacy_core.py"], copy)


# --- digests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("src/discreet/privacy/budget.py", "import", "import this\nimport"),
        ("src/discreet/kernels/noise.pyx", "return", "return 1 +"),
        ("src/discreet/kernels/portable.h", "#", "#define A_NEW_ONE 1\n#"),
        ("src/discreet/privacy/blt_constants.json", "[", "[[], "),
        ("benchmarks/privacy_core.py", "import", "import this\nimport"),
        ("benchmarks/shared.py", "import", "import this\nimport"),
    ],
)
def test_a_changed_source_is_noticed(copy, path, old, new):
    _marked(copy)
    assert evidence.finding(RESULT, copy).state == "fresh"
    _edit(copy / path, old, new)
    found = evidence.finding(RESULT, copy)
    where = path if path.startswith("benchmarks") else path.split("/")[2]
    assert (found.state, found.changed) == ("stale", [where])
    assert f"before changes of {where}" in evidence.foot("docs/benchmarks.md", copy)


def test_a_changed_number_a_new_file_and_a_lost_one_are_noticed(copy):
    home = copy / "src" / "discreet" / "privacy"
    seen = {evidence.digest(home)}
    (home / "new.py").write_text("HALF = 0.5\n")
    seen.add(evidence.digest(home))
    (home / "new.py").write_text("HALF = 0.51\n")
    seen.add(evidence.digest(home))
    (home / "new.py").write_text("HALF = None\n")
    seen.add(evidence.digest(home))
    (home / "new.py").rename(home / "newer.py")
    seen.add(evidence.digest(home))
    assert len(seen) == 5


def test_words_make_nothing_stale(copy):
    _marked(copy)
    home = copy / "src" / "discreet"
    file = home / "privacy" / "budget.py"
    file.write_text(
        "# A comment.\n" + file.read_text().replace('"""', '"""In other words: ', 1) + "\n\n# More.\n"
    )
    file = home / "kernels" / "noise.pyx"
    file.write_text(
        file.read_text() + '\n# A comment\n\ndef _new():\n    """One."""\n    return "#"  # more\n'
    )
    _marked(copy)
    _edit(file, '"""One."""', '"""Two,\n    three."""')
    _edit(file, "  # more", "  # less")
    _edit(home / "privacy" / "accountant.py", 'raise ValueError(f"', 'raise ValueError(f"In other words: ')
    assert evidence.finding(RESULT, copy).state == "fresh"
    _edit(file, '"#"', '"##"')  # no comment
    assert evidence.finding(RESULT, copy).state == "stale"


def test_another_package_makes_nothing_stale(copy):
    _marked(copy)
    _edit(copy / "src" / "discreet" / "online" / "hedge.py", "import", "import this\nimport")
    assert evidence.finding(RESULT, copy).state == "fresh"


# --- marks -------------------------------------------------------------------------------------------


def test_what_has_no_mark_is_unknown(copy):
    (copy / RESULT).write_text('{"a": 1}')
    assert evidence.finding(RESULT, copy).state == "unknown"
    assert RESULT in evidence.foot("docs/benchmarks.md", copy)
    (copy / PAGE).write_text("# Crash testing\n")
    assert evidence.finding(PAGE, copy).state == "unknown"


def test_entries_from_before_keep_their_mark(copy, monkeypatch):
    monkeypatch.setattr(evidence, "mark", lambda *_, **__: {"made": "later", "commit": "", "sources": {}})
    path = copy / RESULT
    path.write_text('{"a": 1, "b": 2}')
    results.store("privacy_core", {"a": 1, "b": 3}, ["b"])
    marks, missing = evidence.marks_of(path)
    assert missing
    assert [one["entries"] for one in marks] == [["b"]]
    monkeypatch.setattr(evidence, "mark", lambda *_, **__: {"made": "last", "commit": "", "sources": {}})
    results.store("privacy_core", results.stored("privacy_core") | {"a": 4}, ["a"])
    marks, missing = evidence.marks_of(path)
    assert not missing
    assert {one["made"]: one["entries"] for one in marks} == {"later": ["b"], "last": ["a"]}
    results.store("privacy_core", {"a": 1})
    assert [one["entries"] for one in evidence.marks_of(path)[0]] == [["a"]]
    assert results.stored("privacy_core") == {"a": 1}


def test_sources_that_change_while_a_benchmark_runs_are_no_sources_of_it(copy):
    file = copy / "src" / "discreet" / "privacy" / "budget.py"
    os.utime(file, (2e9, 2e9))
    found = evidence.mark(RESULT, copy, since=1.9e9)["sources"]
    assert [name for name, digest in found.items() if digest == "changed meanwhile"] == ["privacy"]


def test_a_page_is_marked_with_the_sources_from_before(copy):
    budget = copy / "src" / "discreet" / "privacy" / "budget.py"
    write = f"open({str(copy / PAGE)!r}, 'w').write('# Crash testing')"
    late = f"open({str(budget)!r}, 'a').write('MORE = 1')"
    assert evidence.mark_page(PAGE, [sys.executable, "-c", write], copy) == 0
    assert evidence.finding(PAGE, copy).state == "fresh"
    assert evidence.foot(PAGE, copy) == ""
    assert (copy / PAGE).read_text().count("<!-- evidence") == 1
    assert evidence.mark_page(PAGE, [sys.executable, "-c", f"{write}; {late}"], copy) == 0
    found = evidence.finding(PAGE, copy)
    assert (found.state, found.changed) == ("stale", ["privacy"])


def test_a_command_that_writes_nothing_marks_nothing(copy):
    (copy / PAGE).write_text("# Crash testing\n")
    assert evidence.mark_page(PAGE, [sys.executable, "-c", "raise SystemExit(3)"], copy) == 3
    assert evidence.finding(PAGE, copy).state == "unknown"


def test_the_command_lists_every_result(capsys):
    assert evidence.main([]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[:-1]] == list(TABLE)


def test_the_site_says_what_is_old(copy, monkeypatch):
    monkeypatch.setattr(evidence, "ROOT", copy)

    class Page:
        class file:
            src_uri = "chaos.md"

    said = evidence.on_page_markdown("# Crash testing", Page)
    assert said.startswith("# Crash testing")
    assert ("Results older" in said) == (evidence.finding(PAGE).state != "fresh")


# --- commands ----------------------------------------------------------------------------------------


def test_commands_are_those_of_the_declared_scripts():
    for result, made in TABLE.items():
        if not made.command:
            continue
        name = made.command.removeprefix("-m ").split()[0]
        file = name if name.endswith(".py") else name.replace(".", "/")
        assert file == "discreet" or made.scripts[0] in (file, f"{file}.py")
        assert "--out" not in made.command or f"--out {result}" in made.command
        if name.startswith("benchmarks."):
            usage = (ROOT / made.scripts[0]).read_text()
            assert ("FOLDER" in made.command) == (re.search(rf"{name} \[?FOLDER", usage) is not None), result


def _table(monkeypatch, copy, **commands):
    """Results of these commands alone; those of pages write them with a number in place of their words."""
    made = {name: evidence.Made((), ("privacy",), command) for name, command in commands.items()}
    monkeypatch.setattr(evidence, "TABLE", made)
    monkeypatch.setattr(evidence, "ROOT", copy)
    for name in made:
        (copy / name).write_text("old\n")


def test_what_is_not_fresh_is_made_again_the_quickest_first(copy, monkeypatch, capfd):
    write = copy / "write.py"
    write.write_text("import sys\nopen(sys.argv[1], 'w').write(' '.join(sys.argv[2:]))\nprint(sys.argv[1])\n")
    commands = {
        "slow.md": "write.py slow.md",
        "quick.md": "write.py quick.md [FOLDER]",
        "real.md": "write.py real.md FOLDER",
        "hand.md": "",
    }
    _table(monkeypatch, copy, **commands)
    for name, minutes in (("slow.md", 2.5), ("quick.md", 0.5), ("real.md", 1.0)):
        text = json.dumps(evidence.mark(name, copy) | {"minutes": minutes, "sources": {"privacy": "other"}})
        (copy / name).write_text(f"old\n\n<!-- evidence: {text} -->\n")
    assert list(evidence.wanted(None, copy)) == ["quick.md", "slow.md"]
    assert list(evidence.wanted("data", copy)) == ["quick.md", "real.md", "slow.md"]
    assert all(evidence.make(one, "data", copy) for one in ("quick.md", "real.md"))
    assert [(copy / f"{one}.md").read_text().split("\n")[0] for one in ("quick", "real", "hand")] == [
        "data",
        "data",
        "old",
    ]
    assert list(evidence.wanted("data", copy)) == ["slow.md"]
    assert evidence.finding("quick.md", copy).minutes < 0.5
    assert evidence.make("slow.md", None, copy)
    assert list(evidence.wanted("data", copy)) == []
    assert capfd.readouterr().out.split() == ["quick.md", "real.md", "slow.md"]


def test_the_command_makes_what_is_named_and_says_what_it_cannot_make(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(
        evidence, "make", lambda result, folder: done.append((result, folder)) or "chaos" not in result
    )
    assert evidence.main(["make", "benchmarks/con*.py", "docs/chaos.md"]) == 1
    assert done == [("benchmarks/results/constraints.json", None), ("docs/chaos.md", None)]
    said = capsys.readouterr().out
    assert "convex.json is left out: it needs --folder" in said
    assert said.endswith("failed: docs/chaos.md\n")
    assert evidence.main(["make", "--folder", "data", "benchmarks/gpu.py", "benchmarks/convex.py"]) == 0
    assert done[2:] == [("benchmarks/results/convex.json", "data")]


def test_make_asks_for_results_that_there_are():
    lines = (ROOT / "Makefile").read_text().splitlines()
    named = {word.strip("'") for line in lines if "\t$(MAKE_AGAIN) " in line for word in line.split()[1:]}
    names = {name for result, made in TABLE.items() for name in (result, *made.scripts)}
    assert [one for one in named if not fnmatch.filter(names, one)] == []
    assert {one for one in TABLE if one.endswith(".md")} <= named
    assert not [line for line in lines if "--out docs/" in line]
