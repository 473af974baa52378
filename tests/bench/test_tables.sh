#!/bin/bash
# The tables and pictures of speed are what the generator prints from the recorded run, and it judges goals as they are meant.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/../cli/lib.sh"
tables() { "$python" "$here/tests/bench/tables.py" "$@"; }

tables check >"$out" || {
    cat "$out"
    fail "RESULTS.md or a picture was written by hand: make bench-readme prints them"
}

# A picture is XML, fetches nothing, runs nothing, and its text is text.
for picture in "$here"/tests/bench/*.svg; do
    "$python" -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$picture" 2>"$err" || fail "$picture is no XML"
    sed 's/ xmlns="[^"]*"//' "$picture" | grep -nE 'href|url\(|@import|@font-face|<(script|image|path|foreignObject)' >"$out" &&
        fail "$picture: $(head -n 1 "$out")"
    grep -q 'prefers-color-scheme: dark' "$picture" || fail "$picture has no dark mode"
done

# Every kind of goal, met and missed.
line() { # unit, ours, ratio or '', part or '', least, goal
    printf '{"row":"r","regime":"one","what":"w","unit":"%s","ours":%s,%s%s"least":%s,"most":9,"rounds":5,"goal":"%s"}' \
        "$1" "$2" "${3:+\"ratio\":$3,}" "${4:+\"part\":$4,}" "$5" "$6"
}
judge() { # lines
    local IFS=,
    printf '{"lines":[%s]}' "$*" >"$work/run.json"
    tables judge "$work/run.json" >"$out" 2>"$err"
}
lines=() expected=()
expect() { # words, then what makes the line
    expected+=("$1")
    lines+=("$(line "${@:2}")")
}
expect 'met 0.86 (>= 0.85)' /s 100 0.86 0.5 0.8 '>= 0.85'
expect 'missed **0.84** (>= 0.85)' /s 100 0.84 0.99 0.8 '>= 0.85'
expect 'met 1.1 (<= 1.1)' us 5 1.1 '' 1 '<= 1.1'
expect 'met 1 (<= 1.03)' 'round trips' 1 '' '' 1 '<= 1.03'
expect 'missed **1.04** (<= 1.03)' 'round trips' 1.04 '' '' 1 '<= 1.03'
expect 'missed **0.6 us** (<= 0.5)' us 0.6 0.1 '' 0.1 '<= 0.5 us'
expect 'met 25 ns (<= 30)' 'ns CPU' 25 31 '' 30 '<= 30 ns'
expect 'met 0.96 of the limit (>= 0.95)' /s 9 3 0.96 1 '>= 0.95 of the limit'
expect 'missed 1.3 (>= 1.2), **0.94 of the limit** (>= 0.95)' /s 9 1.3 0.94 1 '>= 1.2, >= 0.95 of the limit'
expect 'missed 1.2 (>= 1.15), **0.99 at least** (>= 1.00)' /s 9 1.2 '' 0.99 '>= 1.15, never below 1.00'
expect 'met 2 (2)' counted 2 1 '' 1 2
expect 'missed **2.005** (2)' counted 2.005 1 '' 1 2
expect 'missed **1** (> 1)' /s 7 1 '' 1 '> 1'

judge "${lines[@]}" || fail "not judged"
diff "$out" <(printf '%s\n' "${expected[@]}") || fail "judged otherwise than meant"

# What can't be judged is no goal that counts as met.
for goal in 'fast' '<= 3 + 2 round trips' '<= 30 ms'; do
    ! judge "$(line us 1 1 '' 1 "$goal")" || fail "judged: '$goal'"
    grep -qF "'$goal'" "$err" || fail "not named: '$goal'"
done

# A part of the rows is not recorded.
echo '{"complete": false, "lines": []}' >"$work/part.json"
if tables record "$work/part.json" 2>"$err"; then fail "a part was recorded"; fi
grep -q 'has a part of the rows' "$err" || fail "it doesn't say why"

# Nor is one that was ended before it could write.
: >"$work/cut.json"
if tables record "$work/cut.json" 2>"$err"; then fail "nothing was recorded"; fi
grep -q 'holds no whole run' "$err" || fail "it doesn't say why"
