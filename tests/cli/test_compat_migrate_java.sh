#!/bin/bash
# migrate: Java is left behind only when nobody of it is there, and comes back only when no token is left.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 0 --yes
token=01234567-89ab-4def-8123-456789abcdef

# ---- a pattern means the same to services and to migrate -------------------------------------------------
# A service that took [eu] for four letters would lock what no step looks at, and Java with it.
expect 0 migrate init --namespace eu --keys 'jobs:[eu]:*' --phase 1 --lease 1s --yes
names='jobs:[eu]:*=eu'
expect_line 64 "no pattern of the client matches this key" "$tidelock" run --protocol auto --namespace "$names" 'jobs:[eu]:x' -- true
expect 0 "$tidelock" lock --protocol auto --namespace "$names" --legacy-ttl-min 600s jobs:e:x
read -r mine _ <"$out"
redis SETNX jobs:u:x $(($(server_ms) + 60000)) >/dev/null
redis SETNX 'jobs:[eu]:x' $(($(server_ms) + 60000)) >/dev/null # a key of nobody's
expect_refused '1 stamp stands without a sidecar.*: jobs:u:x \(' migrate advance --namespace eu --yes
expect 0 "$tidelock" unlock --protocol auto --namespace "$names" jobs:e:x "$mine"
redis FLUSHALL >/dev/null
expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 0 --yes

# ---- from 1 to 2: a stamp that nobody but a legacy client sets ---------------------------------------------
set_phase 1 2
redis SETNX jobs:x $(($(server_ms) + 60000)) >/dev/null
expect_refused 'advance: refused: 1 stamp stands without a sidecar: a legacy client set it: jobs:x \(ends in [0-9]+\.[0-9] s\): end the clients' \
    migrate advance --yes
for odd in "550e8400-e29b-41d4-a716-446655440000:$(($(server_ms) + 60000))" $(($(server_ms) / 1000 + 60)).25; do # of other dialects
    redis SET jobs:x "$odd" >/dev/null
    expect_refused 'stands without a sidecar.*jobs:x \(ends in' migrate advance --yes
done
stamp jobs:x -60000
expect_refused 'jobs:x \(ended [0-9.]+ s ago\): remove what has expired: tidelock migrate sweep' migrate advance --yes
redis SET jobs:x true >/dev/null # which only one dialect has for a stamp
expect_refused 'jobs:x \(has no end\)' migrate advance --yes --dialect rb-resque
redis DEL jobs:x >/dev/null
stamp elsewhere 60000 # a key of nobody's
in_phase 1 2

# A bridge lock of a service that doesn't follow the phase; the same by one that does.
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 600s jobs:bridge
read -r bridge _ <"$out"
expect_refused '1 lock is held by tidelock clients that don.t follow the phase: jobs:bridge by tidelock on .* \(pid [0-9]+\) \(ends in' \
    migrate advance --yes
redis HSET "$register:clients" itself "2 1 1000 $(($(server_us) + 600000000)) 0.1.0 $(redis HGET 'tidelock:{jobs:bridge}' owner)"$'\t*' >/dev/null
expect 0 migrate advance --yes
grep -q "^tidelock: migrate advance: note: 1 client may acquire locks of other names than jobs:\* as well" "$err" || fail "other names: $(cat "$err")"
in_phase 2 3

# ---- what stands beside a released lock says nothing ------------------------------------------------------
# Java's stamp of the very bytes that our released one had isn't ours, though S still has them.
set_phase 1 2
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 600s jobs:same
read -r released _ <"$out"
same=$(redis GET jobs:same)
expect 0 "$tidelock" unlock --protocol bridge jobs:same "$released"
[[ $(redis HGET 'tidelock:{jobs:same}' value) == "$same" ]] || fail "nothing is left of it: the test needs another way"
redis SETNX jobs:same "$same" >/dev/null
expect_refused '1 stamp stands without a sidecar: a legacy client set it: jobs:same' migrate advance --yes
expect 0 "$tidelock" inspect --json 'jobs:same'
grep -q '"protocol":"timestamp",.*"holder":null' "$out" || fail "inspect takes it for ours: $(cat "$out")"
redis DEL jobs:same >/dev/null
set_phase 2 3

