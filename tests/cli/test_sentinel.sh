#!/bin/bash
# URLs that name Sentinels: what is wrong with one is told in a line, the Sentinels' login reaches nobody else, and each
# command of the tool works through a real set, also after a failover, or says why it doesn't.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
url=redis+sentinel://127.0.0.1:1,127.0.0.1:2/m

expect_line 64 'the name of the master is missing' "$tidelock" run --url redis+sentinel://h k -- true
expect_line 64 'the port must be' "$tidelock" run --url redis+sentinel://h,i:x/m k -- true
expect_line 64 'only with a URL that begins with rediss://' "$tidelock" run --tls-name x --url $url k -- true

# Nobody is there: it says of whom, and how many answer.
expect_line 69 'm: no majority of the Sentinels: 0 of 2 answer .connect 127.0.0.1:' "$tidelock" --url $url extend k t --ttl 1s
TIDELOCK_URL=$url expect_line 69 'no majority of the Sentinels' "$tidelock" extend k t --ttl 1s

# What asks one server is led to it by them.
for c in skew "agent --once" "migrate status" "doctor --acl u jobs:*"; do
    # shellcheck disable=SC2086
    expect_line 69 'm: no majority of the Sentinels: 0 of 2 answer .connect 127.0.0.1:' "$tidelock" --url $url $c
done
expect 2 "$tidelock" --url $url doctor
grep -q '^danger   sentinels: no majority of the Sentinels: 0 of 2 answer' "$out" || fail "doctor: $(cat "$out")"
expect 3 "$tidelock" --url $url skew --format nagios # a monitor is told in its own way
grep -q '^SKEW UNKNOWN - m: no majority' "$out" || fail "nagios: $(cat "$out")"

# A login of Sentinels is none of another URL's business, nor of the command that is run.
start_server
open_port # a server that is no Sentinel: what does not end at once would wait for an hour
for c in "run -w 1h k -- true" "check k" inspect skew "agent --once" "migrate status" bench; do
    # shellcheck disable=SC2086
    expect_line 70 "m: no majority of the Sentinels: 0 of 1 answer .127.0.0.1:$port is no Sentinel.$" "$tidelock" --url redis+sentinel://127.0.0.1:"$port"/m $c
done
expect 2 "$tidelock" --url redis+sentinel://127.0.0.1:"$port"/m doctor
grep -q "^warning  sentinels: 127.0.0.1:$port of the URL is no Sentinel" "$out" || fail "doctor: $(cat "$out")"
TIDELOCK_SENTINEL_USER=u TIDELOCK_SENTINEL_PASSWORD=hunter2 expect 0 "$tidelock" run k -- \
    sh -c "! env | grep -q TIDELOCK_SENTINEL"
if grep -q hunter2 "$out" "$err"; then fail "a secret is shown"; fi

