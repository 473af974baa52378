#!/bin/bash
# migrate: what it is told wrongly, how a namespace begins, and what is shown of it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server

# ---- wrong usage ------------------------------------------------------------------------------------
expect_line 64 'init\|.* is missing' migrate
expect_line 64 'unknown argument forward: say survey, init, status, advance' migrate forward
expect_line 64 'too many arguments' migrate status now
expect_line 64 'PATTERN is missing' migrate init --yes
expect_line 64 '1 to 512 bytes' migrate init --yes --keys ''
expect_line 64 "the pattern has a '\[' without '\]'" migrate init --yes --keys 'jobs:[a'
expect_line 64 '--namespace: 1 to 64' migrate status --namespace ''
expect_line 64 '--namespace: 1 to 64' migrate status --namespace 'a b'
expect_line 64 '--namespace: 1 to 64' migrate status --namespace "$(printf '%065d' 7)"
expect_line 64 '--lease: 1s to 10m' migrate init --yes --keys x --lease 999ms
expect_line 64 '--lease: 1s to 10m' migrate init --yes --keys x --lease 601s
expect_line 64 '--phase' migrate init --yes --keys x --phase 4
expect_line 64 'say seconds' migrate init --yes --keys x --lease 30
expect_line 64 '--keys is for init, survey, and sweep of a cluster' migrate status --keys x
expect_line 64 '--phase is for init, advance and rollback' migrate sweep --phase 1
expect_line 64 '--watch is for advance and survey' migrate rollback --yes --watch 1s
expect_line 64 'with --watch 0s it doesn.t look for legacy clients.*: add --force' migrate advance --yes --watch 0s
expect_line 64 '--force requires --watch 0s' migrate advance --yes --watch 1s --force
expect_line 64 '--force is for advance' migrate rollback --yes --force
expect_line 64 '--wait is for advance and rollback' migrate status --wait 1s
expect_line 64 '31d at most' migrate rollback --yes --wait 32d
expect_line 64 '--yes is for init, advance and rollback' migrate sweep --yes
expect_line 64 '--dry-run is for sweep' migrate status --dry-run
expect_line 64 '--history is for status' migrate clients --history
expect_line 64 '--again is for init' migrate advance --yes --again
expect_line 64 '--json is for status, clients, survey and sweep' migrate advance --yes --json
for word in advance rollback 'init --keys x'; do
    # shellcheck disable=SC2086
    expect_line 64 "no terminal to ask on: confirm with --yes" migrate $word
done
[[ $(redis DBSIZE) == 0 ]] || fail "wrong usage has left something: $(redis KEYS '*')"

# ---- without a register -----------------------------------------------------------------------------
expect 0 migrate status
grep -q '^namespace default: not registered$' "$out" || fail "status: $(cat "$out")"
expect 0 migrate status --json
json_has "$out" registered False
json_has "$out" phase None
expect 0 migrate clients
grep -qx 'no clients have registered' "$out" || fail "clients: $(cat "$out")"
expect_refused 'it is not registered: namespace default: tidelock migrate init --namespace default' migrate advance --yes
expect_refused 'it is not registered: namespace n: ' migrate rollback --yes --namespace n
expect_refused 'not registered' migrate sweep

# ---- init -------------------------------------------------------------------------------------------
expect 0 migrate init --keys 'jobs:*' --phase 0 --yes
grep -qx 'namespace default: phase 0 (timestamp), epoch 1' "$out" || fail "init: $(cat "$out")"
in_phase 0 1
[[ $(redis HMGET "$register" keys lease_ms | tr '\n' ' ') == 'jobs:* 30000 ' ]] || fail "register: $(redis HGETALL "$register")"
[[ $(redis HGET "$register" by) =~ ^$(uname -n)\ [0-9]+\ $(id -un)$ ]] || fail "by: $(redis HGET "$register" by)"
(($(server_us) - $(redis HGET "$register" since) < 600000000)) || fail "since: $(redis HGET "$register" since)"
for same in '' '--phase 0' '--lease 30s'; do # as it is
    # shellcheck disable=SC2086
    expect 0 migrate init --keys 'jobs:*' --yes $same
    grep -q 'registered already: phase 0 (timestamp), epoch 1' "$out" || fail "again: $(cat "$out")"
