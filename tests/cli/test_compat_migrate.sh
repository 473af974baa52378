#!/bin/bash
# timeout: 180
# migrate: each step waits and is refused as it must, names who and what to do, and has a way back.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server

began() { started=$(now_ms); }
took() { # at least ms
    local ms=$(($(now_ms) - started))
    ((ms >= $1)) || depth=1 fail "it took only $ms ms of $1"
}

# ---- from 0 to 3 and back, with nobody about ----------------------------------------------------------
expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 0 --yes
for step in "advance 1 2" "advance 2 3" "advance 3 4" "rollback 2 5" "rollback 1 6" "rollback 0 7"; do
    read -r word phase epoch <<<"$step"
    long_ago
    expect 0 migrate $word --yes
    grep -qE "^namespace default: phase [0-9] \([a-z]+\) -> $phase \([a-z]+\), epoch $epoch$" "$out" || fail "$step: $(cat "$out")"
    in_phase "$phase" "$epoch"
    [[ ! -s $err ]] || fail "in a pipe it is silent: $(cat "$err")"
done
expect_refused 'phase 0 \(timestamp\) is the first' migrate rollback --yes
set_phase 3 8
expect_refused 'phase 3 \(token\) is the last' migrate advance --yes
in_phase 3 8
# The phase that is meant, or none: who repeats a step, or comes after another who has made it, makes no second one.
set_phase 0 8
for step in 'advance 1 2 9' 'advance 2 3 10' 'rollback 1 0 11'; do
    read -r word meant next epoch <<<"$step"
    long_ago
    expect 0 migrate "$word" --yes --phase "$meant"
    in_phase "$meant" "$epoch"
    long_ago
    expect_refused "namespace default is in phase $meant \([a-z]+\), from where it leads to $next \([a-z]+\), not to $meant .*: tidelock migrate status --namespace default" \
        migrate "$word" --yes --phase "$meant"
    in_phase "$meant" "$epoch"
done
set_phase 0 8
expect_refused 'phase 0 \(timestamp\) is the first' migrate rollback --yes --phase 0
set_phase 3 8
expect 0 migrate status --history
for want in 'init +phase 0, epoch 1, by .*@.* pid [0-9]+' 'advance +phase 1 -> 2, epoch 2 -> 3, by' 'rollback +phase 1 -> 0, epoch 6 -> 7'; do
    grep -qE "$want" "$out" || fail "history: no '$want': $(cat "$out")"
done
grep -qE '^    clients confirmed: 0; 0 stamps.*watched for .*: 0 SETNX and GETSET' "$out" || fail "evidence: $(cat "$out")"

# ---- Java may start only by what is true at the end of the scan ---------------------------------------------
set_phase 2 5
through "up:$register" rollback
[[ $? == 77 ]] || fail "another operator has gone up meanwhile: $(cat "$out" "$err")"
grep -q 'refused: the namespace has moved to epoch 7, phase 2, meanwhile: another operator was faster' "$err" || fail "up: $(cat "$err")"
! grep -q 'Java may start$' "$out" || fail "Java may start in phase 2: $(cat "$out")"
set_phase 2 5
through "restart:$register" rollback || fail "a connection is lost: $(cat "$out" "$err")"
grep -q 'no token is left: Java may start$' "$out" || fail "a connection is lost: $(cat "$out" "$err")"
(($(cat "$work/proxy.sock.scans") >= 2)) || fail "what another server may have said is believed"
set_phase 0 1

# ---- a register that can't be read again stays what it was ---------------------------------------------------
set_phase 1 5
"$tidelock" run --protocol bridge jobs:other -- sleep 1000 2>/dev/null & # a holder that isn't registered
other=$!
until_true 20 is_held jobs:other || fail "no lock"
through once: status
[[ $? == 69 ]] || fail "status, of a part: $(cat "$out" "$err")"
! grep -q 'not registered' "$out" || fail "status: it is registered: $(cat "$out")"
through once: survey --watch 300ms || fail "survey: $(cat "$out" "$err")"
grep -q '^namespace default is in phase 1 (bridge), keys jobs:\*$' "$out" || fail "survey: it is registered: $(cat "$out")"
grep -q '^  not read: which clients have registered meanwhile: ' "$out" || fail "survey: silence: $(cat "$out")"
kill $other
wait $other 2>/dev/null
set_phase 0 1

# ---- leases ---------------------------------------------------------------------------------------------
# A change within a lease, or a client: a lease is waited for that this very command has seen.
began
set_phase 0 1 "$(server_us)"
expect 0 migrate advance --yes
took 990 # what is left of the register's, on the server's clock
set_phase 0 1
client one 1 0 600
began
expect 0 migrate advance --yes
took 1000
in_phase 1 2

