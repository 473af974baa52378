#!/bin/bash
# skew --servers: a master, replicas, a Sentinel and a cluster of real servers, some of them on clocks that are
# off by a known amount. Each has one row, whoever tells of it and by whatever name.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

# ---- servers -----------------------------------------------------------------------------------------
for _ in {1..9}; do
    claim_port
    port+=("$claimed")
done
at() { echo "127.0.0.1:${port[$1]}"; }
rediss() { redis-cli -p "${port[$1]}" "${@:2}" 2>/dev/null; }
pongs() { [[ $(rediss "$1" PING) == PONG || $(rediss "$1" PING) == *NOAUTH* ]]; }
start() { # number, options of redis-server
    local n=$1
    shift
    mkdir -p "$work/s$n"
    { redis-server --port "${port[n]}" --bind 127.0.0.1 --dir "$work/s$n" --save '' --appendonly no --loglevel warning "$@" & } \
        >"$work/s$n/log" 2>&1
    pid_of[n]=$!
    until_true 15 pongs "$n" || fail "server $n did not start: $(cat "$work/s$n/log")"
}
declare -a pid_of
rows() { # a Python expression over the rows of the servers (by name) and d
    "$python" - "$out" "$1" "${port[@]}" <<'PY' || depth=1 fail "$1: $(head -c 4000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
names = ["127.0.0.1:" + p for p in sys.argv[3:]]
hosts = [h for h in d["hosts"][1:] if h["instrument"] == "server"]
rows = {h["name"]: h for h in hosts}
assert len(rows) == len(hosts), "a row twice"
has = lambda n, ms=0.0: rows[names[n]]["status"] == "ok" and rows[names[n]]["offset_ms"]["lo"] <= ms <= rows[names[n]]["offset_ms"]["hi"] and rows[names[n]]["offset_ms"]["hi"] - rows[names[n]]["offset_ms"]["lo"] < 4000
lacks = lambda n, words: rows[names[n]]["offset_ms"] is None and words in rows[names[n]]["detail"]
pairs = [p for p in d["pairs"]]
assert eval(sys.argv[2]), rows
PY
}

start 0
start 1 --replicaof 127.0.0.1 "${port[0]}"
start 2 --replicaof 127.0.0.1 "${port[0]}"
synced() { [[ $(rediss 0 INFO replication | grep -c 'state=online') == "$1" ]]; }
until_true 30 synced 2 || fail "no replicas: $(rediss 0 INFO replication)"

# ---- a master and its replicas -------------------------------------------------------------------------
export TIDELOCK_URL=redis://$(at 0)
expect 0 "$tidelock" agent --once --every 10m --name elsewhere
expect 0 "$tidelock" skew --slack 20s --servers --json
rows 'set(rows) == set(names[:3]) and has(0) and has(1) and has(2) and rows[names[0]]["offset_ms"] == {"lo": 0, "hi": 0} and len(pairs) == 20'
expect 1 "$tidelock" skew --servers --no-agents # servers are no second host
grep -q '^WARN: only one host' "$out" || fail "servers alone: $(cat "$out")"
# By another name for the master, which its replicas tell of by its address; and from a replica.
expect 0 "$tidelock" --url "redis://localhost:${port[0]}" skew --slack 20s --servers --json
rows 'set(rows) == {"localhost:" + names[0][10:], *names[1:3]}'
copied() { [[ $(rediss 1 GET '{tidelock:agents}:elsewhere') ]]; }
until_true 10 copied || fail "the replica has no record"
expect 1 "$tidelock" --url "redis://$(at 1)" skew --servers --json # agents measure against the master
rows 'set(rows) == set(names[:3]) and has(0) and has(1) and has(2)'
grep -q '"name":"elsewhere","instrument":"agent","offset_ms":null,[^}]*"status":"void","detail":"measured against another server' "$out" ||
    fail "an agent of another server: $(cat "$out")"

# ---- one whose clock is off: it may judge tomorrow -------------------------------------------------------
{ "$python" "$here/tests/cli/late_redis.py" "${port[3]}" 5000000 "${port[0]}" & } >"$work/late" 2>&1
late=$!
wait_file "$work/late"
expect 2 "$tidelock" skew --servers="$(at 3)" --json
rows 'set(rows) == set(names[:4]) and has(3, 5000.0) and has(1) and d["verdict"] == "UNSAFE"'
grep -q "the clock of $(at 3)" "$out" || fail "who is it: $(head -c 600 "$out")"
expect 0 "$tidelock" skew --slack 20s --json # not asked for, not seen
kill "$late"
wait "$late" 2>/dev/null
expect 1 "$tidelock" skew --servers="$(at 3),$(at 1)" --json
rows 'set(rows) == set(names[:4]) and lacks(3, "refused") and d["verdict"] == "WARN"'

