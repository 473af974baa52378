#!/bin/bash
# migrate survey by Sentinels, and of a cluster: all masters are read, and one that can't be is said.
# timeout: 240
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
of() { redis-cli -p "$@" 2>/dev/null; } # port words...
says() { grep -qE -- "$1" "$out" || depth=1 fail "it lacks '$1': $(cat "$out" "$err")"; }
now_s=$(date +%s)

# ---- Sentinels: the master ----------------------------------------------------------------------------
url=$(demo sentinel 2>"$err") || fail "no set of servers: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
first=$(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$url" | head -n 1)
master=$(of "${first#*:}" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1)
of "$master" SET jobs:a $((now_s * 1000 + 3600000)) >/dev/null
expect 0 "$tidelock" migrate survey --watch 500ms --monitor 300ms
says "^survey of 127\\.0\\.0\\.1:$master$"
says '^  jobs:\*$'
says '^  tidelock migrate init --namespace default --keys .jobs:\*. --phase 1 --lease 30s$'
expect 0 "$tidelock" migrate init --keys 'jobs:*' --phase 1 --lease 1s --yes
expect 0 "$tidelock" migrate survey --watch 300ms
says '^namespace default is in phase 1 \(bridge\), keys jobs:\*$'
says '^phase 2 \(drain\) is blocked:$'
TIDELOCK_URL=redis://127.0.0.1:$(of "${first#*:}" SENTINEL SLAVES demo | grep -A 1 -x port | grep -E '^[0-9]+$' | head -n 1) \
    expect_line 69 'this is a replica.*: use its master' "$tidelock" migrate survey --watch 300ms
demo stop 2>"$err" || fail "the set isn't ended"

# ---- a cluster: all masters -----------------------------------------------------------------------------
url=$(demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
mapfile -t port < <(ports_of "$url")
find_masters() { # one that was lost before they were kept may still believe that it is one
    masters=()
    for p in "${port[@]}"; do if [[ $(of "$p" ROLE | head -n 1) == master ]]; then masters+=("$p"); fi; done
    ((${#masters[@]} == 3))
}
until_true 20 find_masters || fail "not three masters: ${masters[*]}"
for i in {1..30}; do of "${masters[0]}" -c SET "jobs:n$i" $((now_s * 1000 + 3600000)) >/dev/null; done
for p in "${masters[@]}"; do (($(of "$p" DBSIZE) > 0)) || fail "the keys are not on all masters"; done
expect 0 "$tidelock" migrate survey --watch 1s --monitor 200ms
says '^survey of a cluster, 3 masters$'
says '^  read all 30 keys in .*; MONITOR for .* in all, at one master after the other$'
says '^    30 stamps without a sidecar, 0 expired'
says 'see RUNBOOK.md, "In a Redis Cluster"'
says '^namespace default is not registered; it could begin, by what was seen, in$'
says '^  16384 of 16384 slots without a register, which write stamps$'
says '^phase 1 \(bridge\): nothing blocks it$'
says '^phase 2 \(drain\) is blocked:$'
says '^  tidelock migrate init --namespace default --keys .jobs:\*. --phase 1$'
says "^  tidelock run --protocol auto --namespace 'jobs:\*=default' --clock-skew-max 1s --legacy-delay-max 500ms --legacy-ttl-min 60s KEY -- COMMAND$"
expect 0 "$tidelock" migrate survey --watch 1s --json
"$python" - "$out" <<'PY' || fail "--json: $(cat "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert (d["server"], d["masters"], d["keys_all"], d["all_keys"], d["not_read"], d["registered"]) == ("a cluster", 3, 30, True, [], False), d
assert [(p["pattern"], p["stamps"]) for p in d["patterns"]] == [("jobs:*", 30)] and d["patterns"][0]["run"], d
assert d["patterns"][0]["init"].endswith("--keys 'jobs:*' --phase 1"), d
assert d["slots"]["absent"] == 16384 and [(p["phase"], len(p["blockers"]) > 0) for p in d["phases"]] == [(0, False), (1, False), (2, True), (3, True)], d
assert d["connections"] > 0, d
PY

# Its registers: the line that was printed makes them. Then their phase, what blocks a step, and a node that denies them.
init=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["patterns"][0]["init"])' "$out")
expect 0 sh -c "exec \"$tidelock\" ${init#tidelock} --yes"
expect 0 "$tidelock" migrate survey # without --watch it reads all keys, which the registers are, too
says '^namespace default is in phase 1 \(bridge\), keys jobs:\*$'
says '^  16384 of 16384 slots in phase 1 \(bridge\); last written '
says '^phase 2 \(drain\) is blocked:$'
says '30 stamps stand without a sidecar'
says '^  tidelock migrate status --namespace default$'
! grep -q 'migrate init' "$out" || fail "a line that is refused: $(cat "$out")"
of "${masters[1]}" ACL SETUSER default resetkeys '~jobs:*' '~tidelock:{*' '~tidelock:phase:[{c]*' >/dev/null
expect 0 "$tidelock" migrate survey --keys "jobs:*" --watch 1s
says '^  not read: the registers of 546[12] slots$'
says "registers can't be read there: .*(permissions|NOPERM)"
says "who:  127.0.0.1:${masters[1]}$"
of "${masters[1]}" ACL SETUSER default '~*' >/dev/null
for p in "${masters[@]}"; do of "$p" ACL SETUSER default -eval >/dev/null; done
expect 0 "$tidelock" migrate survey --watch 1s
says '^  not read: the registers of namespace default$'
says '^whether namespace default is registered is not known$'
! grep -q 'migrate init' "$out" || fail "it may be registered: $(cat "$out")"
grep -q 'migrate: .*eval' "$err" || fail "it isn't said what is denied: $(cat "$err")"
for p in "${masters[@]}"; do of "$p" ACL SETUSER default +eval >/dev/null; done

# A master that doesn't answer: it is named, what was seen is shown, and the status is no success. The first survey ends after
# some 100 keys, before it comes to that master's.
pid=$(of "${masters[2]}" INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
kill -STOP "$pid" || fail "${masters[2]} has no pid: '$pid'"
expect 69 "$tidelock" migrate survey --watch 100ms --rate 1000
says "^  not read: a master, and all of its keys and clients: .*${masters[2]}"
expect_from 69 "$tidelock" migrate survey --watch 60s # the second ends when it comes to it
kill -CONT "$pid"
says '^survey of a cluster, 2 masters$'
says "^  not read: a master, and all of its keys and clients: .*${masters[2]}"
says '^  not read: the rest of the keys: '
says '^  not read: all keys; give more time'
demo stop 2>"$err" || fail "the cluster isn't ended"
