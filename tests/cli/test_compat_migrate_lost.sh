#!/bin/bash
# migrate: when a server has lost a register, or part of its story, clients that know better are seen, and a register
# that is made beyond what they know is followed by them without their being started again.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server

expect 0 migrate init --keys 'jobs:*' --phase 3 --lease 3s --yes
redis HSET "$register" epoch 7 >/dev/null
{ "$tidelock" run --protocol auto --namespace 'jobs:*=default' jobs:mine -- sleep 1000 & } 2>"$work/service"
service=$!
is_in() { migrate clients | grep -qE "^  $1 +sleep on .*: epoch $2, phase 3 \(token\), seen [^,]* ago, version [^,]*$"; }
follows() { until_true 20 is_in "$@" || depth=1 fail "not $1: $(migrate clients; cat "$work/service")"; }
follows confirmed 7

# ---- gone -------------------------------------------------------------------------------------------
redis DEL "$register" >/dev/null
follows ahead 7
expect 0 migrate status
grep -q 'tidelock migrate init --namespace default --keys PATTERN --phase 3, where its clients were' "$out" || fail "gone: $(cat "$out")"
expect_refused 'acts in phase 3 \(token\), which is no neighbour of 1' migrate init --keys 'jobs:*' --phase 1 --lease 3s --yes
expect 0 migrate init --keys 'jobs:*' --phase 3 --lease 4s --yes
in_phase 3 8
follows confirmed 8
expect 0 migrate status
grep -q 'epoch 8, lease 4.0 s' "$out" || fail "it can have another lease: $(cat "$out")"

# ---- gone back --------------------------------------------------------------------------------------
set_phase 2 6
follows ahead 8
expect_refused 'a client has seen epoch 8, later than the register.s 6, which was set back: .*: it refuses to lock until .* init --again --namespace default --keys PATTERN --phase 3' \
    migrate advance --yes
expect_refused 'registered differently.*phase 2' migrate init --keys 'jobs:*' --phase 3 --yes
in_phase 2 6
expect 0 migrate init --again --keys 'jobs:*' --phase 3 --yes
grep -qx 'namespace default: phase 3 (token), epoch 9' "$out" || fail "again: $(cat "$out")"
in_phase 3 9
follows confirmed 9
expect 0 migrate status --history
grep -qE 'init +phase 2 -> 3, epoch 6 -> 9, by' "$out" || fail "history: $(cat "$out")"
is_held jobs:mine || fail "the lock is gone: $(cat "$work/service")"
kill $service
wait_for $service 20
