#!/bin/bash
# compat/RUNBOOK.md: its lines, pasted one after the other into a shell as they stand there (but for the server and for how
# long they wait), lead services that hold locks from the first C service to tokens, and back, without a refusal.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
ln -s "$tidelock" "$work/bin/tidelock"

"$python" - "$here/compat" "$work" "$TIDELOCK_URL" <<'PY' || fail "no commands in the runbook"
import re, sys
guide, work, url = sys.argv[1:]
def lines(text):
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.S | re.M)
    return [line.strip() for block in blocks for line in block.splitlines()]
there, back = open(guide + "/RUNBOOK.md").read().split("\n## The way back\n")
there, end = there.split("\n## 6. The end\n")
back, cluster = back.split("\n## In a Redis Cluster\n")
settings = {"export TIDELOCK_URL=": url, "WATCH=": "1s", "LEASE=": "1s"}
def ours(line):
    for name, value in settings.items():
        line = name + value if line.startswith(name) else line
    return line
for name, text in (("there", there), ("end", end), ("back", back), ("cluster", cluster)):
    open("%s/%s" % (work, name), "w").write("".join(ours(l) + "\n" for l in lines(text)))
assert len(lines(there)) >= 14 and len(lines(end)) >= 2 and len(lines(back)) >= 2 and len(lines(cluster)) >= 4
# what the reader is told to set is there to be set, and what is used has been set
assert {n.split()[-1] for n in settings} <= {l.split("=")[0].split()[-1] + "=" for l in lines(there)[:6]}
PY

# Services that follow the phase: one acquires its lock again and again, one keeps it, one was killed, and some have ended
# before there was a register. Java has crashed.
export socket register
auto=(--protocol auto --namespace 'jobs:*=default' --clock-skew-max 300ms --legacy-delay-max 100ms --legacy-ttl-min 5s -t 3s)
"$tidelock" run "${auto[@]}" --forever jobs:mine -- sh -c "redis-cli -s '$socket' GET jobs:mine >>'$work/held'; sleep 1.5" 2>"$work/service" &
service=$!
"$tidelock" run "${auto[@]}" jobs:long -- sleep 1000 2>"$work/long.err" &
long=$!
wait_file "$work/held" 20
until_true 20 is_held jobs:long || fail "the second service has no lock"
for _ in 1 2 3; do expect 0 "$tidelock" run "${auto[@]}" jobs:short -- true; done
redis SETNX jobs:old $(($(server_ms) - 600000)) >/dev/null
kill_one() { # once there is a register: before, its lease is 30 s
    "$tidelock" run "${auto[@]}" jobs:dead -- sleep 1000 &
    dead=$!
    until_true 20 is_held jobs:dead || fail "the third service has no lock"
    kill -KILL $dead
    wait $dead 2>/dev/null
    redis DEL jobs:dead >/dev/null
}

# As a person would: into one shell, whose variables stay, each line only when the one before has succeeded.
phases=
paste_lines() { # file
    local line
    while IFS= read -r line; do
        eval "$line" >"$out" 2>"$err" </dev/null || fail "${1##*/}: status $?: $line: $(cat "$out")"
        ! grep -q 'refused' "$err" || fail "${1##*/}: refused: $line"
        phases+="$(redis HGET "$register" phase) "
        if [[ $line == "tidelock migrate init"* ]]; then kill_one; fi
        ! gone $service && ! gone $long || fail "$line: a service has ended: $(cat "$work/service" "$work/long.err")"
    done <"$1"
}
tokens() { tail -n 1 "$work/held" | grep -qE '^[0-9a-f]{8}-[0-9a-f-]{27}$'; }
stamps() { tail -n 1 "$work/held" | grep -q '^[0-9]\{13\}$'; }
paste_lines "$work/there"
[[ $phases =~ ^\ *(1\ )+2\ 3\ $ ]] || fail "phases: '$phases'"
is_free jobs:old || fail "what Java left is still there"
grep -q '^[0-9]\{13\}$' "$work/held" || fail "no stamp ever: $(cat "$work/held")"
until_true 20 tokens || fail "no token: $(tail -n 3 "$work/held")"
kill $long # its token would be waited for
wait $long 2>/dev/null
long=$service
phases=
paste_lines "$work/back"
[[ $phases == "2 1 " ]] || fail "the way back: '$phases'"
grep -q 'no token is left: Java may start' "$out" || fail "nobody says when Java may start: $(cat "$out")"
until_true 20 stamps || fail "no stamp: $(tail -n 3 "$work/held")"

# All of it again, to the end.
phases=
paste_lines "$work/there"
paste_lines "$work/end"
[[ $phases =~ ^(1\ )+2\ 3\ 3\ 3\ $ ]] || fail "again: '$phases'"
kill $service
wait_for $service 20

# A cluster, whose Java services are stopped first.
url=$(TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
node=${url##*:}
redis-cli -c -p "$node" SET jobs:old $(($(server_ms) - 600000)) >/dev/null
while IFS= read -r line; do
    line=${line/"TIDELOCK_URL=$TIDELOCK_URL"/TIDELOCK_URL=$url}
    eval "$line" >"$out" 2>"$err" </dev/null || fail "cluster: status $?: $line: $(cat "$out")"
done <"$work/cluster"
grep -q '^1 removed, 0 free, 0 held$' "$out" || fail "not swept: $(cat "$out")"
[[ $(redis-cli -c -p "$node" EXISTS jobs:old) == 0 ]] || fail "what Java left in the cluster is still there"
TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo stop 2>"$err" || fail "the cluster isn't ended"
