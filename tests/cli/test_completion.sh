#!/bin/bash
# The completion knows the commands and options that the help knows, and no others.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
source "$here/tools/completion/tidelock.bash" || fail "the completion can't be read"
if [[ ${COMPAT:-1} != 0 ]]; then
    # shellcheck source=/dev/null
    source "$here/tools/completion/legacy.bash" || fail "the completion for legacy clients can't be read"
fi

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
commands=$("$tidelock" help | sed -n '/^Locks/,/^For/s/^  \([a-z]*\) .*/\1/p' | sort | tr '\n' ' ')
[[ $got == "$commands" ]] || fail "commands: '$got' instead of '$commands'"
complete_words tidelock --url redis://x r
[[ $got == "run " ]] || fail "after an option: $got"
complete_words tidelock help ex
[[ $got == "extend " ]] || fail "help: $got"
topics=
if [[ ${COMPAT:-1} != 0 ]]; then topics='dialects '; fi
complete_words tidelock help d
[[ $got == "${topics}doctor " ]] || fail "help: $got"
complete_words tidelock local s
[[ $got == "status stop " ]] || fail "local: $got"
complete_words tidelock local demo s
[[ $got == "sentinel status stop " ]] || fail "local demo: $got"
for c in ${commands/help /}; do
    complete_words tidelock $c --
    # --version is for no command in particular.
    want=$("$tidelock" help $c | long_options | sed 's/--version //')
    [[ $got == "$want" ]] || fail "options of $c: '$got' instead of '$want'"
done
complete_words tidelock skew --format n
[[ $got == "nagios " ]] || fail "skew --format: $got"
complete_words tidelock skew r
[[ $got == "report " ]] || fail "skew: $got"
complete_words tidelock run --on-lost k
[[ $got == "kill " ]] || fail "--on-lost: $got"
complete_words tidelock run --on-lost = t
[[ $got == "term " ]] || fail "--on-lost=: $got"
complete_words tidelock run key -- seq --
[[ $got != *--ttl* ]] || fail "our options are offered to the command"
if [[ ${COMPAT:-1} != 0 ]]; then
    complete_words tidelock lock --dialect ''
    want=$("$tidelock" help dialects | sed -n 's/^  \([a-z][^ ]*\) .*/\1/p' | sort | tr '\n' ' ')
    [[ $got == "$want" ]] || fail "--dialect: '$got' instead of '$want'"
    complete_words tidelock migrate --namespace x ad
    [[ $got == "advance " ]] || fail "migrate: $got"
    complete_words tidelock lock --protocol b
    [[ $got == "bridge " ]] || fail "--protocol: $got"
fi
