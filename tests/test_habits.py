"""What a project does besides its code: one version everywhere, a wheel that works, files that tools read."""

from __future__ import annotations

import datetime
import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import discreet
from tools import images, pages, release, typed, versions
from tools.environments import Failed, readme_example
from tools.results import ROOT, stored

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLASSIFIED = [
    one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", one)
]


# --- the wheel --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """The wheel in an environment of its own, which borrows the packages it needs from this one."""
    return typed.installed(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_runs_the_readmes_example(there, tmp_path):
    """Away from the checkout, from installed files; `make release-check` has pip install all it needs."""
    where = "\nimport discreet; print(discreet.__file__, discreet.__version__)\n"
    said = there.script(readme_example() + where, tmp_path / "empty")
    assert "replace-one adjacency" in said
    *_, share, place = said.strip().splitlines()
    assert 0.5 < float(share) < 0.9
    assert Path(place.split()[0]).is_relative_to(there.packages)
    assert place.split()[1] == discreet.__version__
    assert (there.folder / "bin" / "discreet").is_file()


def test_the_wheel_has_the_package_and_nothing_else(there):
    (wheel,) = (there.folder.parent / "dist").iterdir()
    assert release.wrong_with(wheel) == []


def test_missing_extras_are_named(there, tmp_path, monkeypatch):
    """What release-check asks of a plain environment, with the packages of the extras hidden."""
    hidden = ["sklearn", "matplotlib", "psycopg", "msgspec", "pyarrow"]
    blocked = f"import sys\nfor name in {hidden}:\n    sys.modules[name] = None\n"
    monkeypatch.setattr(release, "filled", lambda text, filled=release.filled: blocked + filled(text))
    release.try_without(there, tmp_path)
    monkeypatch.setattr(release, "EXTRAS", {"sklearn": ("import numpy", "")})
    with pytest.raises(Failed, match="without sklearn, this worked"):
        release.try_without(there, tmp_path)


# --- releases ---------------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere():
    assert set(release.versions().values()) == {discreet.__version__}


def test_a_version_is_written_everywhere(tmp_path, monkeypatch):
    for place in release.PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    release.set_version("7.8.9", datetime.date(2030, 1, 2))
    assert set(release.versions().values()) == {"7.8.9"}
    assert "\n## 7.8.9 (2030-01-02)\n" in (tmp_path / "CHANGELOG.md").read_text()


def test_extras_that_users_have_are_tried():
    developers = {"docs", "test", "lint", "bench", "peers", "spark-local"}
    assert set(release.EXTRAS) == set(PROJECT["optional-dependencies"]) - developers
    assert set(stored("release")["extras"]) == {"none", *release.EXTRAS}
    assert {one["version"] for one in stored("release")["extras"].values()} == {discreet.__version__}


def test_pages_of_releases_are_generated():
    text = (ROOT / "docs" / "releases.md").read_text()
    assert set(pages.blocks_of(text)) == {"tested_versions", "tested_extras"}
    assert pages.outdated(text) == []
    for target in ("versions", "release-check"):
        assert f"make {target}" in text
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_versions_that_are_claimed_were_tried():
    passed = {one["python"] for one in stored("versions")["runs"] if one["result"] == "passed"}
    assert set(CLASSIFIED) == {"3.11"} | passed  # the whole suite runs on the first
    assert PROJECT["requires-python"] == f">={CLASSIFIED[0]}"


def test_every_package_has_a_lower_bound():
    assert "numpy==2.0" in versions.oldest()
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    assert [
        one for group in groups for one in group if ">=" not in one and not one.startswith("discreet[")
    ] == []


# --- files that tools read --------------------------------------------------------------------------


def test_the_workflow_runs_what_continuous_integration_runs():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert job["strategy"]["matrix"]["python"] == CLASSIFIED
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_no_committed_file_names_a_package_index_or_this_machine():
    words = re.compile("pypi[.]org|pythonhosted|/(root|work|opt|tmp)/|index-url")
    new = [".github/workflows/ci.yml", ".pre-commit-config.yaml", "CITATION.cff", "README.md", "Makefile"]
    new += ["constraints.txt", "docs/releases.md", "pyproject.toml"]
    new += [path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks" / "results").glob("*.json")]
    assert [name for name in new if words.search((ROOT / name).read_text())] == []


# --- types ------------------------------------------------------------------------------------------


def test_the_typed_program_runs(capsys):
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile((typed.PROGRAMS / "program.py").read_text(), "program.py", "exec"), names)
    assert capsys.readouterr().out
    assert len(typed.expected(typed.PROGRAMS)) == 16


# --- images -----------------------------------------------------------------------------------------


def test_the_readmes_images_are_what_was_measured():
    assert images.outdated() == []
    shown = re.findall(r"\]\(docs/images/(\S+)\)", (ROOT / "README.md").read_text())
    shown += re.findall(r"\]\(images/(\S+)\)", (ROOT / "docs" / "index.md").read_text())
    assert set(shown) == set(images.IMAGE)


def test_messages_say_how_to_install_an_extra_here(monkeypatch):
    """Installed, pip finds extras of what is there; only on the path, an index may hold something else."""
    from importlib import metadata

    from discreet.core import text

    assert text.install("plots") == "pip install 'discreet[plots]'"

    def nowhere(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nowhere)
    assert text.install("plots") == "pip install '.[plots]' in a clone of discreet"
    source = Path(text.__file__).parents[1]
    asking = [path for path in source.rglob("*.py") if "pip install" in path.read_text()]
    assert [path.name for path in asking] == ["text.py"]
    known = set(PROJECT["optional-dependencies"])
    asked = re.findall(r"install\('(\w+)'\)", "".join(path.read_text() for path in source.rglob("*.py")))
    assert set(asked) <= known
    assert len(asked) > 10


def test_a_wheel_without_a_file_is_noticed(there, tmp_path):
    (wheel,) = (there.folder.parent / "dist").iterdir()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / wheel.name, "w") as new:
        for name in old.namelist():
            if not name.endswith("py.typed"):
                new.writestr(name, old.read(name))
        new.writestr("tests/extra.py", "")
    found = release.wrong_with(tmp_path / wheel.name)
    assert found == ["missing: discreet/py.typed", "not of the package: tests/extra.py"]


def test_citations_are_those_of_the_page_of_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version", "references"} <= set(cited)
    page = (ROOT / "docs" / "papers.md").read_text()
    assert len(cited["references"]) == 5
    for number, paper in enumerate(cited["references"]):
        assert f"Paper 00{number}" in paper["notes"]
        row = re.search(rf"^\| 00{number} \| (.*) \|$", page, re.MULTILINE)[1]
        if number == 2:
            assert row == "the supplement of 000"
            continue
        assert f"*{paper['title']}*" in row
        assert row.startswith(" and ".join(one["family-names"] for one in paper["authors"]))
        assert row.endswith(str(paper["year"]))
