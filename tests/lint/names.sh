#!/bin/bash
# Names in backticks that are gone: each finding is one line "file:line: `name`: ...". A page (*.md) and the table of guards may
# name a function `f()`, a test `unit/test_x`, a file `wire/script.h` (by the end of its path), and any name with a `_` in it: it
# must be in the sources, or be a file. Usage: tests/lint/names.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1

files() { # all but what is built
    if [[ -e .git ]]; then git ls-files; else find . -type f | sed 's|^\./||'; fi
}
pages() { files | grep -E '\.md$' | grep -v '/CHANGELOG.md$'; } # which tells what is gone

# Every word of the sources with a `_`, every path, and every end of a path, with and without its last extension.
known() {
    files | grep -vE '\.md$' | tr '\n' '\0' | xargs -0 grep -ohIE '[A-Za-z0-9_]*[A-Za-z0-9]_[A-Za-z0-9_]*' --
    files | awk '{
        n = split($0, part, "/")
        for (i = 1; i <= n; i++) {
            path = ""
            for (k = i; k <= n; k++) { path = path part[k]; print path; bare = path; sub(/\.[a-z]+$/, "", bare); print bare; path = path "/" }
        }
    }'
}

# file:line:name of each that is named: of functions without the brackets.
named() {
    pages | tr '\n' '\0' | xargs -0 awk '
        FNR == 1 { fence = 0 }
        /^```/ { fence = !fence; next }
        fence { next }
        {
            line = $0
            while (match(line, /`[^`]*`/)) {
                name = substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH)
                called = sub(/\(\)$/, "", name)
                # What is more than one name, a pattern, a path of a machine, an option or a key is not looked at.
                if (name !~ /^[A-Za-z0-9_.\/]+$/ || name ~ /^[\/.]/ || name ~ /[._]$/) continue
                if (name ~ /NAME/ || name ~ /^build\//) continue # a place for a name; what is made
                if (called || name ~ /[A-Za-z0-9]_[A-Za-z0-9]/ || name ~ /^[a-z_]+\/[a-z_\/.]*[a-z]$/ || name ~ /\.(c|h|hpp|sh|lua|wire|py|scd)$/)
                    print FILENAME ":" FNR ":" (called ? "()" : "") name
            }
        }' /dev/null
}

words=$(mktemp) || exit 1
trap 'rm -f "$words"' EXIT
known | sort -u >"$words"
# A function or a member need not have a `_` in it.
files | grep -E '\.(c|h|hpp|lua|sh|py)$' | tr '\n' '\0' | xargs -0 grep -ohE '\b[A-Za-z][A-Za-z0-9_]* ?\(' -- | tr -d ' (' |
    sed 's/^/()/' | sort -u >>"$words"
files | grep -E '\.[ch]$' | tr '\n' '\0' | xargs -0 grep -ohE '[.>][a-z][a-z0-9_]*' -- | sed 's/^./m:/' | sort -u >>"$words"
found=$(named | awk -v words="$words" '
    BEGIN {
        while ((getline line < words) > 0) known[line] = 1
    }
    {
        split($0, at, ":"); name = substr($0, length(at[1]) + length(at[2]) + 3)
        plain = name; sub(/^\(\)/, "", plain)
        member = plain ~ /^[a-z_]+\.[a-z_]+$/ && split(plain, part, ".") == 2 && part[1] in known && ("m:" part[2]) in known
        if (!(name in known) && !(plain ~ /_/ && plain in known) && !member)
            print at[1] ":" at[2] ": `" plain "`: no such " (name ~ /^\(\)/ ? "function" : "name or file") " in the sources"
    }')
[[ -z $found ]] || { echo "$found"; exit 1; }