# ---- from 2 to 3: no stamp is left -----------------------------------------------------------------------
no_clients
expect_refused '1 lock is held by tidelock clients that' migrate advance --yes
redis HSET "$register:clients" itself "3 2 1000 $(($(server_us) + 600000000)) 0.1.0 $(redis HGET 'tidelock:{jobs:bridge}' owner)" >/dev/null
expect_refused "1 stamp is left of tidelock's own: jobs:bridge .*: wait: each becomes a token" migrate advance --yes
no_clients
expect 0 "$tidelock" unlock --protocol bridge jobs:bridge "$bridge"
stamp jobs:y 3600000
expect_refused 'jobs:y' migrate advance --yes
redis SET jobs:y $token PX 3600000 >/dev/null # a token is nothing in its way
expect 0 migrate advance --yes
in_phase 3 4

# ---- back -----------------------------------------------------------------------------------------------
expect 0 migrate rollback --yes
in_phase 2 5
# 2 to 1 is written first; Java may start when the lease is over and no token is left.
redis SET jobs:z $token PX 3600000 >/dev/null
{ migrate rollback --yes & } >"$work/back" 2>"$work/back.err"
back=$!
until_true 20 grep -q 'waiting for 2 tokens' "$work/back.err" || fail "it says nothing of tokens: $(cat "$work/back" "$work/back.err")"
grep -qE 'Java may not start yet: waiting for 2 tokens: jobs:[yz] \(ends in .* jobs:[yz] \(ends in' "$work/back.err" || fail "tokens: $(cat "$work/back.err")"
in_phase 1 6
expect 0 migrate status --json
json_has "$out" java 'not yet: 2 keys hold still a token'
redis DEL jobs:y >/dev/null
! gone $back || fail "it ended with a token there"
expect_refused '1 key holds still a token, at which Java fails: jobs:z' migrate rollback --yes
redis DEL jobs:z >/dev/null
wait_for $back 30
[[ $status == 0 ]] || fail "back: $status"
grep -qx 'namespace default: no token is left: Java may start' "$work/back" || fail "back: $(cat "$work/back")"
[[ $(wc -l <"$work/back.err") == 1 ]] || fail "in a pipe it is silent: $(cat "$work/back.err")"
long_ago
expect 0 migrate status --json
json_has "$out" java 'may run'
expect 0 migrate rollback --yes
in_phase 0 7

# Below 3.2 no lease limits an acquire that was delayed: that is said, and by newer servers nothing.
set_phase 2 10
through old rollback || fail "an old server: $(cat "$out" "$err")"
grep -q '^tidelock: migrate rollback: note: this server, below Redis 3.2, can.t reject an acquire that was delayed' "$err" ||
    fail "an old server: no note: $(cat "$err")"
grep -q 'no token is left: Java may start$' "$out" || fail "an old server: $(cat "$out")"
through old rollback || fail "an old server, from 1 to 0: $(cat "$out" "$err")"
! grep -q 'note: this server' "$err" || fail "a note for stamps: $(cat "$err")"

# A signal ends that wait; the phase has changed, and it says how to find out more.
set_phase 2 10
redis SET jobs:z $token PX 3600000 >/dev/null
{ migrate rollback --yes & } >"$work/back" 2>"$work/back.err"
back=$!
until_true 20 grep -q 'waiting for 1 token' "$work/back.err" || fail "no word of tokens: $(cat "$work/back.err")"
kill -INT $back
kill -TERM $back # a shell's background jobs ignore INT
wait_for $back 30
[[ $status == 143 ]] || fail "TERM: $status"
grep -q 'Java may not start yet: tidelock migrate status' "$work/back.err" || fail "TERM: $(cat "$work/back.err")"
in_phase 1 11
redis DEL jobs:z >/dev/null

# ---- the watch -------------------------------------------------------------------------------------------
watch() { # options; starts it, and waits until it is at it
    set_phase 1 20
    redis CONFIG RESETSTAT >/dev/null
    { migrate advance --yes "$@" & } >"$work/watch" 2>&1
    watch=$!
    until_true 20 is_waiting || fail "it does not watch: $(cat "$work/watch")"
}
refuses() { # pattern; at once, rather than after 5 min
    wait_for $watch 30
    [[ $status == 77 ]] || depth=1 fail "$status instead of 77: $(cat "$work/watch")"
    grep -qE -- "$1" "$work/watch" || depth=1 fail "no '$1': $(cat "$work/watch")"
    in_phase 1 20
}

