#!/bin/bash
# URLs that name members of an etcd: what is wrong with one is told in a line, and each command of the tool works with a real
# one, or says why it doesn't.
# timeout: 120
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
nobody=etcd://127.0.0.1:1,127.0.0.1:2

if "$tidelock" run --url etcd:// k -- true 2>&1 | grep -q 'without jansson'; then
    echo "there is no etcd in this build"
    exit 77
fi
expect_line 64 'the host is missing' "$tidelock" run --url etcd:// k -- true
expect_line 64 'no password without a user' "$tidelock" run --url etcd://:hunter2@h k -- true
if grep -q hunter2 "$err"; then fail "a secret is shown"; fi
expect_line 64 'only /PREFIX may follow' "$tidelock" run --url 'etcd://h/a?db=1' k -- true
expect_line 64 'wait_replicas: not with' "$tidelock" run --url $nobody --wait-replicas 1 k -- true
expect_line 64 'wait_fsync: not with' "$tidelock" run --url $nobody --wait-fsync k -- true
expect_line 64 'quiet_ms: not with' "$tidelock" run --url $nobody --quiet 1m k -- true
expect_line 64 'at least 2000 ms' "$tidelock" run --url $nobody --ttl 1s k -- true
expect_line 64 'rediss:// or etcds://' "$tidelock" --url $nobody --tls-ca /dev/null check k
expect_line 69 '127.0.0.1:.*refused' "$tidelock" run --url $nobody --no-wait k -- true
expect_line 69 '127.0.0.1:.*refused' "$tidelock" --url $nobody doctor
for c in skew "agent --once" "migrate status"; do
    # shellcheck disable=SC2086
    expect_line 64 'etcd: this command works with Redis servers only; .* inspect, break, doctor and bench$' "$tidelock" --url $nobody $c
done

# ---- a real one -----------------------------------------------------------------------------------
if ! command -v etcd >/dev/null || ! command -v etcdctl >/dev/null; then
    part_skipped "a real one" "there is no etcd (Debian: etcd-server, etcd-client)"
    exit 0
fi
start_etcd() { # options...
    claim_port
    port=$claimed
    claim_port
    peer=$claimed
    { ETCD_UNSUPPORTED_ARCH=arm64 etcd --name m0 --data-dir "$work/etcd.$port" --logger zap \
        --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "m0=http://127.0.0.1:$peer" "$@" & } >"$work/etcd.log" 2>&1
    export TIDELOCK_URL=etcd://127.0.0.1:$port
    until_true 30 etcd_answers || fail "etcd did not start: $(cat "$work/etcd.log")"
}
etcd_answers() { etcdctl --endpoints "127.0.0.1:$port" endpoint health >"$work/ctl" 2>&1; }
ctl() { etcdctl --endpoints "127.0.0.1:$port" --dial-timeout 60s --command-timeout 60s "$@" >"$work/ctl" 2>&1; }
start_etcd

read -r token fence < <("$tidelock" lock job --ttl 10m) || fail "not locked"
[[ $token =~ ^[0-9a-f]{16}\.[0-9]+$ && $token == *."$fence" ]] || fail "an odd token: $token $fence"
expect_line 75 'another holds it' "$tidelock" lock job
"$tidelock" check job >"$out" && fail "it is held"
grep -q "held by tidelock on .* expires in .* fence $fence" "$out" || fail "$(cat "$out")"
"$tidelock" inspect >"$out" || fail "no list"
grep -q '^job ' "$out" || fail "$(cat "$out")"
"$tidelock" extend job "$token" --ttl 20m >/dev/null || fail "not extended"
"$tidelock" unlock job "$token" >/dev/null || fail "not unlocked"
"$tidelock" unlock job "$token" >/dev/null 2>&1
[[ $? == 1 ]] || fail "unlocked twice"
expect_line 1 'job: no longer held$' "$tidelock" extend job "$token" --ttl 40s
read -r other _ < <("$tidelock" lock job --ttl 10m) || fail "not locked again"
for word in "$token" wrong-token; do
    expect_line 2 'held by another' "$tidelock" unlock job "$word"
    expect_line 2 'held by another' "$tidelock" extend job "$word" --ttl 40s
done
"$tidelock" unlock job "$other" >/dev/null || fail "it was another's"
"$tidelock" check job >/dev/null || fail "it is free"

# shellcheck disable=SC2016
"$tidelock" run job -- sh -c 'echo "$TIDELOCK_FENCE"' >"$out" || fail "not run"
[[ $(cat "$out") -gt $fence ]] || fail "the fence went back: $(cat "$out")"

