#!/bin/bash
# The phases of a cluster, by real commands: a register in each slot, steps over all masters, steps that were not finished, and
# whatever forbids one: each is one clear line, and the registers say what the command says.
# timeout: 300
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 7.0 "permissions to read keys alone"
source "$(dirname "$0")/slots.sh"

# ---- what it is told --------------------------------------------------------------------------------------
expect_line 64 'migrate clients: in a cluster no client is registered' migrate clients
expect_line 64 'migrate init: --lease: in a cluster no client has a lease' migrate init --keys 'jobs:*' --phase 1 --lease 1s --yes
expect_line 77 'this is a node of a cluster, and the locks of other nodes would be overlooked: .*redis.cluster' \
    migrate status --url "redis://127.0.0.1:${masters[0]}"
refused 'migrate advance: refused: it is not registered' migrate advance --yes
expect 0 migrate status
says '^  16384 of 16384 slots without a register, which write stamps$'

# ---- begin --------------------------------------------------------------------------------------------------
at 'tidelock:phase:{default}' HSET 'tidelock:phase:{default}' phase 3 >/dev/null
expect_line 77 'namespace default was registered with a redis: URL' migrate init --keys 'jobs:*' --phase 1 --yes
at 'tidelock:phase:{default}' DEL 'tidelock:phase:{default}' >/dev/null
for name in n{1..40}; do # a namespace whose record is at another master
    other="tidelock:phase:cluster:{$name}"
    [[ $(owner "$other") == "$(owner 'tidelock:phase:cluster:{default}')" ]] || break
done
at "$other" HSET "$other" phase 2 epoch 1 lease_ms 30000 since 1 keys 'jobs:night*' >/dev/null
expect 0 migrate init --keys 'jobs:*' --phase 1 --yes
says '^namespace default: phase 1 \(bridge\), epoch 1, in all 16384 slots$'
grep -q "note: some name may fit both jobs:\* and jobs:night\*, the keys of namespace $name in phase 2" "$err" ||
    fail "a name that two namespaces share isn't told: $(cat "$err")"
at "$other" DEL "$other" >/dev/null
all_in 1
expect 0 migrate init --keys 'jobs:*' --phase 1 --yes
says 'is registered already'
refused 'registered differently by .*phase 1, keys jobs:\*: a phase is changed' migrate init --keys 'job:*' --phase 1 --yes
expect 0 migrate status
says '^  old Java class: may run$'
says '^  clients  0 connections last sent a command that tidelock never sends$' # its own are none of these

