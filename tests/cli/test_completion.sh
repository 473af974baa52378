#!/bin/bash
# The completion knows the commands and options that the help knows, and no others.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
source "$here/tools/completion/tidelock.bash" || fail "the completion can't be read"

complete_words() { # words... ; the last one is at the cursor; sets $got
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _tidelock
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
}
long_options() { # a help text on stdin
    sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' | sort -u | tr '\n' ' '
}

complete_words tidelock ''
[[ $got == "check extend help lock run unlock " ]] || fail "commands: $got"
complete_words tidelock --url redis://x r
[[ $got == "run " ]] || fail "after an option: $got"
complete_words tidelock help ex
[[ $got == "extend " ]] || fail "help: $got"
for c in run lock unlock extend check; do
    complete_words tidelock $c --
    # --version is for no command in particular.
    want=$("$tidelock" help $c | long_options | sed 's/--version //')
    [[ $got == "$want" ]] || fail "options of $c: '$got' instead of '$want'"
done
complete_words tidelock run --on-lost k
[[ $got == "kill " ]] || fail "--on-lost: $got"
complete_words tidelock run --on-lost = t
[[ $got == "term " ]] || fail "--on-lost=: $got"
complete_words tidelock run key -- seq --
[[ $got != *--ttl* ]] || fail "our options are offered to the command"