# One line with etcdctl lock, and a command whose lock is broken.
is_held() { "$tidelock" check "$1" >"$work/checked" 2>&1; (($? == 1)); }
is_waited_for() { is_held "$1" && grep -q " in the queue" "$work/checked"; }
{ etcdctl --endpoints "127.0.0.1:$port" lock --ttl 60 shared -- sh -c "until [ -e '$work/go' ]; do sleep 0.05; done" & } >"$work/lock" 2>&1
until_true 10 is_held shared || fail "etcdctl has no lock: $(cat "$work/lock" "$work/checked")"
"$tidelock" run --wait 10m shared -- test -e "$work/go" &
runner=$!
until_true 10 is_waited_for shared || fail "nobody waits: $(cat "$work/checked")"
touch "$work/go"
wait $runner || fail "not behind etcdctl"
{ "$tidelock" run --ttl 10s broken -- sleep 1000 & } 2>"$err"
runner=$!
until_true 10 is_held broken || fail "not held: $(cat "$work/checked")"
"$tidelock" break --yes broken 2>/dev/null || fail "not broken"
wait $runner
[[ $? == 74 ]] || fail "its loss was not told"

# A rest: etcd tells how long it still lasts, and no time of day.
"$tidelock" lock --rest 10m rested || fail "it doesn't rest"
"$tidelock" check rested >"$out"
[[ $? == 1 ]] || fail "what rests is free"
grep -qE '^resting for another (9|10) min, last held by tidelock on .* \(pid [0-9]+\)$' "$out" || fail "$(cat "$out")"
"$tidelock" inspect --json >"$out"
grep -q '"key":"rested","protocol":"token","state":"resting"' "$out" || fail "$(cat "$out")"
expect_line 0 'rested: removed; it was resting for another' "$tidelock" break --yes rested
"$tidelock" check rested >/dev/null || fail "it rests on"
expect 3 "$tidelock" run --once-per 1h nightly -- sh -c 'exit 3'
expect 0 "$tidelock" run --once-per 1h nightly -- true
done='^tidelock: nightly: done by true on .*free again in 59 min$'
expect_line 75 "$done" "$tidelock" run --once-per 1h nightly -- echo again
expect_line 75 "$done" "$tidelock" run --once-per 1h -w 1m nightly -- echo again
# The doctor names an option that this etcd has.
"$tidelock" doctor --once-per 1d >"$out"
grep -q '^note     rest-leader: ' "$out" || fail "the doctor doesn't speak of leaders"
option=$(grep -oE -m 1 -e '--feature-gates|--experimental-enable-lease-checkpoint' "$out" | head -n 1)
etcd --help >"$work/help" 2>&1
grep -q -e "$option" "$work/help" || fail "this etcd has no '$option'"

"$tidelock" doctor >"$out"
[[ $? == 1 ]] || fail "the doctor is content with one member"
grep -q 'etcd 3' "$out" && grep -q 'there is one member' "$out" || fail "$(cat "$out")"
# Whether lists lack leases is known by the version.
if grep -q '3\.7\.[0-3]$' <(etcd --version | grep 'etcd Version'); then leaseless=1; else leaseless=0; fi
[[ $(grep -c '^note     version: .* lists keys without leases' "$out") == "$leaseless" ]] || fail "$(cat "$out")"
"$tidelock" doctor --json | "$python" -c 'import json, sys; d = json.load(sys.stdin); assert d["findings"][0]["id"] == "members", d' ||
    fail "odd JSON"
"$tidelock" --url "etcd://127.0.0.1:$port,127.0.0.1:1" doctor >"$out"
grep -q '127.0.0.1:1 did not respond: .*refused' "$out" || fail "$(cat "$out")"

# etcd's own Mutex has the same key for each hold under one lease: a token of a former hold takes nothing away from the next.
ctl lease grant 600 && lease=$(sed -n 's/^lease \([0-9a-f]*\) .*/\1/p' "$work/ctl")
mutex=again/$(printf %x "0x$lease") # as it names its key
ctl put --lease="$lease" $mutex '' -w json && former=$(grep -o '"revision":[0-9]*' "$work/ctl" | cut -d: -f2)
ctl del $mutex && ctl put --lease="$lease" $mutex '' || fail "$(cat "$work/ctl")"
for c in extend unlock; do
    args=()
    if [[ $c == extend ]]; then args=(--ttl 9s); fi
    expect_line 2 'held by another' "$tidelock" $c again "${mutex#*/}.$former" "${args[@]}"
    "$tidelock" check again >/dev/null && fail "$c has deleted another's key"
done

# Large values of others are not read to find the locks.
head -c 900000 /dev/zero | tr '\0' x >"$work/large"
for i in $(seq 20); do ctl put "large/$i" <"$work/large" || fail "not put: $(cat "$work/ctl")"; done
read -r _ _ < <("$tidelock" lock behind --ttl 10m) || fail "not locked behind large values"
"$tidelock" inspect >"$out" 2>"$err" || fail "no list behind large values: $(cat "$err")"
grep -q '^behind ' "$out" || fail "$(cat "$out")"