# A live client that has not confirmed this epoch: refused at once, with its name and what to do.
for record in "1 0" "0 1" "1 1"; do
    # shellcheck disable=SC2086
    client one $record 60 'import sh'
    expect_refused "import sh on db1 \(pid 4711\), seen .* ago: wait: it reads the phase every 333 ms; one that has died is dropped in" \
        migrate advance --yes
    expect_refused 'import sh' migrate rollback --yes
done
client one 3 1 600
expect_refused 'has seen epoch 3, later than the register.s 2, which was set back' migrate advance --yes
redis HSET "$register:clients" odd x >/dev/null
client one 2 1 600
expect_refused "can't be read: 'x'" migrate advance --yes
redis HDEL "$register:clients" odd >/dev/null
in_phase 1 2
client dead 1 0 -1 # one that is gone forbids nothing, and goes away with the change
expect 0 migrate advance --yes
in_phase 2 3
[[ $(redis HEXISTS "$register:clients" dead) == 0 ]] || fail "who is gone is still there"

# What changes while it waits is seen: another epoch, a client that does not act by this one. One that does,
# does no harm.
busy() { # starts it in the background, and waits until it is at it
    redis CONFIG RESETSTAT >/dev/null
    redis HSET "$register" lease_ms "$1" >/dev/null
    shift
    { "$@" & } >"$work/step" 2>&1
    step=$!
    until_true 20 is_waiting || fail "it does not wait: $(cat "$work/step")"
}
set_phase 0 4
client one 4 0 600
busy 60000 migrate advance --yes
client two 3 0 600 late
wait_for $step 30
[[ $status == 77 ]] || fail "a client that came: $status"
grep -q 'refused: a client has not confirmed epoch 4.*late on db1' "$work/step" || fail "a client that came: $(cat "$work/step")"
in_phase 0 4
no_clients
client one 4 0 600
busy 60000 migrate advance --yes
set_phase 1 5
wait_for $step 30
[[ $status == 77 ]] || fail "an epoch that changed: $status"
grep -q 'refused: the namespace has moved to epoch 5, phase 1, meanwhile: another operator' "$work/step" || fail "an epoch that changed: $(cat "$work/step")"
in_phase 1 5
set_phase 0 5
client one 5 0 600
busy 60000 migrate advance --yes
redis HSET "$register" since 2 >/dev/null # another one of the same number
wait_for $step 30
[[ $status == 77 ]] || fail "another epoch of the same number: $status: $(cat "$work/step")"
in_phase 0 5
set_phase 0 6
client one 6 0 600
busy 3000 migrate advance --yes
client two 6 0 600
wait_for $step 30
[[ $status == 0 ]] || fail "a client that acts by the epoch: $status: $(cat "$work/step")"
in_phase 1 7
redis HSET "$register" lease_ms 1000 >/dev/null
no_clients

# Who is late, or has died, is waited for, on the way back too; what doesn't go away by itself isn't.
for word in rollback advance; do
    set_phase 1 20
    client one 19 0 600 'import sh'
    { "$tidelock" migrate $word --yes --wait 600s & } >"$work/step" 2>&1
    step=$!
    until_true 20 grep -qE "^tidelock: migrate $word: waiting, for 600 s at most: a client has not confirmed epoch 20: .*: import sh on db1" "$work/step" ||
        fail "it waits in silence: $(cat "$work/step")"
    client one 19 0 -1 'import sh'
    wait_for $step 30
    [[ $status == 0 ]] || fail "a client that has died: $status: $(cat "$work/step")"
    in_phase $([[ $word == advance ]] && echo 2 || echo 0) 21
done
set_phase 1 20
client one 19 0 600
{ "$tidelock" migrate rollback --yes --wait 600s & } >"$work/step" 2>&1
step=$!
until_true 20 grep -q 'waiting, for' "$work/step" || fail "it does not wait: $(cat "$work/step")"
client one 20 1 600
wait_for $step 30
[[ $status == 0 ]] || fail "a client that has confirmed: $status: $(cat "$work/step")"
in_phase 0 21
set_phase 1 20
client one 19 0 600
expect_refused 'has not confirmed epoch 20' migrate rollback --yes --wait 0s
client one 21 2 600
expect_refused 'later than the register' migrate rollback --yes --wait 60s
no_clients
set_phase 2 20 # a stamp of our own that isn't over
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 600s jobs:ours
redis HSET "$register:clients" itself "20 2 1000 $(($(server_us) + 600000000)) 0.1.0 $(redis HGET 'tidelock:{jobs:ours}' owner)" >/dev/null
{ "$tidelock" migrate advance --yes --wait 600s & } >"$work/step" 2>&1
step=$!
until_true 20 grep -q "waiting, for .*: 1 stamp is left of tidelock's own: jobs:ours" "$work/step" || fail "it does not wait: $(cat "$work/step")"
redis DEL jobs:ours 'tidelock:{jobs:ours}' >/dev/null
wait_for $step 30
[[ $status == 0 ]] || fail "a stamp that has gone: $status: $(cat "$work/step")"
in_phase 3 21
no_clients

