#!/bin/sh
# The rows of scripts.inc: each script's name, its text and its SHA1. A line `-- with NAME` stands for with/NAME.lua. Lines that
# are blank or only comment are left out, so a comment changes no SHA1.
#
#   rows.sh DIR FILE.lua...              TL_SCRIPT_ROW(UPPER, name, text, sha1); the texts are left in DIR/name.lua
#   rows.sh --without DIR FILE.lua...    TL_SCRIPT_WITHOUT(UPPER, guard, text, sha1), one for each guard in each script
#
# A guard is marked by the line before it: `-- without NAME: LINE` says what stands for the next line where the guard is
# removed; nothing behind the colon stands for no line at all.
set -eu
without=
if [ "$1" = --without ]; then without=1 && shift; fi
out=$1
shift
with=$(dirname "$0")/with

whole() { # file
    awk -v dir="$with" '/^-- with /{ f = dir "/" $3 ".lua"; while ((getline line < f) > 0) print line; close(f); next } 1' "$1"
}

text() { # guard that is removed, or nothing
    awk -v guard="$1" '
        guard != "" && match($0, "^[[:space:]]*-- without " guard ":") { instead = substr($0, RLENGTH + 2); replaces = 1; next }
        /^[[:space:]]*(--.*)?$/ { next }
        replaces { replaces = 0; if (instead != "") print instead; next }
        { print }'
}

row() { # macro, first arguments, file
    echo "$1($2,"
    sed 's/[\\"?]/\\&/g; s/^/    "/; s/$/\\n"/' "$3"
    echo "    , \"$(sha1sum <"$3" | cut -c1-40)\")"
}

for f; do
    if grep -Hn '^[[:space:]]*--\[=*\[' "$f"; then echo "$f: long comments are not left out: use --" >&2 && exit 1; fi
    name=$(basename "$f" .lua | tr - _)
    upper=$(echo "$name" | tr a-z A-Z)
    if [ -z "$without" ]; then
        whole "$f" | text '' >"$out/$name.lua"
        row TL_SCRIPT_ROW "$upper, $name" "$out/$name.lua"
        continue
    fi
    for guard in $(whole "$f" | sed -n 's/^[[:space:]]*-- without \([a-z0-9_]*\):.*/\1/p' | sort -u); do
        whole "$f" | text "$guard" >"$out/without.lua"
        row TL_SCRIPT_WITHOUT "$upper, $guard" "$out/without.lua"
    done
done