done
for other in '--keys jobs:*x' '--keys jobs:* --phase 1' '--keys jobs:* --lease 31s'; do
    # shellcheck disable=SC2086
    expect_refused 'registered differently by .*phase 0, keys jobs:\*, lease 30.0 s' migrate init --yes $other
done
in_phase 0 1
# Other keys while nobody writes tokens, and another phase only where writes have been lost.
expect 0 migrate init --again --keys 'jobs:*' --yes
grep -q 'registered already: phase 0 (timestamp), epoch 1' "$out" || fail "again: $(cat "$out")"
expect 0 migrate init --again --keys 'jobs:[ab]*' --yes
in_phase 0 2
[[ $(redis HMGET "$register" keys lease_ms | tr '\n' ' ') == 'jobs:[ab]* 30000 ' ]] || fail "keys: $(redis HGETALL "$register")"
expect_refused 'is in phase 0, and no client knows a later epoch than its 2' migrate init --again --keys 'jobs:*' --phase 1 --yes
expect_refused 'registered differently' migrate init --again --keys 'jobs:*' --lease 31s --yes
set_phase 2 2
expect_refused 'keys of namespace default can change in phase 0 and 1 only, .*: they are jobs:\[ab\]\*' migrate init --again --keys 'jobs:*' --yes
client one 9 1 600
expect_refused 'can change in phase 0 and 1 only' migrate init --again --keys 'jobs:*' --phase 1 --yes
set_phase 3 2
expect_refused 'may act in phase 3 of namespace default, which is no neighbour of 1' migrate init --again --keys 'jobs:[ab]*' --phase 1 --yes
no_clients
set_phase 0 1
redis HSET "$register" keys 'jobs:*' >/dev/null
expect 0 migrate init --namespace two.b_c-D --keys '{x}*' --lease 10m --phase 1 --yes
register='tidelock:phase:{two.b_c-D}' in_phase 1 1

expect_line 64 '--phase N is missing: 1 \(bridge\) while legacy clients run' migrate init --namespace three --keys 'x*' --yes
[[ $(redis EXISTS 'tidelock:phase:{three}') == 0 ]] || fail "a phase that nobody asked for"

# A name that fits the keys of two namespaces would follow two phases.
expect 0 migrate init --namespace four --keys 'jobs:c*' --phase 1 --yes
grep -q '^tidelock: migrate init: note: some name may fit both jobs:c\* and jobs:\*, the keys of namespace default in phase 0 (timestamp)' \
    "$err" || fail "keys in common: $(cat "$err")"
[[ $(wc -l <"$err") == 1 ]] || fail "namespaces apart from it are named: $(cat "$err")"
redis DEL 'tidelock:phase:{four}' >/dev/null
expect 0 migrate init --namespace four --keys 'cron:*' --phase 1 --yes
[[ ! -s $err ]] || fail "namespaces that are apart: $(cat "$err")"

# Two at once: one makes it, the other finds it.
for i in {1..5}; do
    { migrate init --namespace "both$i" --keys a --phase 0 --yes & } >"$work/a" 2>&1
    a=$!
    { migrate init --namespace "both$i" --keys b --phase 0 --yes & } >"$work/b" 2>&1
    b=$!
    wait_for $a 30
    first=$status
    wait_for $b 30
    [[ "$first $status" == "0 77" || "$first $status" == "77 0" ]] || fail "two at once: $first, $status: $(cat "$work/a" "$work/b")"
    kept=$(redis HGET "tidelock:phase:{both$i}" keys)
    [[ $first == 0 && $kept == a || $first == 77 && $kept == b ]] || fail "the loser's keys are there: $kept"
    [[ $(redis LLEN "tidelock:phase:{both$i}:log") == 1 ]] || fail "both are in the history"
done

# Clients that have found no register act by their fallback: only a neighbour may be begun in.
redis FLUSHALL >/dev/null
client one 0 1 600 'billing batch'
expect_refused 'acts in phase 1 \(bridge\), which is no neighbour of 3 \(token\): billing batch on db1 \(pid 4711\), seen .* ago: begin in phase 1' \
    migrate init --keys 'jobs:*' --yes --phase 3 --lease 1s