# ---- a real set ---------------------------------------------------------------------------------------
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo sentinel 2>"$err") || fail "no set of servers"
export TIDELOCK_URL=$url
mapfile -t sentinel < <(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$url" | cut -d: -f2)
of() { redis-cli -p "$@" 2>/dev/null; } # port words...
named() { of "${sentinel[0]}" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1; }
[[ ${#sentinel[@]} == 3 ]] || fail "not three Sentinels: $url"
# A failover is asked for: that the machine is slow is no reason for one.
for p in "${sentinel[@]}"; do of "$p" SENTINEL SET demo down-after-milliseconds 600000 >/dev/null; done
doctor_says() { # status pattern url...
    local want=$1 pattern=$2
    shift 2
    depth=1 expect_from "$want" "$tidelock" "$@" doctor
    grep -qE -- "$pattern" "$out" || depth=1 fail "doctor lacks '$pattern': $(cat "$out")"
}

every_command() {
    local token
    expect 0 "$tidelock" run -w 50s job -- true
    token=$("$tidelock" lock -w 50s -t 10m job 2>"$err" | cut -d' ' -f1)
    [[ -n $token ]] || fail "lock: no token"
    expect 0 "$tidelock" extend job "$token" --ttl 10m
    expect 1 "$tidelock" check job
    expect 0 "$tidelock" inspect
    grep -q '^job ' "$out" || fail "inspect: $(cat "$out")"
    expect 0 "$tidelock" unlock job "$token"
    expect 0 "$tidelock" lock other
    expect 0 "$tidelock" break other --yes
    expect 0 "$tidelock" lock -w 50s -t 10m --wait-replicas 1 third
    expect 0 "$tidelock" break third --yes
    expect 0 "$tidelock" agent --once --name host
    expect 1 "$tidelock" skew --no-agents # one host alone
    expect 0 "$tidelock" migrate status
    doctor_says 1 "^127.0.0.1:$(named), Redis"
    if grep -q 'sentinels:' "$out"; then fail "doctor: $(cat "$out")"; fi
}
every_command
expect 0 "$tidelock" doctor --acl locker 'jobs:*'
grep -q '^ACL SETUSER locker .* +role' "$out" || fail "who finds it by Sentinels asks ROLE: $(cat "$out")"
grep -q '^ACL SETUSER locker .*&+switch-master +sentinel|master' "$out" || fail "no permissions for Sentinels: $(cat "$out")"
expect 0 "$tidelock" doctor --quiet 31s
grep -q '^note .*failover: no two clients hold a lock at once in a failover' "$out" || fail "doctor --quiet: $(cat "$out")"

# An agent that goes on publishes at the next master.
{ "$tidelock" agent --every 200ms --name steady & } 2>"$work/agent"
agent=$!
record() { of "$(named)" GET '{tidelock:agents}:steady'; }
has_record() { [[ -n $(record) ]]; }
until_true 10 has_record || fail "the agent has published nothing: $(cat "$work/agent")"
former=$(named)
[[ $(of "${sentinel[0]}" SENTINEL FAILOVER demo) == OK ]] || fail "no failover"
moved() { [[ $(named) != "$former" && $(of "$(named)" ROLE | head -n 1) == master && $(of "$former" ROLE | head -n 1) == slave ]]; }
until_true 60 moved || fail "the former master is one still"
was=$(record)
renewed() { [[ $(record) != "$was" ]]; }
until_true 20 renewed || fail "the agent publishes nothing at the next master: $(cat "$work/agent")"
kill -TERM $agent
wait_for $agent 10

# Everything works there too, as soon as all say so.
agree() {
    local p
    for p in "${sentinel[@]}"; do [[ $(of "$p" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1) == "$(named)" ]] || return 1; done
}
until_true 20 agree || fail "the Sentinels don't agree"
every_command

# What is wrong with a set.
doctor_says 2 'danger +sentinels: the Sentinels know no master nobody' --url "${url%/*}/nobody"
expect_line 69 'the Sentinels know no master of this name' "$tidelock" --url "${url%/*}/nobody" skew
for c in "run -w 1h k -- true" "check k" inspect "extend k t --ttl 5s"; do
    # shellcheck disable=SC2086
    TIDELOCK_SENTINEL_PASSWORD=wrong expect_line 77 'demo: no majority of the Sentinels: 0 of 3 answer .127.0.0.1:[0-9]*: a password is given, but' "$tidelock" $c
    # shellcheck disable=SC2086
    expect_line 70 "127.0.0.1:${sentinel[0]}: this is a Sentinel, which keeps no locks: give the URL of the master" "$tidelock" --url "redis://127.0.0.1:${sentinel[0]}" $c
done
for c in skew "agent --once" "migrate status"; do
    # shellcheck disable=SC2086
    expect_line 70 "127.0.0.1:${sentinel[0]}: this is a Sentinel, which keeps no locks: give the URL of the master" "$tidelock" --url "redis://127.0.0.1:${sentinel[0]}" $c
done
for c in "run -w 1h k -- true" inspect skew "agent --once" doctor; do
    # shellcheck disable=SC2086
    expect_line 77 "127.0.0.1:${sentinel[0]} has no CLUSTER: it is a Sentinel, older than Redis 3.0, or the command is renamed" "$tidelock" --url "redis+cluster://127.0.0.1:${sentinel[0]}" $c
done
doctor_says 2 '^danger +replica: this is a Sentinel' --url "redis://127.0.0.1:${sentinel[0]}"
[[ $(grep -cE '^[a-z]+ +[a-z]+: ' "$out") == 1 ]] || fail "what doesn't matter is told: $(cat "$out")"
TIDELOCK_SENTINEL_PASSWORD=wrong doctor_says 2 'a Sentinel refuses the login|a Sentinel .*a password is given'
of "$(of "$(named)" INFO replication | sed -n 's/^slave0:.*port=\([0-9]*\).*/\1/p')" SHUTDOWN NOSAVE >/dev/null 2>&1
has_one_replica() { of "$(named)" INFO replication | grep -q '^connected_slaves:1'; }
until_true 30 has_one_replica || fail "the master doesn't notice that a replica has gone"
doctor_says 1 'replication: the Sentinels know of 2 replicas, and the master has 1'
of "${sentinel[1]}" SENTINEL SET demo quorum 1 >/dev/null
doctor_says 1 "sentinels: the quorum of 127.0.0.1:${sentinel[1]} is 1 of 3 Sentinels, less than a majority"
of "${sentinel[1]}" SENTINEL SET demo quorum 2 >/dev/null
of "${sentinel[2]}" SENTINEL REMOVE demo >/dev/null
doctor_says 1 "sentinels: the Sentinel 127.0.0.1:${sentinel[2]} knows no master demo"
of "${sentinel[2]}" SHUTDOWN NOSAVE >/dev/null
doctor_says 1 "sentinels: a Sentinel doesn't respond: .*:${sentinel[2]}"
expect 0 "$tidelock" run job -- true
of "$(named)" SHUTDOWN NOSAVE >/dev/null 2>&1
if [[ ${COMPAT:-1} != 0 ]]; then
    expect_line 69 'migrate: .*refused.*; a failover may be in progress: try again' "$tidelock" migrate status
fi
of "${sentinel[1]}" SHUTDOWN NOSAVE >/dev/null
doctor_says 2 'danger +sentinels: no majority of the Sentinels: 1 of 3 answer'
expect_line 69 'no majority of the Sentinels: 1 of 3 answer' "$tidelock" migrate status
demo stop 2>"$err" || fail "the set of servers isn't ended"
