#!/bin/bash
# Completion in bash, zsh and fish, in each that is installed, as make install brings it: commands, options and
# values that the tool's tables have, and no others; a command behind "--" is completed as a command.
# Only in make check-all: it is about shells, not locks.
# timeout: 240
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then exit 77; fi # there is nothing for it to see

root=$work/root prefix=/usr
variant=(CC="${CC:-cc}" SAN="${SAN:-}")
if [[ ${BUILD:-} == *nocompat* ]]; then variant+=(COMPAT=0); fi
env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=$prefix "${variant[@]}" >"$out" 2>"$err" ||
    fail "make install: $(cat "$out")"
share=$root$prefix/share
legacy=
if [[ ${COMPAT:-1} != 0 ]]; then legacy=1; fi

# ---- asking each shell: what is offered behind a line, sorted, in $got -----------------------------
# shellcheck source=/dev/null
source "$share/bash-completion/completions/tidelock" || fail "the completion can't be read"
ask_bash() {
    read -ra COMP_WORDS <<<"${1//=/ = }" # so it splits words
    if [[ $1 == *' ' || $1 == *'=' && ${COMP_WORDS[-1]} != '=' ]]; then COMP_WORDS+=(''); fi
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _tidelock
    printf '%s\n' "${COMPREPLY[@]}"
}
ask_zsh() {
    timeout 60 zsh -f "$here/tests/cli/complete.zsh" "$share/zsh/vendor-completions" "$1" </dev/null
}
ask_fish() { # as --option=value it offers it all
    HOME=$work timeout 60 fish -N -c 'source $argv[1]; complete -C $argv[2]' "$share/fish/vendor_completions.d/tidelock.fish" "$1" |
        sed 's/\t.*//; s/=$//; s/^--[a-z-]*=//'
}
ask() { got=$("ask_$shell" "$1" | sed 's/ $//' | sort -u | paste -sd' '); }
offers() { # line, words
    ask "$1"
    [[ $got == "$2" ]] || depth=1 fail "$shell: behind '$1': '$got' instead of '$2'"
}

commands=$("$tidelock" help | sed -n '/^Locks/,/^Exit/s/^  \([a-z]*\) .*/\1/p' | sort | paste -sd' ')
long_options() { # a help text on stdin; --version is for no command in particular
    sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' | grep -vx -e --version | sort -u | paste -sd' '
}
# A shell may offer short options, too.
offers_options_of() { # command
    ask "tidelock $1 --"
    local want
    want=$("$tidelock" "$1" --help-all | long_options)
    [[ $got == "$want" ]] || fail "$shell: options of $1: '$got' instead of '$want'"
}

tried=0
mkdir "$work/some" && touch "$work/some/file"
for shell in bash zsh fish; do
    command -v $shell >/dev/null || { part_skipped $shell "$shell is not installed (Debian: $shell)" && continue; }
    tried=$((tried + 1))
    offers 'tidelock ' "$commands"
    offers 'tidelock --url redis://x r' run
    offers 'tidelock help ex' extend
    offers 'tidelock help d' "${legacy:+dialects }doctor"
    offers 'tidelock local s' 'status stop'
    offers 'tidelock local demo s' 'sentinel status stop'
    offers 'tidelock local demo ' 'cluster etcd quorum sentinel status stop'
    offers 'tidelock skew r' report
    offers 'tidelock skew --format n' nagios
    offers 'tidelock run --on-lost k' kill
    offers 'tidelock run --on-lost=t' term
    offers 'tidelock run -t 5' '500ms 5m 5s'
    offers 'tidelock inspect --watch=3' 30s
    offers 'tidelock inspect --wa' --watch
    for c in $commands; do
        if [[ $c == @(alive|help) ]]; then continue; fi # they have no options
        # All of them are looked at in bash; the others read the same table.
        if [[ $shell == bash || $c == @(run|skew|agent) ]]; then offers_options_of "$c"; fi
    done
    ask "tidelock --password-file $work/some/f"
    [[ $got == *file ]] || fail "$shell: no file is offered to --password-file: '$got'"
    ask "tidelock skew report $work/some/f"
    [[ $got == *file ]] || fail "$shell: no file is offered to skew report: '$got'"
    ask 'tidelock run key -- tr'
    [[ " $got " == *' true '* ]] || fail "$shell: behind --: '$got'"
    ask 'tidelock run key -- seq --'
    [[ $got != *--ttl* ]] || fail "$shell: our options are offered to the command"
    if [[ $legacy ]]; then
        want=$("$tidelock" help dialects | sed -n 's/^  \([a-z][^ ]*\) .*/\1/p' | sort | paste -sd' ')
        offers 'tidelock lock --dialect ' "$want"
        offers 'tidelock migrate --namespace x ad' advance
        offers 'tidelock migrate --phase ' '0 1 2 3'
        offers 'tidelock lock --protocol b' bridge
    else
        ask 'tidelock lock --'
        [[ $got != *--dialect* ]] || fail "$shell: options about legacy clients"
    fi
done
((tried > 0)) || fail "no shell was tried"

# ---- where zsh looks, for packages and for make install by hand ---------------------------------------
if command -v zsh >/dev/null; then
    env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=/usr/local "${variant[@]}" >"$out" 2>"$err" ||
        fail "make install: $(cat "$out")"
    for prefix in /usr /usr/local; do
        found=
        for dir in $(zsh -fc 'print -l $fpath'); do
            if [[ $dir == "$prefix"/* && -s $root$dir/_tidelock ]]; then found=$dir; fi
        done
        [[ $found ]] || fail "zsh looks in none of: $(cd "$root$prefix" && find . -name _tidelock)"
    done
fi
