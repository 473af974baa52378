#!/bin/bash
# agent: a clock that is set between two rounds, and one that runs wrong. The truth is inside, or it isn't called ok.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
# A sanitizer wants to be first in a process.
if [[ -n ${SAN:-} ]]; then echo "a preloaded clock and sanitizers don't go together" && exit 77; fi
start_server
"${CC:-cc}" -D_GNU_SOURCE -O1 -fPIC -shared "$here/tests/cli/odd_clock.c" -o "$work/odd_clock.so" || fail "it isn't built"
shift_by() { # us
    "$python" -c 'import os, struct, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
os.write(fd, struct.pack("<q", int(sys.argv[2])))' "$work/shift" "$1"
}
odd() { # name, options of the agent -- its environment; the agent's pid comes into $pid
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    { env LD_PRELOAD="$work/odd_clock.so" "$@" "$tidelock" agent -v --name "$name" "${options[@]}" & } 2>"$work/$name.err"
    pid=$!
}
rounds() { (($(grep -c ' us from the server' "$work/$1.err") >= $2)); }
end_agents() {
    kill "$@"
    wait "$@" 2>/dev/null
}
# The hosts of a look, one a line: name, status, lowest and highest of the offset in ms.
look() {
    "$tidelock" skew --slack 200ms --json >"$out" 2>"$err"
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print("verdict", d["verdict"])
for h in d["hosts"]:
    o = h["offset_ms"] or {"lo": "-", "hi": "-"}
    print(h["name"], h["status"], o["lo"], o["hi"])' "$out" >"$work/looked"
}
word() { awk -v n="$1" -v c="$2" '$1 == n { print $c }' "$work/looked"; }

# ---- the clock is set between two rounds ----------------------------------------------------------------
# A round comes every ten minutes: what is seen is seen for another reason.
mkfifo "$work/news"
shift_by 0
odd told --every 10m -- ODD_CLOCK_SHIFT="$work/shift" ODD_CLOCK_NEWS="$work/news"
a=$pid
odd untold --every 10m -- ODD_CLOCK_SHIFT="$work/shift"
b=$pid
steady() { look && [[ $(word verdict 2) == SAFE && $(word told 2) == ok && $(word untold 2) == ok ]] && rounds told 3 && rounds untold 3; }
until_true 20 steady || fail "before: $(cat "$work/looked" "$work"/*told.err)"
# The kernel's word alone is a reason to measure.
before=$(grep -c ' us from the server' "$work/told.err")
printf x >"$work/news"
until_true 20 rounds told $((before + 1)) || fail "the kernel's word is not heard: $(cat "$work/told.err")"
kill -STOP $b
shift_by 350000
printf x >"$work/news"
# Of the step 350 ms are seen, and as much again may follow, with what a slow answer leaves open.
counts() { look && "$python" -c 'import sys; sys.exit(not (float(sys.argv[2]) <= 0 and 690 <= float(sys.argv[3]) <= 5000))' x "$(word "$1" 3)" "$(word "$1" 4)"; }
until_true 20 counts told || fail "the step doesn't count: $(cat "$work/looked" "$work/told.err")"
[[ $(word verdict 2) == WARN ]] || fail "the verdict: $(cat "$work/looked")"
kill -CONT $b # the kernel tells it nothing: it looks by itself
until_true 20 counts untold || fail "a step is not seen: $(cat "$work/looked" "$work/untold.err")"
end_agents $a $b
for name in told untold; do expect 0 "$tidelock" agent --forget "$name"; done

# A step that is unseen where a clock was set before: its agent is stopped, so that it can't tell.
shift_by 0
odd again --every 10m -- ODD_CLOCK_SHIFT="$work/shift"
a=$pid
until_true 20 rounds again 3 || fail "no rounds: $(cat "$work/again.err")"
shift_by -350000
counts_again() { look && "$python" -c 'import sys; sys.exit(not float(sys.argv[1]) <= -690)' "$(word again 3)"; }
until_true 20 counts_again || fail "the step: $(cat "$work/looked")"
kill -STOP $a
shift_by 0
look
"$python" -c 'import sys; sys.exit(not float(sys.argv[1]) <= 0 <= float(sys.argv[2]))' "$(word again 3)" "$(word again 4)" ||
    fail "the truth is outside: $(cat "$work/looked")"
[[ $(word verdict 2) == WARN ]] || fail "the verdict: $(cat "$work/looked")"
kill -CONT $a
end_agents $a
expect 0 "$tidelock" agent --forget again

# What is measured now of this host counts its own agent's word: the clock is set to and fro.
me=$("$python" -c 'import re, socket; print(re.sub("[^A-Za-z0-9._:-]", "_", socket.gethostname())[:64])')
odd "$me" --every 10m -- ODD_CLOCK_SHIFT="$work/shift"
a=$pid
until_true 20 rounds "$me" 3 || fail "no rounds: $(cat "$work/$me.err")"
shift_by -350000
there() { [[ $(redis GET "{tidelock:agents}:$me" | cut -d' ' -f11) == "$1" ]]; }
until_true 20 there 1 || fail "the step is not seen"
shift_by 0
until_true 20 there 2 || fail "the second step is not seen"
expect 1 "$tidelock" skew --slack 200ms --json
look
"$python" -c 'import sys; sys.exit(not (float(sys.argv[1]) <= -349 and 349 <= float(sys.argv[2])))' "$(word "$me" 3)" "$(word "$me" 4)" ||
    fail "its agent's word doesn't count: $(cat "$work/looked")"
end_agents $a
expect 0 "$tidelock" agent --forget "$me"

# ---- clocks that run wrong ------------------------------------------------------------------------------------
odd slow --every 500ms -- ODD_CLOCK_PPM=-20000 ODD_CLOCK_ALL=1
a=$pid
odd fast --every 1s -- ODD_CLOCK_PPM=83000 ODD_CLOCK_ALL=1
b=$pid
odd wall --every 1s -- ODD_CLOCK_PPM=10000
c=$pid
unsteady() { look && [[ $(word slow 2) == unsteady && $(word fast 2) == unsteady && $(word wall 2) == unsteady ]]; }
until_true 120 unsteady || fail "not seen: $(cat "$work/looked" "$work"/{slow,fast,wall}.err)"
# While none of them is late, or it would be missing.
is_told() {
    "$tidelock" skew --slack 55s >"$out" 2>"$err"
    [[ $? == 1 ]] && grep -q '^WARN: nothing can be promised about .*: its clock runs wrong, ' "$out" &&
        grep -qE '^slow .* agent: its clock runs wrong' "$out"
}
until_true 60 is_told || fail "the reason, the row: $(cat "$out")"
for name in slow fast wall; do grep -q 'runs wrong' "$work/$name.err" || fail "$name's agent says nothing"; done
end_agents $a $b $c
exit 0