# ---- Java is still there, at whichever master -----------------------------------------------------------------
now_ms=$(($(date +%s) * 1000))
at jobs:java SET jobs:java $((now_ms + 3600000)) >/dev/null
refused '1 stamp stands without a sidecar.*jobs:java' migrate advance --phase 2 --watch 1s --yes
at jobs:java DEL jobs:java >/dev/null
{ migrate advance --phase 2 --watch 3s --monitor 0s --yes </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'watching for legacy clients' "$err"
at jobs:java SETNX jobs:java 1 >/dev/null
at jobs:java DEL jobs:java >/dev/null
wait_for $step 30
[[ $status == 77 ]] || fail "status $status: a SETNX at one master is overlooked: $(cat "$out")"
grep -q 'refused: SETNX' "$err" || fail "it isn't said why"
all_in 1

# ---- while it watches a cluster that doesn't change, it reads no register, and asks by the connections that it has --------
calls() { of "${masters[0]}" INFO commandstats | tr -d '\r' | sed -n "s/^cmdstat_$1:calls=\([0-9]*\).*/\1/p"; }
asked_again() { (($(calls 'cluster|nodes') >= ${asked:-0} + $1)); }
{ migrate advance --phase 2 --watch 60s --monitor 0s --yes </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'watching for legacy clients' "$err"
asked=$(calls 'cluster|nodes')
until_true 20 asked_again 1 || fail "it doesn't look at the cluster meanwhile"
asked=$(calls 'cluster|nodes') read=$(calls get) anew=$(calls 'config|get')
until_true 20 asked_again 2 || fail "it doesn't look at the cluster again"
[[ $(calls get) == "$read" ]] || fail "it reads the registers while it watches: $(($(calls get) - read)) times"
[[ $(calls 'config|get') == "$anew" ]] || fail "it connects anew while it watches"
kill $step
wait_for $step 20
all_in 1

# ---- up -----------------------------------------------------------------------------------------------------
expect 0 migrate advance --phase 2 --watch 1s --yes
says '^namespace default: phase 1 \(bridge\) -> 2 \(drain\), epoch 2, in all 16384 slots$'
all_in 2
refused 'it leads to 3 \(token\), not to 2|leads to 3' migrate advance --phase 2 --yes
expect 0 migrate status
says '^  old Java class: must not run$'
"$tidelock" run --protocol auto --namespace 'jobs:*=default' jobs:a -- sh -c "echo >'$work/held'; exec sleep 300" 2>/dev/null &
holder=$!
wait_file "$work/held"

# ---- back: Java waits for the token, and for each slot ----------------------------------------------------------
{ migrate rollback --phase 1 --yes </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'Java may not start yet: waiting for 1 token: jobs:a' "$err" || fail "it doesn't wait"
all_in 1
kill -TERM $step
wait_for $step 20
grep -q 'the step is not finished: .*Java may not start yet' "$err" || fail "it isn't said that it isn't finished"
[[ ! -s $out ]] || fail "it says too much: $(cat "$out")"
expect 0 migrate status
says '^  old Java class: must not run: the step to phase 1 is not finished'
says 'advance --phase 2 leads all slots to 2, rollback --phase 1 to 1$'
# a failover has lost the claim, and another operator has claimed what came back
{ migrate rollback --phase 1 --yes </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'Java may not start yet: waiting for 1 token: jobs:a' "$err" || fail "it doesn't wait"
at 'tidelock:phase:cluster:{default}' HSET 'tidelock:phase:cluster:{default}' by 'elsewhere 1 operator' >/dev/null
kill $holder
wait_for $step 30
[[ $status == 77 && ! -s $out ]] || fail "status $status: another's claim is overlooked: $(cat "$out")"
grep -q 'by elsewhere 1 operator meanwhile: another operator is at work' "$err" || fail "it isn't said who"
expect 0 migrate rollback --phase 1 --yes
says '^namespace default: no token is left: Java may start$'
expect 0 migrate status
says '^  old Java class: may run$'

# ---- killed in the middle; a node that denies the writes --------------------------------------------------------------
record=$(owner 'tidelock:phase:cluster:{default}')
for p in "${masters[@]}"; do [[ $p == "$record" ]] || denies=$p; done
of "$denies" ACL SETUSER default resetkeys '~jobs:*' >/dev/null
refused "registers can't be read there: NOPERM .*127.0.0.1:$denies: let this user read" migrate advance --phase 2 --yes
of "$denies" ACL SETUSER default '%R~tidelock:phase:slot:*' >/dev/null
refused "127.0.0.1:$denies: .*(permissions|NOPERM)" migrate advance --phase 2 --watch 1s --yes
grep -qE 'the step is not finished: [0-9]+ of 16384 slots in phase 2 \(drain\), [0-9]+ in phase 1 \(bridge\)' "$err" || fail "how far it came isn't said"
expect 0 migrate status
says '^  old Java class: must not run'
says '^  [0-9]+ of 16384 slots in phase 2 \(drain\), [0-9]+ in phase 1 \(bridge\); '
of "$denies" ACL SETUSER default '~*' >/dev/null
refused 'leads to 2 \(drain\), not to 3' migrate advance --phase 3 --yes
expect 0 migrate advance --phase 2 --watch 1s --yes
says '^namespace default: phase 2 \(drain\), epoch [0-9]+, in all 16384 slots$'
all_in 2
for hundredths in 15 25 30 35 40 50; do
    timeout -s KILL "0.$hundredths" "$tidelock" migrate rollback --yes --phase 1 >"$out" 2>"$err" </dev/null
    expect 0 migrate status --json
    "$python" - "$out" <<'PY' || fail "Java may run in the middle of a step: $(cat "$out")"
import json, sys
status = json.load(open(sys.argv[1]))
slots = status["slots"]
assert sum(slots["in_phase"]) == 16384, slots
assert status["java"] != "may run" or slots["in_phase"][1] == 16384, status
PY
done
migrate rollback --yes --phase 1 >"$out" 2>"$err" </dev/null || grep -q 'leads to 0' "$err" || fail "it isn't finished"
all_in 1
expect 0 migrate status
says '^  old Java class: may run$'
expect 0 migrate advance --phase 2 --watch 1s --yes
expect 0 migrate advance --phase 3 --yes
all_in 3

# ---- old data: what a restart would bring back, and what has come back ------------------------------------------------------
expect 0 migrate rollback --phase 2 --yes
of "${masters[1]}" BGSAVE >/dev/null
has_saved() { of "${masters[1]}" INFO persistence | grep -q '^rdb_saves:[1-9]'; }
until_true 20 has_saved || fail "no snapshot"
expect_from 0 migrate rollback --phase 1 --yes
would="127.0.0.1:${masters[1]} would come back with older registers after a restart: until the next snapshot .BGSAVE., or with appendonly$"
grep -q "^tidelock: migrate rollback: note: $would" "$err" || fail "the master with an old snapshot isn't named: $(cat "$err")"
expect 0 migrate status
says "^  note: $would"
is_safe() {
    of "${masters[1]}" BGSAVE >/dev/null
    migrate status >"$out" && ! grep -q 'would come back' "$out"
}
until_true 20 is_safe || fail "a new snapshot doesn't count: $(cat "$out")"
for key in $(registers "${masters[1]}" | head -n 100); do echo "SET $key '2 5'"; done | of "${masters[1]}" >/dev/null
expect 0 migrate status
says '^  old Java class: must not run: old data has come back, by which clients may write tokens$'
says "^  alarm: old data has come back: the record is in phase 1, and a later one is at 127.0.0.1:${masters[1]} .100 slots.: end Java, then: rollback --phase 1, or advance --phase 2$"
expect 0 migrate status --json
"$python" -c 'import json, sys; slots = json.load(open(sys.argv[1]))["slots"]; assert slots["later"] and not slots["whole"] and slots["unsaved"] is None, slots' "$out" ||
    fail "--json: $(cat "$out")"
later() { migrate status --metrics - | grep -qx "tidelock_migrate_slots_later{namespace=\"default\"} $1"; }
later 100 || fail "no metric tells of old data"
expect_from 0 migrate rollback --phase 1 --yes
says 'Java may start$'
later 0 || fail "the metric stays"
expect 0 migrate status
says '^  old Java class: may run$'
all_in 1
expect 0 migrate advance --phase 2 --watch 1s --yes
expect 0 migrate advance --phase 3 --yes
all_in 3

# ---- registers that are lost, or of others --------------------------------------------------------------------------
for key in $(registers "${masters[2]}" | head -n 100); do of "${masters[2]}" DEL "$key"; done >/dev/null
expect 0 migrate status
says '^  16284 of 16384 slots in phase 3 \(token\), 100 without a register, which write stamps; '
expect 0 migrate advance --phase 3 --watch 1s --yes
all_in 3
key=$(registers "${masters[2]}" | head -n 1)
is=$(of "${masters[2]}" GET "$key")
of "${masters[2]}" SET "$key" "3 0" >/dev/null
# The tag may be a number: in a pattern that would say how often
refused "register of 1 slot can't be read.*DEL ${key//[{\}]/.}" migrate rollback --phase 2 --yes
of "${masters[2]}" SET "$key" "$is" >/dev/null
demo stop 2>"$err" || fail "the cluster isn't ended"
