#!/bin/bash
# Each counter-example of the models has its row in traces.txt, and what the row names exists: a scenario that expects something
# (test_sim runs them all), a guard of ../guards.txt (make mutations removes it), or a unit test. "none" needs a reason.
set -u
cd "$(dirname "$0")" || exit 1
status=0
complain() {
    echo "$*"
    status=1
}

rows=$(sed -n 's/^\([a-z-]*\) | \(scenario\|guard\) \([a-z0-9_-]*\)\( | .*\)\{0,1\}$/\1 \2 \3/p
    s/^\([a-z-]*\) | \(unit\/[a-z_]*\) \([a-z_]*\)\( | .*\)\{0,1\}$/\1 \2 \3/p
    s/^\([a-z-]*\) | \(none\) | .*/\1 \2 -/p' traces.txt)
[[ -n $rows ]] || complain "traces.txt has no rows"
[[ $(grep -c . <<<"$rows") == "$(grep -c '^[^#]' traces.txt)" ]] || complain "traces.txt has a row of another form"

traces=0
for file in ../model/traces/*.txt; do
    trace=$(basename "$file" .txt)
    traces=$((traces + 1))
    [[ $(grep -c "^$trace " <<<"$rows") == 1 ]] || complain "$trace: not one row in traces.txt"
done
((traces > 20)) || complain "only $traces traces found"

# The text of a scenario, from its name to the next one's.
scenario() {
    awk -v name="    {\"$1\"," '/^    \{"/ { on = index($0, name) == 1 } /^};/ { on = 0 } on' scenarios.c
}

while read -r trace kind name; do
    [[ -e ../model/traces/$trace.txt ]] || complain "$trace: in traces.txt, but there is no such trace"
    case $kind in
    scenario)
        text=$(scenario "$name")
        [[ -n $text ]] || complain "$trace: there is no scenario $name"
        [[ $text != *NULL* ]] || complain "$trace: scenario $name expects nothing"
        ;;
    unit/*) grep -q "^TEST($name)" "../$kind.c" || complain "$trace: there is no test $name in $kind" ;;
    guard) grep -q "^$name  *|" ../guards.txt || complain "$trace: there is no guard $name" ;;
    esac
done <<<"$rows"
exit $status