[[ $(redis EXISTS "$register") == 0 ]] || fail "refused, and made all the same"
client two 0 0 600
expect_refused 'acts in phase 0 .*nightly on db1' migrate init --keys 'jobs:*' --yes --phase 2 --lease 1s
redis HDEL "$register:clients" two >/dev/null
# It waits until that client has read the register, or can't act any more by not having done so.
client one 0 1 600
began=$(now_ms)
expect 0 migrate init --keys 'jobs:*' --yes --phase 1 --lease 1s
(($(now_ms) - began >= 1000)) || fail "it hasn't waited for the lease: $(($(now_ms) - began)) ms"
in_phase 1 1
redis DEL "$register" "$register:log" >/dev/null
client one 0 1 600
redis HSET "$register:clients" long "0 1 600000 $(server_us) 0.1.0 db2 1 slow" >/dev/null
{ migrate init --keys 'jobs:*' --yes --phase 1 --lease 1s & } >"$work/init" 2>&1
init=$!
until_true 10 is_held "$register" || fail "no register: $(cat "$work/init")"
redis HSET "$register:clients" long "1 1 600000 $(server_us) 0.1.0 db2 1 slow" >/dev/null
client one 1 1 600
wait_for $init 30
[[ $status == 0 ]] || fail "init: $status: $(cat "$work/init")"

# A register that has vanished: no client accepts a lower epoch than it has seen.
redis DEL "$register" >/dev/null
client one 7 1 600
redis HDEL "$register:clients" long >/dev/null
expect 0 migrate init --keys 'jobs:*' --yes --phase 1 --lease 1s
in_phase 1 8
# One that can't be read is doubt.
redis DEL "$register" >/dev/null
redis HSET "$register:clients" odd "nonsense" >/dev/null
expect_refused "can't be read: 'nonsense': client odd: end it, then: HDEL tidelock:phase:\{default\}:clients odd" \
    migrate init --keys 'jobs:*' --yes --phase 1

# What a phase can't live beside keeps it from being begun in.
no_clients
stamp jobs:a 3600000
expect_refused '1 stamp stands without a sidecar.*jobs:a \(ends in' migrate init --keys 'jobs:*' --yes --phase 2
expect_refused '1 stamp stands without a sidecar' migrate init --keys 'jobs:*' --yes --phase 3
redis SET jobs:a 01234567-89ab-4def-8123-456789abcdef PX 3600000 >/dev/null
expect_refused '1 key holds still a token, at which Java fails: jobs:a' migrate init --keys 'jobs:*' --phase 0 --yes
expect 0 migrate init --keys 'jobs:*' --yes --phase 3 --lease 1s

# ---- what is shown ------------------------------------------------------------------------------------
client one 1 3 600
client late 0 1 600 'import sh'
client dead 1 3 -1
client other 1 3 600 $'any\t*'
redis HSET "$register:clients" odd $'1 3 \e[31m' >/dev/null
expect 0 migrate clients
for want in 'confirmed +nightly on db1 \(pid 4711\): epoch 1, phase 3 \(token\), seen .* ago, version 0\.1\.0' \
    "behind +import sh on db1" 'gone +nightly' "unreadable +client odd: '1 3 \?\[31m'"; do
    grep -qE "^  $want" "$out" || fail "clients: no '$want': $(cat "$out")"
done
! grep -q $'\e' "$out" || fail "a terminal is told what to do"
grep -qE "confirmed +any on db1 .*, version 0\.1\.0, keys '\*'$" "$out" || fail "clients: no pattern: $(cat "$out")"
expect 0 migrate status
grep -qE "^  note: 1 client may acquire locks of other names than jobs:\* as well, .*\(any on db1 \(pid 4711\): '\*'\).*: 'jobs:\*=default'$" "$out" ||
    fail "status says nothing of other names: $(cat "$out")"