# SETNX or GETSET run by anybody, and nobody has seen on which key: doubt.
for command in "SETNX elsewhere 1" "GETSET elsewhere 1" "EVAL return(redis.call('SETNX','a','b')) 0"; do
    watch --watch 5m --monitor 0s
    # shellcheck disable=SC2086
    redis $command >/dev/null
    refuses 'SETNX or GETSET ran 1 time meanwhile, and it is not known on which keys: .*: find out with --monitor as long as --watch, or deny them'
done
watch --watch 5m --monitor 100ms # the same when MONITOR is over
not_monitored() { ! redis CLIENT LIST | grep -q 'cmd=monitor'; }
until_true 20 not_monitored || fail "MONITOR doesn't end"
redis SETNX elsewhere 1 >/dev/null
refuses 'ran 1 time meanwhile'
redis ACL SETUSER default -monitor >/dev/null # or when it may not be read
watch --watch 5m
redis SETNX elsewhere 1 >/dev/null
refuses 'ran 1 time meanwhile.*MONITOR is refused: NOPERM.*; find out'
redis ACL SETUSER default +monitor >/dev/null
redis ACL SETUSER default -info >/dev/null
expect_line 77 'NOPERM|permission' migrate advance --yes
redis ACL SETUSER default +info >/dev/null

# Seen by MONITOR, it is named, even if its lock is gone before a scan can see it.
open_port
java() { # commands on one connection, which stays for a while
    exec "$python" - "$port" "$@" <<'PY'
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for line in sys.argv[2:]:
    s.sendall(line.encode() + b"\r\n")
    s.recv(1000)
print(s.getsockname()[1], flush=True)
time.sleep(600)
PY
}
for command in SETNX getset; do
    watch --watch 5m --monitor 5m
    : >"$work/java"
    { java 'CLIENT SETNAME java-7' "$command jobs:quick 1" 'DEL jobs:quick' & } >"$work/java"
    java=$!
    refuses "${command^^} of a legacy client on jobs:quick: 127\.0\.0\.1:[0-9]+( \(called java-7\))?: end it, or have the server refuse it: tidelock migrate acl"
    wait_file "$work/java"
    grep -q "127.0.0.1:$(cat "$work/java")[: ]" "$work/watch" || fail "not its address $(cat "$work/java"): $(cat "$work/watch")"
    kill $java
done
watch --watch 5m --monitor 5m
redis EVAL "redis.call('SETNX', KEYS[1], 1) redis.call('DEL', KEYS[1])" 1 jobs:quick >/dev/null
refuses 'SETNX of a legacy client on jobs:quick: a script'
watch --watch 5m --monitor 5m
redis SETNX jobs:quick x >/dev/null # no stamp at all
refuses 'SETNX of a legacy client on jobs:quick: a client of the unix socket'
redis DEL jobs:quick >/dev/null

# Even while the keys are looked at for the last time.
set_phase 1 20
through java:jobs:quick advance --watch 500ms
[[ $? == 77 ]] || fail "one that comes during the last scan: $(cat "$out" "$err")"
grep -q 'SETNX of a legacy client on jobs:quick: a client of the unix socket' "$err" || fail "the last scan: $(cat "$err")"
in_phase 1 20

# What is seen on other keys is nobody's business; and it stands in the history.
for within in 2 4 8 16 32 64; do # until they come within the watch
    redis DEL elsewhere:{1..5} >/dev/null
    started=$(now_ms)
    watch --watch ${within}s
    printf 'SETNX elsewhere:%d 1\n' {1..5} | redis >/dev/null
    took=$(($(now_ms) - started))
    wait_for $watch 120
    ((took >= within * 1000)) || break
    ((within < 64)) || fail "the watch is over too soon"
done
[[ $status == 0 ]] || fail "others' keys: $status: $(cat "$work/watch")"
in_phase 2 21
expect 0 migrate status --history
grep -qE 'watched for .*: 5 SETNX and GETSET, 5 of them seen on other keys; MONITOR for' "$out" || fail "evidence: $(tail -n 2 "$out")"

# Where the server doesn't count, MONITOR alone is proof if it was read throughout.
redis ACL SETUSER default -info +info\|replication >/dev/null
set_phase 1 20
expect_refused 'the server does not count commands, and MONITOR was not read throughout' migrate advance --yes --watch 1s --monitor 500ms
expect 0 migrate advance --yes --watch 1s
in_phase 2 21
