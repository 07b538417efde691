"""Reference pages: one for each public class; an overview for each package.

The pages are made when the site is built: summary, signature, a table of all parameters, the guarantee, an
example, see also, members. All of it is the docstring, taken apart: what a parameter is says the sentence
that names it, the guarantee is the paragraph that begins with that word, and an example is a doctest.
`_entries.py` has what many classes share, and examples of classes that others make for you.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import pkgutil
import re
import runpy
import textwrap
from pathlib import Path
from typing import Any, get_args

import discreet
from discreet.core import options

PACKAGES = ("online", "offline", "objectives", "constraints", "privacy", "data")
MARK = "<!-- classes -->"
DOCS = Path(__file__).parent
_entries = runpy.run_path(str(DOCS / "_entries.py"))
PARAMETERS, GUARANTEES, EXAMPLES = (_entries[one] for one in ("PARAMETERS", "GUARANTEES", "EXAMPLES"))
_GUARANTEE = re.compile(r"^(Formal guarantee|Guarantee)[.:] ")
_NAME = re.compile(r"(?<!`)`(?:\w+\.)*([A-Z]\w+)`(?!`)")


@functools.cache
def classes(package: str) -> dict[str, Any]:
    """The public classes of a package, which have a docstring of their own."""
    home = importlib.import_module(f"discreet.{package}")
    found = {name: getattr(home, name) for name in home.__all__}
    return {name: one for name, one in found.items() if inspect.isclass(one) and one.__dict__.get("__doc__")}


@functools.cache
def homes() -> dict[str, str]:
    """The package of every class that has a page."""
    return {name: package for package in PACKAGES for name in classes(package)}


def path(package: str, name: str) -> str:
    return f"reference/{package}/{name}.md"


def paragraphs(thing: Any) -> list[str]:
    """The paragraphs of a docstring, without its examples."""
    return [part for part in inspect.getdoc(thing).split("\n\n") if not part.lstrip().startswith(">>>")]


def first_sentence(thing: Any) -> str:
    return re.split(r"(?<=\.)\s", paragraphs(thing)[0].replace("\n", " "))[0]


# --- parameters ------------------------------------------------------------------------------------------


def given(thing: Any) -> list[inspect.Parameter]:
    """The parameters of a class; none where it takes those of a class that is not ours."""
    makers = (kind for kind in inspect.getmro(thing) if {"__init__", "__new__"} & set(kind.__dict__))
    if not next(makers).__module__.startswith("discreet"):
        return []
    found = inspect.signature(thing).parameters.values()
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in found if one.kind not in starred and not one.name.startswith("_")]


@functools.cache
def documented(thing: Any) -> tuple[list[str], dict[str, str]]:
    """The prose of a docstring, and what it says of parameters: paragraphs that begin with one are theirs."""
    names = {one.name for one in given(thing)}
    prose, found = [], dict.fromkeys(names, "")
    for part in paragraphs(thing):
        if _GUARANTEE.match(part):
            continue
        mine = names & set(_leading(part)) if prose else set()
        if not mine or part.endswith(":"):  # a list follows, of which a table has no room
            prose.append(part)
        if not mine:
            continue
        current: list[str] = []
        for sentence in re.split(r"(?<=[.;])\s+(?=``\w)", " ".join(part.split())):
            current = [one for one in _leading(sentence) if one in names] or current
            for name in current:
                found[name] = f"{found[name]} {sentence}".strip()
    return prose, found


def _leading(text: str) -> list[str]:
    """The names that a sentence begins with: one, or several of which it says the same."""
    begin = re.match(r"(``\w+[^`]*``(, | and |, and )?)+", " ".join(text.split()))
    return re.findall(r"``(\w+)", begin[0]) if begin else []


def about(thing: Any, name: str) -> str:
    """What a parameter is: its sentences, one that begins with it, an entry, or one that names it."""
    prose, found = documented(thing)
    sentences = re.split(r"(?<=[.;])\s+(?=[A-Z`])", " ".join(" ".join(prose).split()))
    own = [one for one in sentences if re.match(rf"``{name}(``|=|\[)", one)]
    entry = PARAMETERS.get(f"{thing.__name__}.{name}") or PARAMETERS.get(name)
    named = [one for one in (*sentences, *found.values()) if re.search(rf"``{name}(``|=|\[)", one)]
    words = next(iter([one for one in (found[name], *own, entry, *named) if one]), "")
    if words.endswith(":"):  # a list follows, in the prose
        return f"{words[:-1]}; see above."
    return words.rstrip(";") + ("." if words.endswith(";") else "")


def _default(one: inspect.Parameter) -> str:
    if " object at 0x" in repr(one.default) or "factory" in repr(one.default):
        return "its own"
    return f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)


def signature(name: str, thing: Any) -> str:
    """How it is imported and made, without types: those are in the table."""
    words, starred = [], False
    for one in given(thing):
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        words.append(one.name if one.default is one.empty else f"{one.name}={_default(one)}")
    line = textwrap.fill(f"{name}({', '.join(words)})", 92, subsequent_indent="    ", break_on_hyphens=False)
    return f"```python\nfrom discreet.{homes()[name]} import {name}\n\n{line}\n```\n"


@functools.cache
def _words() -> dict[str, str]:
    """Types of options that are words, as these words."""
    kinds = {name: get_args(kind) for name, kind in vars(options).items()}
    return {name: " | ".join(f'"{word}"' for word in words) for name, words in kinds.items() if words}


def parameters(thing: Any) -> str:
    """The table of a class's parameters: its name, what it is, its default and its type."""
    rows = []
    for one in given(thing):
        words = str(getattr(one.annotation, "__forward_arg__", one.annotation))
        words = re.sub(r"\w+", lambda found: _words().get(found[0], found[0]), words)
        kind = "" if one.annotation is one.empty else f"`{words.replace(' | ', ' or ')}`"
        default = "required" if one.default is one.empty else f"`{_default(one)}`"
        cells = (f"`{one.name}`", about(thing, one.name), default, kind)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if not rows:
        return ""
    table = "\n".join(["| parameter | what it is | default | type |", "|---|---|---|---|", *rows])
    return f'<div class="parameters" markdown>\n\n{table}\n\n</div>\n'


