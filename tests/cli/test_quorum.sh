#!/bin/bash
# URLs that name independent servers: what is wrong with one is told in a line, and each command of the tool works with five
# real ones, also with two of them killed, or says why it doesn't.
# timeout: 120
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
nobody=redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3

expect_line 64 'with fewer none may fail' "$tidelock" run --url redis+quorum://h,i k -- true
expect_line 64 'with an even number no more may fail' "$tidelock" run --url redis+quorum://a,b,c,d k -- true
expect_line 64 'more than 7 servers' "$tidelock" run --url redis+quorum://a,b,c,d,e,f,g,h,i k -- true
expect_line 64 'names a server twice' "$tidelock" run --url redis+quorum://a,b,a:6379 k -- true
expect_line 64 'at its database 0' "$tidelock" run --url redis+quorum://a,b,c/1 k -- true
expect_line 64 'user and password before the first server are for all servers' "$tidelock" run --url redis+quorum://u:hunter2@a,u:hunter2@b,c k -- true
if grep -q hunter2 "$err"; then fail "a secret is shown"; fi
expect_line 64 'wait_replicas: not with' "$tidelock" run --url $nobody --wait-replicas 1 k -- true
expect_line 64 'wait_fsync: not with' "$tidelock" run --url $nobody --wait-fsync k -- true
expect_line 64 'fair: not with' "$tidelock" run --url $nobody --fair k -- true
expect_line 64 'at most quiet_ms, which is 30000 ms, not 31000: quiet_ms \(--quiet\) must last' "$tidelock" run --url $nobody --ttl 31s k -- true
expect_line 69 'no majority of the 3' "$tidelock" run --url $nobody --quiet 0s --ttl 31s --no-wait k -- true # it is off
expect_line 69 'no majority of the 3 servers: connect 127.0.0.1:.*refused' "$tidelock" run --url $nobody --no-wait k -- true

# What asks one server.
for c in doctor skew "agent --once" "migrate status"; do
    # shellcheck disable=SC2086
    expect_line 64 'redis.quorum: names several servers, .* give it the URL of each' "$tidelock" --url $nobody $c
done

# ---- five real ones -----------------------------------------------------------------------------------
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo quorum 2>"$err") || fail "no set of servers"
export TIDELOCK_URL=$url
mapfile -t port < <(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$url" | cut -d: -f2)
of() { redis-cli -p "$@" 2>/dev/null; } # port words...
holders() {
    local p n=0
    for p in "${port[@]}"; do [[ $(of "$p" EXISTS job) == 1 ]] && n=$((n + 1)); done
    echo $n
}
a_majority_holds() { (($(holders) >= 3)); }
none_holds() { [[ $(holders) == 0 ]]; }
end_one() {
    of "$1" SHUTDOWN NOSAVE
    until_true 10 gone "$1" || fail "$1 doesn't end"
}
gone() { ! of "$1" PING >/dev/null; }

expect 0 "$tidelock" check job
# shellcheck disable=SC2016
expect 0 "$tidelock" run job -- sh -c 'echo "fence $TIDELOCK_FENCE"'
first=$(sed -n 's/^fence //p' "$out")
((first > 0)) || fail "no fence: $(cat "$out")"
until_true 10 none_holds || fail "$(holders) hold what was released"

read -r token _ < <("$tidelock" lock --quiet 0s --ttl 10m job 2>"$err") || fail "lock"
a_majority_holds || fail "$(holders) of 5 hold it"
expect 75 "$tidelock" run --no-wait job -- true
expect 1 "$tidelock" check job
expect 0 "$tidelock" inspect job
expect 0 "$tidelock" inspect
(($(grep -c '^job ' "$out") == 1)) || fail "inspect lists: $(cat "$out")"
expect 0 "$tidelock" extend job "$token" --ttl 30s

# Two of five are enough to lose for nothing, of five: an answer doesn't wait for those behind the majority.
all_hold() { (($(holders) == 5)) || { "$tidelock" extend job "$token" --ttl 30s >/dev/null 2>&1 && false; }; }
until_true 10 all_hold || fail "$(holders) of 5 hold it"
end_one "${port[1]}"
end_one "${port[4]}"
expect 0 "$tidelock" extend job "$token" --ttl 30s
expect 75 "$tidelock" run --no-wait job -- true
expect 0 "$tidelock" inspect job
expect 0 "$tidelock" unlock job "$token"
until_true 10 none_holds || fail "$(holders) hold what was unlocked"

# A rest counts at a majority, too: each server has another time in its key, and it is one rest all the same.
expect 0 "$tidelock" lock --quiet 0s --rest 10m job
a_majority_holds || fail "$(holders) of 5 rest"
expect 1 "$tidelock" check --json job
json_has "$out" state resting
grep -q '"rest_until":"20' "$out" || fail "check says: $(cat "$out")"
expect 75 "$tidelock" lock --quiet 0s job
expect 0 "$tidelock" inspect --json
grep -q '"state":"resting"' "$out" || fail "inspect lists: $(cat "$out")"
expect_line 0 'job: removed; it was resting until' "$tidelock" break --yes job
until_true 10 none_holds || fail "$(holders) rest on"
expect 0 "$tidelock" check job

# Who is held up by a vote of somebody's finds out by whom.
of "${port[0]}" SET job another PX 600000 >/dev/null
expect 0 "$tidelock" check job
grep -q '^free (no majority of the 5 servers holds it, but 1 does)$' "$out" || fail "check says: $(cat "$out")"
of "${port[0]}" DEL job >/dev/null
# shellcheck disable=SC2016
expect 0 "$tidelock" run job -- sh -c 'echo "fence $TIDELOCK_FENCE"'
(($(sed -n 's/^fence //p' "$out") > first)) || fail "a fence fell: $first, $(cat "$out")"

# Removed by hand at all that are left.
"$tidelock" run --on-lost kill --ttl 10s job -- sleep 600 >/dev/null 2>&1 &
holder=$!
held() { ! "$tidelock" check job >/dev/null; }
until_true 10 held || fail "it isn't held"
sleep 1.5
expect 0 "$tidelock" break --yes job
none_holds || fail "$(holders) hold what was removed"
gone_holder() { ! kill -0 $holder 2>/dev/null; }
until_true 10 gone_holder || fail "its holder goes on"

# Without a majority nobody gets anything, and it is said.
end_one "${port[0]}"
expect_line 69 'no majority of the 5 servers: .*127.0.0.1:' "$tidelock" run --no-wait job -- true
expect_line 69 'no majority of the 5 servers: .*127.0.0.1:' "$tidelock" check job
demo stop || fail "the servers aren't ended"
