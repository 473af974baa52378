#!/bin/bash
# No retired word is left, and each rule is shown to bite: in prose, in a comment, in a string, and not in code.
# So are sentences without an actor, long sentences and wide lines.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/words.py
failed=0

"$lint" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{src,compat,tools/man,include,tests/wire,.ci}
: >"$tree/README.md"

bites() { # file, its text, what the finding must say
    printf '%b\n' "$2" >"$tree/$1"
    if "$lint" "$tree" >"$tree/out" || ! grep -q "^$1:[0-9]*: .*$3" "$tree/out"; then
        echo "not noticed in $1: $2"
        cat "$tree/out"
        failed=1
    fi
    : >"$tree/$1"
}
passes() { # file, its text
    printf '%b\n' "$2" >"$tree/$1"
    "$lint" "$tree" || { echo "refused for nothing in $1: $2" && failed=1; }
    : >"$tree/$1"
}

bites README.md 'Clients of the old kind wait.' '"old kind": say legacy'
bites README.md 'An old client waits.' 'legacy client'
bites tools/man/x.scd 'A holder is robbed of it.' 'stolen'
bites src/a.c '/* a request\n * is under way */' 'in flight'
bites src/a.c 'int f(void); // Take the lock' 'acquire'
bites src/a.h 'const char *s = "its answer makes no sense";' 'malformed'
bites src/a.c 'fail("there is none called %s", x);' 'unknown'
bites tools/x.sh 'say "something is missing"' 'KEY is missing'
bites compat/a.c '/* locks that were taken */' 'acquired'
bites compat/a.c '/* ends without a word */' 'silently'

bites src/a.c '/* A waiter stands in line. */' 'queue'
bites README.md 'The lock is had in time.' 'acquired'
bites src/a.c 'say("the client hears of it");' 'is notified'
bites src/a.c '/* Whoever asks last gets it. */' 'name the actor'
bites README.md 'It works. Who waits longest is next.' 'name the actor'
bites README.md "$(printf 'word %.0s' {1..31})." 'a sentence of 31 words'
bites src/a.c "say(\"$(printf 'word %.0s' {1..20})\"\n    \"$(printf 'word %.0s' {1..11})\");" 'a sentence of 31 words'
bites include/a.h "/* $(printf '%0100d' 0) */" 'columns, more than 100'
bites README.md "$(printf '%0111d' 0)" 'columns, more than 110'
bites README.md "<!-- runs -->\n<!-- /runs -->\n$(printf '%0111d' 0)" 'columns, more than 110'
passes README.md "<!-- runs -->\n| $(printf '%0111d' 0) |\n<!-- /runs -->"

passes README.md 'What does a waiter see? It sees its rank.'
passes README.md "- $(printf 'word %.0s' {1..20})\n- $(printf 'word %.0s' {1..20})"
passes tests/a.c '/* the client hears of it */'
passes src/a.c 'bool robbed = rob(in_flight); /* see robber_ms */'
passes src/a.c '/* it takes over the lock; a lock that was taken over */ int x;'
passes README.md 'The member `robbed`, and a row bridge-robbed.'
passes tests/wire/a.wire '# An old client waits.'

exit $failed