# Names nest, and below a name may stand anything: it blocks, is told as what it is, and isn't removed with the lock.
ctl put config/db host=10.0.0.7 || fail "$(cat "$work/ctl")"
"$tidelock" check config >"$out" && fail "it is blocked"
grep -qx 'blocked by a key that is no contender: config/db, never expires' "$out" || fail "$(cat "$out")"
expect_line 75 'acquire config: blocked by a key that is no contender: config/db' "$tidelock" run -n config -- true
expect_line 75 'acquire config: blocked by a key that is no contender: config/db' "$tidelock" run --once-per 1h -E 0 config -- true
expect_line 64 'config: not removed, since nobody holds it: it is blocked by .*: config/db, never expires; --force' \
    "$tidelock" break --yes config
ctl get config/db && grep -q 10.0.0.7 "$work/ctl" || fail "the data is gone"
{ "$tidelock" run --wait 10m config -- true & } 2>"$err"
runner=$!
until_true 10 eval '"$tidelock" inspect "confi*" >"$out" && grep -q "^config .*blocked by .*config/db" "$out"' || fail "nobody waits: $(cat "$out")"
"$tidelock" check --json config >"$out"
"$python" - "$out" <<'END' || fail "$(cat "$out")"
import json, sys
j = json.load(open(sys.argv[1]))
assert j["state"] == "held" and j["holder"] is None and j["protocol"] is None and j["in_line"] == 1 and "config/db" in j["oddity"], j
END
expect_line 0 'that key was removed; it was blocked by' "$tidelock" break --yes --force config
wait $runner || fail "not acquired when nothing was in the way: $(cat "$err")"
read -r token _ < <("$tidelock" lock a/b --ttl 10m) || fail "not locked"
"$tidelock" check a >"$out" && fail "it is blocked"
grep -q '^blocked by another lock below this name: a/b, expires in ' "$out" || fail "$(cat "$out")"
expect_line 64 'a: not removed, .*another lock below this name: a/b' "$tidelock" break --yes a
grep -q "${token%.*}" "$out" "$err" && fail "a token is shown"
expect 0 "$tidelock" run -n -E 0 a -- echo never
[[ ! -s $out && ! -s $err ]] || fail "-E 0 says of a lock below: $(cat "$out" "$err")"
"$tidelock" unlock a/b "$token" || fail "a/b was removed"
within='acquire a: a tidelock run around this command holds a/b, which is below it; waiting for it would never end'
for c in "run a -- true" "run -w 10m a -- true" "lock -w 10m a" "run x -- $tidelock run a -- true"; do
    # shellcheck disable=SC2086
    expect_line 75 "$within" "$tidelock" run a/b -- "$tidelock" $c
done
odd=$'a b/\xff%"c'
expect_line 75 'which is below it; waiting for it would never end' "$tidelock" run "$odd" -- "$tidelock" run "${odd%/*}" -- true
for c in "run a -- $tidelock run a/b -- true" "run a/b -- $tidelock run a/ -- true" "run a/b -- $tidelock run b -- true"; do
    # shellcheck disable=SC2086
    "$tidelock" $c 2>"$err" || fail "$c: $(cat "$err")"
done
for held in 'af63dc4c8601ec8c:all:' 'af63dc4c8601ec8c:all:a/%' 'af63dc4c8601ec8c:all:a/%zz' :all:a/b af63dc4c8601ec8c:all; do
    TIDELOCK_HELD=$held "$tidelock" run a -- true || fail "$held"
done

# A learner carries out nothing, and is no member that counts.
first=127.0.0.1:$port
claim_port
learner=$claimed
claim_port
of_learner=$claimed
ctl member add l0 --learner --peer-urls="http://127.0.0.1:$of_learner" || fail "$(cat "$work/ctl")"
{ ETCD_UNSUPPORTED_ARCH=arm64 etcd --name l0 --data-dir "$work/learner" --logger zap --initial-cluster-state existing \
    --listen-client-urls "http://127.0.0.1:$learner" --advertise-client-urls "http://127.0.0.1:$learner" \
    --listen-peer-urls "http://127.0.0.1:$of_learner" --initial-advertise-peer-urls "http://127.0.0.1:$of_learner" \
    --initial-cluster "m0=http://127.0.0.1:$peer,l0=http://127.0.0.1:$of_learner" & } >"$work/learner.log" 2>&1
