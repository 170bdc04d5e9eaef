"""`sigmascope completion`: the script that completes names of commands, networks and data."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, get_completion_class

from sigmascope.cli import options
from sigmascope.cli.output import say

PROGRAM, VARIABLE = "sigmascope", "_SIGMASCOPE_COMPLETE"


class Bash(BashComplete):
    """Completion of names with colons, at which bash otherwise breaks words."""

    source_template = r"""
%(complete_func)s() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" word response item kind value
    local before="" # bash replaces what follows the last colon only
    local -a words
    IFS=$' \t\n' read -r -a words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word="${words[-1]}"
    response=$(env COMP_WORDS="$line" COMP_CWORD=$(( ${#words[@]} - 1 )) \
        %(complete_var)s=bash_complete "$1")
    [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && before="${word%%"${word##*:}"}"
    for item in $response; do
        kind="${item%%%%,*}" value="${item#*,}"
        if [[ $kind == dir ]]; then
            COMPREPLY=() && compopt -o dirnames
        elif [[ $kind == file ]]; then
            COMPREPLY=() && compopt -o default
        elif [[ $kind == plain ]]; then
            COMPREPLY+=("${value#"$before"}")
            [[ $value == *[:/] ]] && compopt -o nospace
        fi
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


EXAMPLES = (
    """bash, in ~/.bashrc:  eval "$(sigmascope completion bash)" """.rstrip(),
    """zsh, in ~/.zshrc:    eval "$(sigmascope completion zsh)" """.rstrip(),
    "fish:  sigmascope completion fish > ~/.config/fish/completions/sigmascope.fish",
)


@click.command(
    "completion",
    short_help="Print the script that completes names in a shell.",
    epilog=options.examples(*EXAMPLES),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, networks, data and items in a shell.

    The first completion of a name takes seconds, since all libraries are asked for theirs. Names
    are kept for a day in ~/.cache/sigmascope.
    """
    kind = Bash if shell == "bash" else get_completion_class(shell)
    assert kind is not None  # one of the choices
    say(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source().strip())
