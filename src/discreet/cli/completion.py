"""``discreet completion``: a script with which a shell completes commands, options and their values."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

NAME = "completion"
HELP = "print a script that lets bash, zsh or fish complete discreet's commands and options"

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """examples:
  discreet completion bash > ~/.local/share/bash-completion/completions/discreet
  discreet completion zsh > "${fpath[1]}/_discreet"
  discreet completion fish > ~/.config/fish/completions/discreet.fish"""


@dataclass(frozen=True)
class Option:
    """One option of a command: how it is written, which values it takes (none: a switch), and its help."""

    flags: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...]
    help: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")
    parser.add_argument("--json", action="store_true", help="print the commands and options as JSON instead")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from .dispatch import available, command

    table = {name: options_of(name) for name in available()}
    if options.json:
        print(json.dumps({name: [o.flags[-1] for o in found] for name, found in table.items()}, indent=2))
        return 0
    helps = {name: command(name).HELP for name in table}
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](table, helps))
    return 0


def options_of(name: str) -> list[Option]:
    """The options of a command, from its parser; words it takes in their places count as values of ""."""
    from .dispatch import parser_of

    found = []
    for action in parser_of(name)._actions:
        values = tuple(map(str, action.choices or ()))
        if action.option_strings or values:
            words = (action.help or "").split(";")[0].split(" (")[0]
            found.append(Option(tuple(action.option_strings) or ("",), action.nargs != 0, values, words))
    return found


def _bash(table: dict[str, list[Option]], helps: dict[str, str]) -> str:
    cases, values = [], []
    for name, options in table.items():
        words = [flag for o in options for flag in o.flags if flag] + [
            value for o in options if o.flags == ("",) for value in o.values
        ]
        cases.append(f'        {name}) words="{" ".join(words)}" ;;')
        for o in options:
            if o.flags != ("",) and o.values:
                values.append(f'        {name}:{o.flags[-1]}) words="{" ".join(o.values)}" ;;')
            elif o.flags != ("",) and o.takes_value:
                values.append(f"        {name}:{o.flags[-1]}) return ;;")
    del helps
    return "\n".join(
        [
            "# bash completion for discreet; nothing to complete means file names",
            "_discreet() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            "    COMPREPLY=()",
            '    if [ "$COMP_CWORD" -eq 1 ]; then',
            f'        COMPREPLY=($(compgen -W "{" ".join(table)} --help --version" -- "$current"))',
            "        return",
            "    fi",
            '    case "${COMP_WORDS[1]}:$before" in',
            *values,
            "    esac",
            '    if [ -z "$words" ]; then',
            '        case "${COMP_WORDS[1]}" in',
            *("    " + case for case in cases),
            "        esac",
            "    fi",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o default -F _discreet discreet",
        ]
    )


def _zsh(table: dict[str, list[Option]], helps: dict[str, str]) -> str:
    lines = ["#compdef discreet", "_discreet() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(f'{name}:{helps[name]}')}" for name in table]
    lines += ["  )", "  if (( CURRENT == 2 )); then _describe command commands; return; fi"]
    lines += ["  local name=${words[2]}", "  shift words; (( CURRENT-- ))", "  case $name in"]
    for name, options in table.items():
        lines.append(f"    {name}) _arguments \\")
        for o in options:
            values = f"({' '.join(o.values)})" if o.values else "_files"
            if o.flags == ("",):
                lines.append(f"      {_quoted(f'1::{values}')} \\")
                continue
            about = o.help.translate(str.maketrans("[]:", "(),"))
            ask = f":value:{values}" if o.takes_value else ""
            lines += [f"      {_quoted(f'{flag}[{about}]{ask}')} \\" for flag in o.flags]
        lines.append("      '*:file:_files' ;;")
    lines += ["  esac", "}", '_discreet "$@"']
    return "\n".join(lines)


def _fish(table: dict[str, list[Option]], helps: dict[str, str]) -> str:
    lines = []
    for name, options in table.items():
        lines.append(f"complete -c discreet -f -n __fish_use_subcommand -a {name} -d {_quoted(helps[name])}")
        inside = f"complete -c discreet -n '__fish_seen_subcommand_from {name}'"
        for o in options:
            values = f" -xa {_quoted(' '.join(o.values))}" if o.values else " -r" if o.takes_value else ""
            if o.flags == ("",):
                lines.append(f"{inside} -fa {_quoted(' '.join(o.values))}")
                continue
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in o.flags)
            lines.append(f"{inside} {flags}{values} -d {_quoted(o.help)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """One word for a shell, also for fish, which escapes inside single quotes."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"