until_true 30 eval '"$tidelock" --url "etcd://127.0.0.1:$learner" doctor 2>/dev/null >"$out"; [[ $? == 2 ]] && grep -q "^danger   learner: " "$out"' ||
    fail "the doctor finds a learner fine: $(cat "$out")"
grep -q "^danger   learner: 127.0.0.1:$learner" "$out" || fail "$(cat "$out")"
"$tidelock" --url "etcd://127.0.0.1:$learner,$first" doctor >"$out"
grep -q "^warning  learner: 127.0.0.1:$learner" "$out" && grep -q 'there is one member' "$out" || fail "$(cat "$out")"
"$tidelock" --url "etcd://127.0.0.1:$learner,$first" check no >/dev/null || fail "the learner alone was asked"
"$tidelock" --url "etcd://127.0.0.1:$learner,$first" run --wait 10m no -- true || fail "the learner alone was asked for a lock"

# Without the gateway gRPC is enough, also for the doctor. A build without that says what it lacks.
start_etcd --enable-grpc-gateway=false
if "$tidelock" run k -- true 2>"$err"; then
    "$tidelock" doctor >"$out"
    [[ $? == 1 ]] && grep -q 'etcd 3' "$out" || fail "the doctor needs the gateway: $(cat "$out")"
else
    grep -q 'enable-grpc-gateway=false? Build tidelock with libnghttp2' "$err" || fail "$(cat "$err")"
fi

# Members of two: two could hold one lock.
start_etcd
"$tidelock" --url "etcd://$first,127.0.0.1:$port" doctor >"$out"
[[ $? == 2 ]] || fail "the doctor is content with two etcds: $(cat "$out")"
grep -q "^danger   url: 127.0.0.1:$port is of another etcd than $first" "$out" || fail "$(cat "$out")"

# Who may not lock is told so by the doctor, and the one who may isn't.
for u in root locker reader; do ctl user add $u:pw || fail "$(cat "$work/ctl")"; done
for u in locker reader; do ctl role add $u; done
ctl role grant-permission locker --prefix=true readwrite jobs/ && ctl role grant-permission reader --prefix=true read jobs/ &&
    ctl user grant-role root root && ctl user grant-role locker locker && ctl user grant-role reader reader && ctl auth enable ||
    fail "$(cat "$work/ctl")"
doctor_as() { # status user options...
    local want=$1 user=$2
    shift 2
    "$tidelock" --url "etcd://$user:pw@127.0.0.1:$port/jobs" doctor "$@" >"$out"
    [[ $? == "$want" ]] || fail "$user: not status $want: $(cat "$out")"
}
doctor_as 1 locker k
grep -q permissions "$out" && fail "$(cat "$out")"
doctor_as 1 locker
grep -q permissions "$out" && fail "$(cat "$out")"
doctor_as 2 reader k
grep -q '^danger   permissions: this user may not lock the key' "$out" || fail "$(cat "$out")"
doctor_as 1 reader
grep -q '^unseen   permissions: which keys' "$out" || fail "$(cat "$out")"
"$tidelock" doctor >"$out" 2>"$err" # of some versions not even its state
[[ $? =~ ^(2|77)$ ]] && grep -qE 'etcd (wants|requires) a user' "$out" "$err" || fail "$(cat "$out")"
expect_line 77 "127.0.0.1:$port: login: " "$tidelock" --url "etcd://locker:wrong@127.0.0.1:$port" doctor

# Another HTTP server: each command says which, and the doctor gives the others' status.
claim_port
http_port=$claimed
{ "$python" - "$http_port" <<'END' & } >"$work/http.log" 2>&1
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(502 if self.headers["Host"].startswith("localhost") else 403)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
END
until_true 10 eval '[[ $("$tidelock" --url "etcd://127.0.0.1:$http_port" check no 2>&1) == *"HTTP status"* ]]' || fail "it does not answer: $(cat "$work/http.log")"
for c in "check no" "unlock no $token" "extend no $token --ttl 9s" doctor; do
    # shellcheck disable=SC2086
    expect_line 70 "127.0.0.1:$http_port: this is no reply of etcd's JSON gateway: HTTP status 403" \
        "$tidelock" --url "etcd://127.0.0.1:$http_port" $c
    # shellcheck disable=SC2086
    expect_line 69 "localhost:$http_port: HTTP status 502" "$tidelock" --url "etcd://localhost:$http_port" $c
done
# Where a member can't serve, questions are put to the next, as everything else is.
export TIDELOCK_URL=etcd://localhost:$http_port,$first
"$tidelock" check no >"$out" || fail "only one was asked: $(cat "$out")"
"$tidelock" inspect >"$out" 2>"$err" || fail "only one was asked for a list: $(cat "$err")"
expect_line 1 'nobody holds it' "$tidelock" break --yes no
