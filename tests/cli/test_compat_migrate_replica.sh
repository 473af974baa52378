#!/bin/bash
# migrate beside replicas: a change counts once they have it, and is asked of the master alone.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
open_port
redis CONFIG SET repl-diskless-sync-delay 0 >/dev/null
mkdir "$work/replica"
{ redis-server --port 0 --unixsocket "$work/replica.sock" --dir "$work/replica" --save '' --appendonly no \
    --replicaof 127.0.0.1 "$port" & } >"$work/replica.log" 2>&1
replica=$!
on_replica() { redis-cli -s "$work/replica.sock" "$@" 2>/dev/null; }
follows() { on_replica INFO replication | grep -q 'master_link_status:up'; }
until_true 30 follows || fail "no replica: $(tail -n 5 "$work/replica.log")"

expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 0 --yes
[[ $(on_replica HMGET "$register" phase epoch | tr '\n' ' ') == "0 1 " ]] || fail "it is not there when init returns"
expect_line 69 "this is a replica.*use its master, 127\.0\.0\.1:$port" migrate status --url "unix://$work/replica.sock"
for epoch in 2 3 4 5; do # each time it is there when the command returns
    long_ago
    if ((epoch % 2)); then word=rollback; else word=advance; fi
    expect 0 migrate $word --yes
    [[ $(on_replica HGET "$register" epoch) == "$epoch" ]] || fail "epoch $epoch is not there when $word returns"
done

# A replica that hangs: a failover to it would bring back what is older than the present epoch.
long_ago
kill -STOP $replica
expect_line 69 'nothing has changed: only 0 of 1 replicas have the present epoch after 3 s' migrate advance --yes
in_phase 0 5
kill -CONT $replica
goes_on() { [[ -n $(on_replica PING) ]]; }
until_true 10 goes_on || fail "the replica does not go on"
expect 0 migrate advance --yes
[[ $(on_replica HGET "$register" epoch) == 6 ]] || fail "epoch 6 is not there"

# What goes wrong in the middle: between judging and changing, and between changing and its being confirmed.
long_ago
through lose rollback
[[ $? == 69 ]] || fail "the connection was lost after the look at everything: $(cat "$out" "$err")"
grep -q '^tidelock: migrate: nothing has changed: ' "$err" || fail "lost: $(cat "$err")"
in_phase 1 6
through lose init --namespace other --keys 'other:*' --phase 3 --dialect java
[[ $? == 69 ]] || fail "init: the connection was lost after the look at everything: $(cat "$out" "$err")"
grep -q '^tidelock: migrate: nothing has changed: ' "$err" || fail "init, lost: $(cat "$err")"
[[ $(redis EXISTS 'tidelock:phase:{other}') == 0 ]] || fail "init has made a register"
lacks='migrate: changed, so don.t repeat it, but only 0 of 1 replicas have it after 3 s: prevent a failover'
set_phase 2 7
through stop:$replica rollback # Java may not start before the replicas have it too
[[ $? == 69 ]] || fail "the replica lacks the way back: $(cat "$out" "$err")"
kill -CONT $replica
grep -q "$lacks" "$err" || fail "lacks the way back: $(cat "$err")"
grep -q 'Java may not start yet: tidelock migrate status' "$err" || fail "lacks the way back: $(cat "$err")"
! grep -q 'Java may start' "$out" || fail "Java: $(cat "$out")"
in_phase 1 8
{ kill -KILL $replica; wait $replica; } 2>/dev/null
exit 0