# A signal ends the wait, and changes nothing.
set_phase 0 8
client one 8 0 600
busy 60000 migrate advance --yes
kill -TERM $step
wait_for $step 30
[[ $status == 143 ]] || fail "TERM: $status"
in_phase 0 8
redis HSET "$register" lease_ms 1000 >/dev/null
no_clients

# Of two operators one moves.
tries=0 epoch=0
while ((epoch < 30)); do
    ((epoch += 10, ++tries < 20)) || fail "two at once: they never are"
    set_phase 0 $epoch "$(server_us)"
    { migrate advance --yes & } >"$work/a" 2>&1
    a=$!
    { migrate advance --yes & } >"$work/b" 2>&1
    b=$!
    wait_for $a 30
    first=$status
    wait_for $b 30
    # One that was held up until the other had ended leads on from there; then they weren't two at once.
    if [[ "$first $status" == "0 0" ]] && grep -q "phase 1 (bridge) -> 2 (drain), epoch $((epoch + 2))$" "$work/a" "$work/b"; then
        ((epoch -= 10, 1))
        continue
    fi
    [[ "$first $status" == "0 77" || "$first $status" == "77 0" ]] || fail "two at once: $first, $status: $(cat "$work/a" "$work/b")"
    [[ $(cat "$work/a" "$work/b" | grep -c "has moved to epoch $((epoch + 1)), phase 1, meanwhile") == 1 ]] ||
        fail "two at once: $(cat "$work/a" "$work/b")"
    in_phase 1 $((epoch + 1))
done

# ---- another server --------------------------------------------------------------------------------------
# Behind a connection that is new another server may stand: the lease is counted anew, or nothing changes.
no_clients
lose_it() { # while it waits; fails when it has not waited so long
    set_phase 0 1
    redis HSET "$register:clients" one "1 0 3000 $(($(server_us) + 600000000)) 0.1.0 db1 4711 nightly" >/dev/null
    redis CONFIG RESETSTAT >/dev/null
    { "$tidelock" migrate advance --yes </dev/null & } >"$out" 2>"$err"
    advancing=$!
    until_true 10 is_waiting || fail "it does not begin to wait"
    nap 1 || : # of its 3 s
    began
    said=$(printf '%s\n' MULTI "HGET $register epoch" 'CLIENT KILL TYPE normal SKIPME yes' EXEC | redis | tail -n 2 | tr '\n' ' ')
    wait_for "$advancing" 30
    [[ $said =~ ^1\ [1-9] ]]
}
for try in {1..20}; do
    if lose_it; then break; fi
    ((try < 20)) || fail "it does not wait: $said"
done
case $status in
0)
    took 3000
    in_phase 1 2
    ;;
69) in_phase 0 1 ;;
*) fail "status $status: $(cat "$err")" ;;
esac
no_clients

