"""What all commands share: help, exit codes, one line for a mistake, completion; and the small commands."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from discreet import Budget, Gate, cli
from discreet.cli import COMMANDS, command, common, parser_of

from .running import assert_refused, inside, process


def test_names_to_audit_are_json_where_that_is_asked_for(capsys):
    plain = inside(capsys, "audit", "--list").out.split()
    assert json.loads(inside(capsys, "audit", "--list", "--json").out) == {"names": plain}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    module = command(name)
    assert name == module.NAME
    assert "\n" not in module.HELP
    ended = inside(capsys, name, "--help")
    assert ended.code == 0
    assert re.search(rf"examples?:\s+discreet {name}", ended.out)
    assert "--json" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 110


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from discreet.cli import main; codes = [main(['--help']), main(['select', '--help'])];"
        "print(codes, [m for m in ('numpy', 'scipy', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[0, 0] []"


def test_version_and_module_entry():
    ended = process("--version")
    assert ended.code == 0
    assert re.fullmatch(r"discreet \d+\.\d+\.\d+\S*\n", ended.out)


def test_mistakes_on_the_command_line_take_one_line(capsys):
    assert_refused(inside(capsys, "selct"), "did you mean 'select'?")
    assert_refused(inside(capsys, "frobnicate"), "there are", "select")
    assert_refused(inside(capsys, "--k", "5"), "--k is not an option here", "command first")
    assert_refused(inside(capsys, "plan"), "required", "see discreet plan --help")
    asked = ["plan", "--n-items", "5", "--k", "2", "--rounds", "10", "--epsilon", "1"]
    assert_refused(inside(capsys, *asked, "--jso"), "unrecognized arguments: --jso")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_dropped_for_a_second_one(name, capsys):
    """Given twice, an option is refused, or it is one that may be repeated and keeps both values."""
    repeatable = set()
    for action in parser_of(name)._actions:
        if not action.option_strings or "--help" in action.option_strings:
            continue
        flag, default = action.option_strings[-1], action.default
        value = [] if action.nargs == 0 else [str(next(iter(action.choices or ("1",))))]
        if isinstance(action, argparse._AppendAction):
            repeatable.add(flag)
            continue
        assert_refused(inside(capsys, name, flag, *value, flag, *value), f"{flag} is given twice")
        assert action.default is default
    given = {"--constraint", "--include", "--exclude", "--candidates", "--show"}
    expected = {"select": given, "simulate": {"--stream", "--learner", "--epsilon", "--candidates"}}
    expected["report"] = {"--retention"}
    assert repeatable == expected.get(name, set())
    parser = parser_of(name)
    for flag in repeatable:
        found = vars(parser.parse_known_args(["x", *_REQUIRED.get(name, ()), flag, "1", flag, "2"])[0])
        assert list(map(float, found[flag[2:]])) == [1.0, 2.0]
        again = vars(parser.parse_known_args(["x", *_REQUIRED.get(name, ()), flag, "3"])[0])
        assert list(map(float, again[flag[2:]])) == [3.0]  # a parser starts afresh each time


_REQUIRED = {"select": ("--person", "u", "--item", "i", "--epsilon", "1")}


def test_ends_have_exit_codes(capsys, monkeypatch):
    def ending(error):
        def work():
            raise error

        code = cli.guarded("discreet thing", work)
        return code, capsys.readouterr().err

    gate = Gate(Budget(1.0), 0)
    with pytest.raises(Exception, match="budget exceeded") as refused:
        gate.laplace([0.0], scale=0.5, sensitivity=1.0)
    code, err = ending(refused.value)
    assert code == 3
    assert err.startswith("discreet thing: budget exceeded")
    assert ending(KeyboardInterrupt()) == (130, "discreet thing: interrupted\n")
    assert ending(ValueError("one\ntwo \x1b[31mthree")) == (2, "discreet thing: one two \\x1b[31mthree\n")
    assert ending(FileNotFoundError(2, "No such file", "a\nb")) == (
        2,
        "discreet thing: a\\nb: no such file\n",
    )
    assert ending(OverflowError(34, "out of range"))[0] == 2
    assert ending(MemoryError()) == (2, "discreet thing: there is not enough memory for this\n")
    with pytest.raises(KeyError):  # ours to mend: it is nobody else's fault
        ending(KeyError("x"))
    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(ValueError, match="one"):
        ending(ValueError("one"))


def test_a_reader_who_has_seen_enough_is_no_error():
    program = subprocess.Popen(
        [sys.executable, "-m", "discreet", "completion", "zsh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    program.stdout.close()
    err = program.stderr.read()
    program.stderr.close()
    assert (program.wait(60), err) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("closed", "code", "words"),
    [("<&-", 2, "standard input is closed"), (">&-", 2, "standard output is closed"), ("2>&-", 2, "")],
)
def test_closed_streams(closed, code, words):
    """One line or none, no traceback, and nothing that belongs on standard error among the results."""
    ask = "select - --person u --item i --items-from-data --k 1 --epsilon 1"
    ended = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m discreet {ask} {closed}"],
        input="",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == bool(words)


def test_json_is_for_any_reader():
    value = {"a": [1.0, math.inf, (math.nan, -math.inf)], "茶": "\x9b31m\u202e\u2028\udce9\n"}
    text = common.as_json(value)
    assert "茶" in text
    assert all(c.isprintable() or c == "\n" for c in text)
    text.encode()

    def never(word):
        raise AssertionError(word)

    assert json.loads(text, parse_constant=never) == {"a": [1.0, None, [None, None]], "茶": value["茶"]}


def test_labels_in_any_language_on_any_terminal(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("u,i\n1,茶\n2,\x1b[31mtea\n", encoding="utf-8")
    asked = (
        "select",
        file,
        "--person",
        "u",
        "--item",
        "i",
        "--items-from-data",
        "--k",
        "2",
        "--epsilon",
        "1",
    )
    ended = process(*asked, PYTHONIOENCODING="ascii")
    assert ended.code == 0, ended.err
    assert "\\u8336" in ended.out
    assert "\x1b" not in ended.out  # no label may give orders to a terminal


# --- text and files ----------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    target.write_text("before")
    common.write_whole(target, "after")
    assert target.read_text() == "after"

    def interrupted(*_):
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(common.os, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                common.write_whole(target, "half")
        assert target.read_text() == "after"
        assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_text_fits_the_terminal(monkeypatch):
    """Paragraphs of at most 100 letters; a table where it fits, else a block for each of its rows."""
    words = " ".join(["word"] * 60)
    for columns, most, least in ((1000, 100, 95), (50, 50, 45), (5, 20, 16)):
        monkeypatch.setenv("COLUMNS", str(columns))
        first, *more = common.wrapped(words, bullet=" -- ").splitlines()
        assert first.startswith(" -- word")
        assert all(line.startswith("    word") for line in more)
        assert least <= max(map(len, [first, *more])) <= most
    header, rows = ["", "what", "many"], [["1", "tea", "3"], ["2", "a long name of tea", "14"], ["3", "", ""]]
    table = "   what                many\n1  tea                    3\n2  a long name of tea    14\n3"
    monkeypatch.setenv("COLUMNS", "27")
    assert common.fitted(header, rows) == table
    monkeypatch.setenv("COLUMNS", "26")
    assert common.fitted(header, rows) == "- 1 tea\n    many 3\n- 2 a long name of tea\n    many 14\n- 3"


def test_output_is_refused_before_any_work(tmp_path):
    there = tmp_path / "events.csv"
    there.write_text("x")
    with pytest.raises(ValueError, match="is a directory"):
        common.check_writable(str(tmp_path))
    with pytest.raises(ValueError, match="no folder"):
        common.check_writable(str(tmp_path / "no" / "where.json"))
    with pytest.raises(ValueError, match="the file that is read"):
        common.check_writable(str(there), "-", str(there))
    with pytest.raises(ValueError, match="the file that is read"):
        common.check_writable(str(there), str(tmp_path))  # a folder of files, or a store
    assert common.check_writable(str(tmp_path / "new.json"), str(tmp_path)) == tmp_path / "new.json"
    with pytest.raises(ValueError, match=r"--to .* the file that is read"):
        common.check_writable(str(there), str(tmp_path / "*.csv"), option="--to")  # a pattern of it
    with pytest.raises(ValueError, match="another output"):
        common.check_writable(str(tmp_path / "new.json"), None, str(tmp_path / "new.json"))


# --- completion --------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(capsys, tmp_path):
    script = tmp_path / "discreet.bash"
    script.write_text(inside(capsys, "completion", "bash").out)
    asking = """
        discreet() { "$PYTHON" -m discreet "$@"; }
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _discreet; echo "${COMPREPLY[*]}"
    """

    def completed(*words):
        found = subprocess.run(
            ["bash", "-c", asking, "bash", str(script), *words],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHON": sys.executable},
        )
        assert found.stderr == ""
        return found.stdout.split()

    assert completed("discreet", "sel") == ["select"]
    assert completed("discreet", "") == [*COMMANDS, "--help", "--version"]
    assert completed("discreet", "select", "--pe") == ["--person"]
    assert completed("discreet", "select", "--neighbours", "") == ["replace", "add_remove"]
    assert completed("discreet", "select", "--person", "") == []
    assert completed("discreet", "completion", "z") == ["zsh"]


# --- bench -------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "discreet"\n')
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "quick.py").write_text(
        '"""How quick.\n\nMore."""\nimport sys\n\n'
        "def main():\n    print(sys.argv[1:])\n    sys.exit(7)\n\n\nmain()\n"
    )
    below = tmp_path / "some" / "where"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return tmp_path


@pytest.mark.usefixtures("checkout")
def test_benchmarks_are_listed(capsys):
    listed = inside(capsys, "bench")
    assert listed.code == 0
    assert listed.out.splitlines()[1] == "quick      How quick."
    assert json.loads(inside(capsys, "bench", "--json").out) == {"benchmarks": {"quick": "How quick."}}
    assert_refused(inside(capsys, "bench", "slow"), "'slow' is not a benchmark; there are quick")


def test_a_benchmark_gets_its_arguments_and_returns_its_code(checkout):
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "discreet", "bench", "--json", "quick", "folder", "--fast"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 7
    assert ended.stderr == "['folder', '--fast']\n"
    assert json.loads(ended.stdout)["exit_code"] == 7
    assert 0.0 < json.loads(ended.stdout)["seconds"] < time.monotonic() - began


@pytest.mark.usefixtures("checkout")
def test_who_looks_is_told_that_a_benchmark_runs(capsys, monkeypatch):
    """Most of them print nothing until they are done, which may take minutes."""
    assert inside(capsys, "bench", "quick").err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert inside(capsys, "bench", "quick").err == "quick: running\n"


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_benchmark_that_is_killed_ends_as_a_shell_says(checkout, capsys):
    (checkout / "benchmarks" / "killed.py").write_text(
        "import os\n\ndef main():\n    os.kill(os.getpid(), 15)\n\nmain()\n"
    )
    assert inside(capsys, "bench", "killed").code == 128 + 15