# --- guarantee, example, see also ------------------------------------------------------------------------


def guarantee(thing: Any) -> str:
    """What its docstring or that of a class it is made of states, or an entry."""
    for kind in inspect.getmro(thing):
        if kind.__module__.startswith("discreet") and kind.__doc__:
            for part in paragraphs(kind):
                if _GUARANTEE.match(part):
                    words = _GUARANTEE.sub("", part)
                    return words[0].upper() + words[1:]
    name = thing.__name__
    return GUARANTEES.get(name) or GUARANTEES.get(homes()[name], "")


@functools.cache
def doctests() -> dict[str, str]:
    """Every example of the library, by where it stands."""
    found, finder = {}, doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        try:
            home = importlib.import_module(module.name)
        except ImportError:  # of a package that is optional
            continue
        found |= {one.name: one.docstring for one in finder.find(home) if one.examples}
    return found


def _prompts(text: str) -> str:
    """The examples of a docstring, without its prose."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part.strip("\n") for part in parts if part.lstrip().startswith(">>>"))


def example(name: str, thing: Any) -> str:
    """Its own doctest, or one of a method, or one that uses it, or that of the class it is made of."""
    own = _prompts(inspect.getdoc(thing)) or EXAMPLES.get(name, "").strip()
    if own:
        return own
    uses = [text for text in EXAMPLES.values() if re.search(rf"\b{name}\b", text)]
    place = f"{thing.__module__}.{thing.__qualname__}."
    uses += [_prompts(text) for where, text in doctests().items() if where.startswith(place)]
    uses += [_prompts(text) for text in doctests().values() if re.search(rf"\b{name}\b", _prompts(text))]
    if uses:
        return uses[0].strip()
    for kind in inspect.getmro(thing)[1:]:
        if kind.__name__ in homes():
            return example(kind.__name__, kind)
    return ""


@functools.cache
def tutorials() -> dict[str, str]:
    """The text of every tutorial, by its path."""
    return {f"tutorials/{page.name}": page.read_text() for page in sorted(DOCS.glob("tutorials/*.md"))}


def see_also(package: str, name: str, thing: Any) -> list[str]:
    """Links: what it is a kind of, the classes that its docstring names, and the tutorials that use it."""
    bases = [kind.__name__ for kind in inspect.getmro(thing)[1:]]
    kinds = [other for other, one in classes(package).items() if thing in inspect.getmro(one)[1:]]
    named = [*bases, *_NAME.findall(inspect.getdoc(thing)), *kinds]
    found = [
        f"[{other}](../{homes()[other]}/{other}.md)"
        for other in dict.fromkeys(named)
        if other in homes() and other != name
    ]
    for page, text in tutorials().items():
        if re.search(rf"\b{name}\b", text):
            found.append(f"[{text.splitlines()[0].removeprefix('# ')}](../../{page})")
    return found[:12] or [f"[all of `discreet.{package}`](../{package}.md)"]


def inherited(thing: Any) -> str:
    """The public methods of the classes it is made of, with links."""
    lines, seen = [], set(thing.__dict__)
    for kind in inspect.getmro(thing)[1:]:
        if kind.__name__ in homes() and kind is getattr(
            importlib.import_module(f"discreet.{homes()[kind.__name__]}"), kind.__name__
        ):
            names = [one for one in kind.__dict__ if not one.startswith("_") and one not in seen]
            seen |= set(names)
            if names:
                listed = ", ".join(f"`{one}`" for one in names)
                lines.append(
                    f"From [{kind.__name__}](../{homes()[kind.__name__]}/{kind.__name__}.md): {listed}."
                )
    return "\n\n".join(lines)


def page(package: str, name: str, thing: Any) -> str:
    """The page of one class."""
    prose, _ = documented(thing)
    sections = {
        "Parameters": parameters(thing),
        "Guarantee": guarantee(thing),
        "Example": f"```pycon\n{shown}\n```" if (shown := example(name, thing)) else "",
        "See also": ", ".join(see_also(package, name, thing)),
    }
    said = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items() if text)
    options = {"show_root_heading": "false", "show_bases": "false", "toc_label": "Methods and attributes"}
    listed = "".join(f"      {option}: {value}\n" for option, value in options.items())
    members = f"::: {thing.__module__}.{thing.__qualname__}\n    options:\n{listed}"
    return (
        f"# {name}\n\n{prose[0]}\n\n{signature(name, thing)}\n"
        + "\n\n".join(prose[1:])
        + f'\n\n{said}\n\n<p class="members">Methods and attributes</p>\n\n{inherited(thing)}\n\n{members}'
    )


# --- called by mkdocs ------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Every package's overview leads its classes in the navigation."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    for place, entry in enumerate(reference):
        (title, target), *_ = entry.items()
        if (package := Path(target).stem) in PACKAGES:
            children = [{name: path(package, name)} for name in sorted(classes(package))]
            reference[place] = {title: [target, *children]}
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for package in PACKAGES:
        for name, thing in classes(package).items():
            files.append(File.generated(config, path(package, name), content=page(package, name, thing)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The overview's table of classes."""
    package = Path(page.file.src_uri).stem
    if MARK not in markdown:
        return markdown
    rows = [
        f"| [{name}]({package}/{name}.md) | {first_sentence(one)} |" for name, one in classes(package).items()
    ]
    return markdown.replace(MARK, "\n".join(["| class | what it is |", "|---|---|", *rows]))