# What the script that changes the register compares, at the instant of changing it.
set_phase 0 39
redis MONITOR >>"$work/monitor" &
monitor=$!
wait_file "$work/monitor"
expect 0 migrate advance --yes
redis ECHO the-end >/dev/null
until_true 10 grep -aq '"the-end"' "$work/monitor" || fail "MONITOR does not tell"
kill $monitor
"$python" - "$work/monitor" "$socket" "$(server_us)" <<'PY' || fail "the script: $(cat "$err")"
import ast, subprocess, sys
line = [l for l in open(sys.argv[1], errors="replace") if '"EVAL"' in l and '"4" "tidelock:phase' in l][-1]
words = ast.literal_eval("[" + line.split("] ", 1)[1].strip().replace('" "', '", "') + "]")
now, at = int(sys.argv[3]), int(float(line.split()[0]) * 1000000)
def redis(*w):
    return subprocess.run(["redis-cli", "-s", sys.argv[2], *w], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
R, C = words[3:5]
run_id, permitted = words[13:15]
until, time, pid = permitted.split()
assert run_id in "".join(redis("INFO", "server")) and len(run_id) == 40, run_id
assert 0 < int(until) - at < 60000000, (until, at)  # when it came it was for then alone
assert 0 <= at - int(time) < 60000000 and redis("EXISTS", words[6])[0] == "0", (time, at)  # and once
ages = str(now + 3600000000)
def change(epoch, keys="", phase=words[8], server=run_id, until=ages, script=words[1]):
    return redis("EVAL", script, *words[2:7], epoch, phase, *words[9:11], keys, "1000", server, "%s %d 7" % (until, now))
def client(epoch, ms=600000, phase=1):
    redis("HSET", C, "c", "%d %d 1000 %d 0.1.0 db1 7 x" % (epoch, phase, now + ms * 1000))
assert redis("HGET", R, "epoch")[0] == "40"
assert change("39")[:3] == ["epoch", "40", "1"] and change("41")[0] == "epoch" and change("")[0] == "epoch"
client(39)
assert change("40")[:2] == ["client", "c"]
client(41)
assert change("40")[0] == "client"
assert change("40", server="f" * 40)[:1] == ["server"]  # not the one that was judged
assert change("40", until=str(now - 1000000))[:1] == ["late"]  # held up on its way
redis("HSET", C, "c", "nonsense")
assert change("40")[0] == "client"
assert redis("HMGET", R, "phase", "epoch")[:2] == ["1", "40"]
client(39, -4000)  # gone
assert change("40")[:2] == ["done", "41"] and redis("HLEN", C)[0] == "0"
client(41)
assert change("41")[:2] == ["done", "42"] and redis("HLEN", C)[0] == "1"
redis("DEL", R)
assert change("42")[0] == "epoch"
client(50)
assert change("", "jobs:*")[:2] == ["done", "51"]  # above whatever a client has seen
client(60)
assert change("51")[0] == "client"
assert change("51", "jobs:*", "2")[:2] == ["done", "61"]  # the same where the register went back
client(60, phase=0)
assert change("61", "jobs:*", "2")[:2] == ["client", "c"]  # but not two phases away from anybody
assert change("61", "x", "1", server="f" * 40)[0] == "server" and change("61", "x", "1", until="1")[0] == "late"
assert redis("HMGET", R, "phase", "epoch", "keys", "lease_ms", "from")[:5] == ["2", "61", "jobs:*", "1000", "1"]
client(61, phase=2)
assert change("61", "x", "2")[:2] == ["done", "62"]
assert redis("HMGET", R, "phase", "keys", "from")[:3] == ["2", "x", "1"]  # it is still known where it came from

# Below 3.2 the permit tells whether it comes too late, and the time is that before it was sent.
timeless = words[1].replace("redis.replicate_commands and redis.replicate_commands()", "nil").replace("redis.call('TIME')", "nil")
redis("DEL", C)
assert change("62", script=timeless)[0] == "late"
soon = str(now + 5000000)
redis("SET", words[6], soon + " 1 8")
assert change("62", script=timeless, until=soon)[0] == "late"  # another step's
redis("SET", words[6], "%s %d 7" % (soon, now))
client(62, -2500)  # not gone by that time
assert change("62", script=timeless, phase="3", until=soon)[:2] == ["done", "63"]
assert redis("HLEN", C)[0] == "1" and redis("EXISTS", words[6])[0] == "0"
assert redis("HGET", R, "since")[0] == soon  # at the latest then
redis("SET", words[6], "%s %d 7" % (soon, now))
client(63, -4000)
assert change("63", script=timeless, until=soon)[:2] == ["done", "64"] and redis("HLEN", C)[0] == "0"
PY
no_clients

# ---- on a terminal --------------------------------------------------------------------------------------
cat >"$work/ask.py" <<'PY'
import os, pty, sys
answer, args = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(args[0], args)
seen = b""
while b"[y/N]" not in seen:
    seen += os.read(fd, 1000)
os.write(fd, answer.encode() + b"\n")
while True:
    try:
        more = os.read(fd, 1000)
    except OSError:
        break
    if not more:
        break
    seen += more
sys.stdout.write(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
redis HSET "$register" keys 'jobs:*' lease_ms 2000 >/dev/null # it has to be asked, and to wait for the rest
set_phase 0 40
client one 40 0 600
for answer in n ''; do
    expect 77 "$python" "$work/ask.py" "$answer" "$tidelock" migrate advance
    grep -q 'from phase 0 (timestamp) to 1 (bridge)?' "$out" || fail "the question: $(cat "$out")"
    grep -q 'migrate advance: nothing is changed' "$out" || fail "no: $(cat "$out")"
done
in_phase 0 40
expect 0 "$python" "$work/ask.py" y "$tidelock" migrate advance
grep -q 'waiting for the leases of the phase before to end: another [0-9]* s' "$out" || fail "progress: $(cat "$out")"
in_phase 1 41

# ---- a replica ------------------------------------------------------------------------------------------
redis REPLICAOF 127.0.0.1 1 >/dev/null
expect_line 69 'this is a replica.*its master, 127.0.0.1:1' migrate status
redis REPLICAOF NO ONE >/dev/null
# ---- without the tool's script commands -----------------------------------------------------------------
redis ACL SETUSER default -eval >/dev/null
expect_line 77 'NOPERM|permission' migrate advance --yes
