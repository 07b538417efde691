"""``discreet completion``: a script with which a shell completes commands, options and their values.

The script runs this command, ``discreet completion words -- WORD...``, for the possible next words.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .common import as_json

NAME = "completion"
HELP = "print a script that lets bash, zsh or fish complete discreet's commands and options"

_EXAMPLES = """examples:
  discreet completion bash > ~/.local/share/bash-completion/completions/discreet
  discreet completion zsh > "${fpath[1]}/_discreet"
  discreet completion fish > ~/.config/fish/completions/discreet.fish"""
# If nothing is offered, the shell completes file names.
_SCRIPTS = {
    "bash": """_discreet() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f1))
}
complete -o default -F _discreet discreet""",
    "zsh": """#compdef discreet
_discreet() {
  local -a found
  found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" | tr '\\t' ':')}")
  if [[ -n "${found[1]}" ]]; then _describe discreet found; else _files; fi
}
_discreet "$@\"""",
    "fish": """function __discreet_words
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    set -e words[1]
    discreet completion words -- $words "$begun"
end
complete -c discreet -a '(__discreet_words)'""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell, or the words that a shell wants completed."""
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=(*_SCRIPTS, "words"), help="the shell that will read the script")
    parser.add_argument("words", nargs="*", metavar="WORD", help="what is written so far, for the script")


def run(options: argparse.Namespace) -> int:
    """Print the script, or the possible next words."""
    if options.json:
        from . import COMMANDS

        print(as_json({name: list(_next([name, ""])) for name in COMMANDS}))
    elif options.shell == "words":
        for word, about in _next(options.words).items():
            print(f"{word}\t{about}")
    else:
        print(_SCRIPTS[options.shell])
    return 0


def _next(words: Sequence[str]) -> dict[str, str]:
    """Completions of the last word, each with a description; none if it is a name or a number."""
    from . import COMMANDS, command, parser_of

    *before, begun = words or [""]
    found: dict[str, str] = {}
    if not before:
        found = {name: command(name).HELP for name in COMMANDS} | {"--help": "", "--version": ""}
    elif before[0] in COMMANDS:
        actions = parser_of(before[0])._actions
        asked = next((one for one in actions if before[-1] in one.option_strings), None)
        if asked is not None and asked.nargs != 0:
            return {str(value): "" for value in asked.choices or () if str(value).startswith(begun)}
        for one in actions:
            about = (one.help or "").split(";")[0].split(" (")[0]
            found |= dict.fromkeys(one.option_strings or map(str, one.choices or ()), about)
    return {word: about for word, about in found.items() if word.startswith(begun)}
