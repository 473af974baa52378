#!/bin/bash
# The phases of a cluster whose nodes fail, move slots or replace each other, and that two operators lead: a step is refused, waits
# or begins again, and the registers say what the command says.
# timeout: 300
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 7.0 "CLUSTER SETSLOT for the replicas, too"
source "$(dirname "$0")/slots.sh"
expect 0 migrate init --keys 'jobs:*' --phase 3 --yes
all_in 3

# ---- a cluster that is not in order ------------------------------------------------------------------------------
key=$(registers "${masters[0]}" | head -n 1)
slot=$(of "${masters[0]}" CLUSTER KEYSLOT "$key")
tag=${key#*\{} held=jobs:{${tag%%\}*}}
at "$held" SET "$held" $((($(date +%s) + 3600) * 1000)) >/dev/null # no node can look at it and its sidecar, which isn't there
id() { of "$1" CLUSTER MYID; }
of "${masters[1]}" CLUSTER SETSLOT "$slot" IMPORTING "$(id "${masters[0]}")" >/dev/null
of "${masters[0]}" CLUSTER SETSLOT "$slot" MIGRATING "$(id "${masters[1]}")" >/dev/null
refused "slot $slot is being moved to the node" migrate rollback --phase 2 --yes
! grep -q 'scan' "$err" || fail "it scanned what it can't: $(cat "$err")"
of "${masters[0]}" DEL "$held" >/dev/null
{ migrate rollback --phase 2 --yes --wait 60s </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'waiting, for 60.0 s at most: .*is being moved' "$err" || fail "it doesn't wait for the slot"
of "${masters[0]}" MIGRATE 127.0.0.1 "${masters[1]}" "$key" 0 60000 >/dev/null
for p in "${masters[@]}"; do of "$p" CLUSTER SETSLOT "$slot" NODE "$(id "${masters[1]}")" >/dev/null; done
wait_for $step 90
[[ $status == 0 ]] || fail "status $status after the slot has moved"
all_in 2

pid=$(of "${replicas[0]}" INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
kill -STOP "$pid"
refused "a server that may take over can't be asked: .*127.0.0.1:${replicas[0]}: make it reply" migrate rollback --phase 1 --yes
kill -CONT "$pid"
all_in 2
pid=$(of "${masters[0]}" INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
kill -STOP "$pid"
refused "a master can't be asked: 127.0.0.1:${masters[0]}: .*: make it reply" migrate rollback --phase 1 --yes
kill -CONT "$pid"
all_in 2
expect 0 migrate rollback --phase 1 --yes --wait 30s
says 'Java may start$'

# ---- a failover in the watch -----------------------------------------------------------------------------------------
{ migrate advance --phase 2 --watch 4s --yes --wait 60s </dev/null & } >"$out" 2>"$err"
step=$!
until_true 20 grep -q 'watching for legacy clients' "$err"
of "${replicas[1]}" CLUSTER FAILOVER >/dev/null
until_true 20 find_masters
wait_for $step 120
grep -q 'a master was replaced or restarted, or slots have moved: the watch begins again' "$err" ||
    grep -q 'the connection was lost; begin again' "$err" || fail "a failover is overlooked: $(cat "$out")"
if [[ $status != 0 ]]; then expect 0 migrate advance --phase 2 --watch 1s --yes --wait 60s; fi
all_in 2

# ---- two operators ----------------------------------------------------------------------------------------------------
{ migrate rollback --phase 1 --yes --wait 30s </dev/null & } >"$out" 2>"$err"
one=$!
{ migrate advance --phase 3 --yes --wait 30s </dev/null & } >"$work/out2" 2>"$work/err2"
other=$!
wait_for $one 60
first=$status
wait_for $other 60
if ((first == 0)) && grep -q 'Java may start' "$out"; then
    ! grep -q 'in all' "$work/out2" || [[ $(said) == "0 16384 0 0" ]] || fail "Java may start beside tokens: $(cat "$work/out2")"
fi
expect 0 migrate status
if grep -q 'old Java class: may run$' "$out"; then all_in 1; fi
demo stop 2>"$err" || fail "the cluster isn't ended"

# ---- one master, by the other kind of URL ------------------------------------------------------------------------------
start_server --cluster-enabled yes
redis CLUSTER ADDSLOTSRANGE 0 16383 >/dev/null
is_served() { redis CLUSTER INFO | grep -q '^cluster_state:ok'; }
until_true 20 is_served || fail "one master serves no slots"
redis SET 'tidelock:phase:slot:{06S}:default' '2 5' >/dev/null # the record is lost, but clients follow this
expect_line 77 'namespace default was registered with a redis.cluster: URL \(tidelock:phase:slot:' migrate init --keys 'jobs:*' --phase 1 --yes
redis DEL 'tidelock:phase:slot:{06S}:default' >/dev/null
expect 0 migrate init --keys 'jobs:*' --phase 1 --yes