# ---- a Sentinel --------------------------------------------------------------------------------------
mkdir "$work/sentinel"
echo "port ${port[4]}
bind 127.0.0.1
dir $work/sentinel
sentinel monitor main 127.0.0.1 ${port[0]} 1" >"$work/sentinel/conf"
{ redis-server "$work/sentinel/conf" --sentinel & } >"$work/sentinel/log" 2>&1
pid_of[4]=$!
knows_replicas() { [[ $(rediss 4 SENTINEL MASTER main | grep -A1 '^num-slaves$' | tail -1) == 2 ]]; }
until_true 30 knows_replicas || fail "the Sentinel knows nobody: $(cat "$work/sentinel/log")"
time_of_sentinel=$(rediss 4 INFO server | grep -c server_time_usec)
expect 0 "$tidelock" skew --slack 20s --servers="$(at 4)" --json
rows 'set(rows) == {names[n] for n in (0, 1, 2, 4)} and has(0) and has(1) and has(2) and len(pairs) == 20'
((time_of_sentinel == 0)) || rows 'has(4) and "ends no lock" in rows[names[4]]["detail"]'
# By its own URL: all is measured against its master, where the agents are, too.
expect 0 "$tidelock" --url "redis://$(at 4)" skew --slack 20s --servers --json
rows 'set(rows) == {names[n] for n in (0, 1, 2, 4)} and rows[names[0]]["offset_ms"] == {"lo": 0, "hi": 0} and len(pairs) == 20'
kill -STOP "${pid_of[2]}" # a replica that the Sentinel still knows and nobody reaches
expect 1 "$tidelock" --url "redis://$(at 4)" skew --servers --json
rows 'lacks(2, "no reply") and has(1)'
kill -CONT "${pid_of[2]}"
rediss 4 SENTINEL MONITOR other 127.0.0.1 "${port[1]}" 1 >/dev/null
expect_line 64 'this Sentinel watches 2 masters' "$tidelock" --url "redis://$(at 4)" skew --servers
kill "${pid_of[4]}"

# ---- passwords: the servers' login is not the Sentinel's ----------------------------------------------------
for n in 0 1 2; do rediss $n CONFIG SET requirepass secret >/dev/null; done
export TIDELOCK_PASSWORD=secret
expect 0 "$tidelock" skew --slack 20s --servers --json
rows 'has(0) and has(1) and has(2)'
start 5
expect 0 "$tidelock" skew --slack 20s --servers="$(at 5)" --json # asks for none
rows 'has(5)'
rediss 5 CONFIG SET requirepass other >/dev/null
expect 1 "$tidelock" skew --servers="$(at 5)" --json
rows 'lacks(5, "asks for a password") or lacks(5, "login refused")'
grep -q secret "$out" && fail "the password is shown"
unset TIDELOCK_PASSWORD

# ---- a cluster ---------------------------------------------------------------------------------------
for n in 6 7; do start $n --cluster-enabled yes --cluster-node-timeout 2000; done
rediss 6 CLUSTER MEET 127.0.0.1 "${port[7]}" >/dev/null
met() { [[ $(rediss 6 CLUSTER NODES | grep -c ' connected') == 2 && $(rediss 7 CLUSTER NODES | grep -c ' connected') == 2 ]] &&
    ! rediss 6 CLUSTER NODES | grep -q handshake; }
until_true 30 met || fail "no cluster: $(rediss 6 CLUSTER NODES)"
rediss 6 CLUSTER ADDSLOTSRANGE 0 16383 >/dev/null
up() { rediss 6 CLUSTER INFO | grep -q 'cluster_state:ok'; }
until_true 30 up || fail "the cluster is not up: $(rediss 6 CLUSTER INFO)"
for n in 6 7; do rediss $n CONFIG SET cluster-node-timeout 60000 >/dev/null; done # so that a slow one is none that failed
export TIDELOCK_URL=redis://$(at 6)
expect 0 "$tidelock" agent --once --every 10m --name elsewhere
expect 0 "$tidelock" skew --slack 20s --servers --json
rows 'set(rows) == {names[6], names[7]} and has(6) and has(7)'

# One whom a node doesn't permit INFO learns no other master: that is refused, or where it permits no question at all, said.
for n in 6 7; do
    rediss $n ACL SETUSER few on '>x' '~*' '&*' +@all -info >/dev/null
    rediss $n ACL SETUSER fewer on '>x' '~*' '&*' +@all -info -cluster >/dev/null
done
expect 0 "$tidelock" --url "redis://few:x@$(at 6)" agent --once --every 10m --name elsewhere
expect_line 77 "NOPERM.*'info'" "$tidelock" --url "redis://few:x@$(at 6)" skew --slack 20s
expect 1 "$tidelock" --url "redis://fewer:x@$(at 6)" skew --slack 20s
grep -q '^WARN: whether the server is a node of a cluster, .* is not known' "$out" || fail "who may ask nothing: $(cat "$out")"

# ---- wrong usage, and no server ------------------------------------------------------------------------
for p in x :1 x:0 x:y 'a b:1' x:1,,y:2; do expect_line 64 '--servers' "$tidelock" skew --servers="$p"; done
expect_line 69 'refused' "$tidelock" --url "redis://$(at 8)" skew --servers
exit 0