keys=$(redis HGET "$register" keys)
redis HSET "$register" keys $'jobs:\e]0;x\a*' >/dev/null
redis RPUSH "$register:log" "$(redis LINDEX "$register:log" -1 | sed 's/"by":"/&\\u009b2J/')" >/dev/null
expect 0 migrate status --history
grep -q 'locks of other names than jobs:?.0;x?\* as well' "$out" || fail "status: $(cat "$out")"
grep -q ', by ?2J' "$out" || fail "the history: $(cat "$out")"
! grep -q $'[\e\a]\|\xc2\x9b' "$out" || fail "a terminal is told what to do: $(cat -v "$out")"
redis RPOP "$register:log" >/dev/null
redis HSET "$register" keys "$keys" >/dev/null
redis HSET "$register:clients" other "$(redis HGET "$register:clients" other | sed 's/[*]$/jobs:*/')" >/dev/null
expect 0 migrate status
! grep -q 'note:' "$out" || fail "the same pattern: $(cat "$out")"
redis HDEL "$register:clients" other >/dev/null
# What is alike is one line of status, and one refusal.
for i in {1..30}; do
    redis HSET "$register:clients" "many$i" "0 1 1000 $(($(server_us) + 600000000)) 0.1.0 db$((i % 5)) $i many" >/dev/null
done
expect 0 migrate status
grep -qE "^  behind +30 clients of many on db[0-4], db[0-4], db[0-4] and others: epoch 0, phase 1 \(bridge\), seen" "$out" ||
    fail "status: no group: $(cat "$out")"
(($(grep -c many "$out") == 2)) || fail "status: more than a group, and a step: $(cat "$out")"
expect_refused '^tidelock: migrate rollback: refused: 3[01] clients have not read the register yet, and act in phase 1 .* and [0-9]+ more: wait' migrate rollback --yes
for i in {1..30}; do redis HDEL "$register:clients" "many$i" >/dev/null; done
expect 0 migrate clients --json
"$python" - "$out" <<'PY' || fail "clients --json: $(cat "$out")"
import json, sys
c = {c["id"]: c for c in json.load(open(sys.argv[1]))}
assert {k: v["state"] for k, v in c.items()} == {"one": "confirmed", "late": "behind", "dead": "gone", "odd": "unreadable"}, c
assert list(c["one"]) == ["id", "state", "host", "pid", "service", "version", "keys", "epoch", "phase", "lease_ms", "seen_ms"], c
assert (c["late"]["service"], c["late"]["pid"], c["late"]["epoch"], c["late"]["lease_ms"]) == ("import sh", 4711, 0, 1000), c
assert c["odd"]["epoch"] is None and c["odd"]["host"] is None, c
PY
expect 0 migrate status --json --history
"$python" - "$out" <<'PY' || fail "status --json: $(cat "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert (d["phase"], d["phase_name"], d["epoch"], d["lease_ms"], d["keys"], d["java"]) == (3, "token", 1, 1000, "jobs:*", "must not run"), d
assert d["next"] is None and d["back"]["phase"] == 2 and len(d["clients"]) == 4, d
assert d["evidence"]["tokens"]["count"] == 1 and d["evidence"]["tokens"]["examples"][0]["key"] == "jobs:a", d
assert len(d["back"]["blockers"]) == 2 and all(b["what"] and b["who"] and b["do"] for b in d["back"]["blockers"]), d
assert [h["action"] for h in d["history"]][-1] == "init" and d["history"][-1]["to_phase"] == 3, d
PY

# ---- no server, another's register --------------------------------------------------------------------
redis HSET "$register" epoch x >/dev/null
expect 0 migrate status
grep -q "its register can't be read" "$out" || fail "unreadable: $(cat "$out")"
expect_refused "can't be read: namespace default: to see it: HGETALL" migrate advance --yes
expect_refused "can't be read; to see it" migrate init --yes --keys 'jobs:*'
redis DEL "$register" >/dev/null
redis SET "$register" x >/dev/null
expect_line 69 'wrong kind' migrate status
redis ACL SETUSER default -hget -hmget -hgetall >/dev/null # which its scripts call
expect_line 77 'permission|executing the script' migrate status
redis ACL SETUSER default -@all +info +auth +hello +time >/dev/null
expect_line 77 'NOPERM|permission' migrate status
stop_server
expect_line 69 . migrate status
