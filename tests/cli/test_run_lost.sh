#!/bin/bash
# timeout: 400
# run when the lock is lost, or is about to be: the command ends before the deadline, status 74.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# A process that writes the time to a file every 10 ms, so that its end can be seen; it notes TERM
# as well, and ends by it unless it is told to be deaf.
cat >"$work/worker" <<'PY'
import os, signal, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(what, number):
    os.write(log, b"%s %d\n" % (what, number))
def term(number, frame):
    note(b"term", time.time() * 1000)
    if sys.argv[2] != "deaf":
        sys.exit(3)
signal.signal(signal.SIGTERM, term)
note(b"pid", os.getpid())
while True:
    note(b"alive", time.time() * 1000)
    time.sleep(0.01)
PY
worker() { sed -n 's/^pid //p' "$work/log"; }
first() { sed -n 's/^alive //p' "$work/log" | head -n 1; }
alive() { sed -n 's/^alive //p' "$work/log" | tail -n 1; }
term() { sed -n 's/^term //p' "$work/log" | head -n 1; }
is_at_work() { grep -qs '^alive' "$work/log"; }
began() { is_at_work || gone "$run"; }

# Nobody keeps a promise of 100 ms on a processor that is taken away for longer. So tidelock and the worker share one:
# what holds up tidelock holds up the worker, whose log shows it, or ends early. Then, and only then, when the worker ended
# tells nothing of tidelock; that it ended, and how, does. The moments themselves are asserted where time is data: unit/test_guard.
shared=()
if command -v taskset >/dev/null; then
    shared=(taskset -c "$("$python" -c 'import os; print(min(os.sched_getaffinity(0)))')")
fi
held_up() { # when it was to be killed
    awk -v end="$1" '/^(alive|term) / { if (last && $2 - last > 100) held = 1; last = $2 }
        END { exit !(held || end - last > 100) }' "$work/log"
}

# $ttl, $within (what starts the worker), $told (where stderr goes), the worker's manner and options; $run is the
# pid, $work/log what the worker writes. One that was ended before it could begin is started once more.
within=() told=$err
begin() { # manner options...
    local manner=$1
    shift
    for _ in 1 2 3 4 5; do
        rm -f "$work/log" "$work/json"
        { "${shared[@]}" "$tidelock" run -t "$ttl"ms --json-fd 3 "$@" k -- \
            "${within[@]}" "$python" "$work/worker" "$work/log" "$manner" & } 3>"$work/json" 2>"$told"
        run=$!
        until_true 20 began || break
        if is_at_work; then return; fi
        wait "$run"
    done
    depth=1 fail "the worker does not begin"
}

# The server stops (STOP) or dies (KILL), and the command ends before the lock does. What else is wrong $check says.
begun=: ended=: check=:
lose() { # STOP or KILL, manner options...
    local how=$1 end stop_at words
    shift
    begin "$@"
    $begun
    end=$(($(now_ms) + $(redis PTTL k)))
    stop_server "$how"
    stop_at=$(now_ms) # what renewed the lock was sent before
    until_true 30 gone "$(worker)" || depth=1 fail "the command outlives the lock"
    $ended
    wait_for "$run" 30
    [[ $status == 74 ]] || depth=1 fail "status $status"
    json_has "$work/json" state lost
    json_has "$work/json" exit_status 74
    if [[ $how == KILL ]]; then start_server; else stop_server CONT; fi
    until_true 10 is_free k || depth=1 fail "the lock outlives its lifetime"
    words=
    (($(alive) - stop_at < ttl)) || words="the command lived $(($(alive) - stop_at)) ms, longer than $ttl"
    words=${words:-$($check)}
    [[ -z $words ]] || held_up $((end - 100)) || depth=1 fail "$words"
}

# ---- the server stops: the last renewal may be ttl/3 old, so ttl is the longest ---------------
ttl=4000
was_told() { [[ -n $(term) ]] || echo "no TERM before the end"; }
check=was_told
lose STOP polite

# Deaf to TERM: KILL comes before the deadline, and leaves some time for what TERM has begun.
has_grace() { # least
    [[ -n $(term) ]] || { echo "no TERM before the KILL" && return; }
    local grace=$(($(alive) - $(term)))
    ((grace > $1)) || echo "between TERM and KILL were $grace ms, not $1; the KILL came $((end - $(alive))) ms before the end that was seen"
}
grace_of_loss() { has_grace $((ttl / 4 - 400)); }
check=grace_of_loss
lose STOP deaf
json_has "$work/json" signal 9

# Tidelock ends the command itself: its supervisor may be given no processor for a while. Here it is stopped for longer than all lasts.
begin deaf
end=$(($(now_ms) + $(redis PTTL k)))
supervisor=$(ps -o ppid= -p "$(worker)" | tr -d ' ')
named() { [[ $(</proc/"$1"/comm) == tl-supervisor ]]; } # which it is once it goes on after it has begun the command
until_true 20 named "$supervisor" || fail "the command's parent is '$(</proc/"$supervisor"/comm)'"
kill -STOP "$supervisor"
stop_server STOP
until_true 20 gone "$(worker)" || fail "the command outlives the lock while its supervisor is stopped"
[[ -n $(term) ]] || held_up $((end - 100)) || fail "no TERM while the supervisor is stopped"
kill -CONT "$supervisor"
wait_for "$run" 30
[[ $status == 74 ]] || fail "status $status after the supervisor was stopped"
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# What the command leaves of its group is killed before the deadline as well.
within=(sh -c '"$@" & wait' sh) check=:
lose STOP deaf
within=()

# kill: no TERM at all.
was_not_told() { [[ -z $(term) ]] || echo "--on-lost kill: TERM"; }
check=was_not_told
lose STOP polite --on-lost kill

# continue: it runs on, and the status is 74 all the same.
rm -f "$work/log"
{ "$tidelock" run -v -t 1s --on-lost continue k -- \
    sh -c 'echo >"$1"; until [ -e "$2" ]; do sleep 0.05; done; echo >"$3"; exit 5' \
    sh "$work/log" "$work/go" "$work/went_on" & } 2>"$err"
run=$!
wait_file "$work/log"
stop_server STOP
until_true 20 grep -q '^tidelock: k: lost: ' "$err" || fail "--on-lost continue: the loss is not told"
: >"$work/go"
wait_for "$run" 30
[[ $status == 74 ]] || fail "--on-lost continue: status $status"
has_file "$work/went_on" || fail "--on-lost continue: the command was ended"
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# ---- a short outage is nothing to the command, even when a renewal is due meanwhile -------------
# The first renewal is due at a third of what may be believed, which is 0.82 of the lifetime. On a busy machine the outage
# lasts for several seconds more, of which there are eight.
ttl=30000 told=$work/told
begin polite -vv
left() { redis PTTL k; }
renewed() { # since the look before
    local before=$left
    left=$(left)
    ((before > 0 && left > before))
}
renewals() { grep -c ': renew k: .*sends ' "$told"; }
stop_server STOP
sent=$(renewals)
is_sent() { (($(renewals) > sent)); }
until_true 30 is_sent || fail "no renewal is sent while the server is stopped: $(cat "$told")"
sleep 1
stop_server CONT
left=1
until_true 20 renewed || fail "no renewal after an outage of 1 s of 30 s"
! gone $run || fail "an outage of 1 s of 30 s ended the command"
# Of a connection that is lost and comes back the operator is told, unasked.
redis CLIENT KILL TYPE normal >/dev/null
for words in 'the connection for 1 held lock is lost: ' '.*: connected again after '; do
    until_true 10 grep -q "^tidelock: warning: $words" "$told" || fail "no line says '$words': $(cat "$told")"
done
kill -TERM $run
wait_for $run 30
[[ $status == 3 ]] || fail "after an outage: status $status"
told=$err

# ---- the key is deleted, or taken by another: at once ----------------------------------------
ttl=10000 # of which a renewal tells after a third
for taken in DEL SET; do
    begin polite
    if [[ $taken == DEL ]]; then redis DEL k >/dev/null; else redis SET k another PX 600000 >/dev/null; fi
    wait_for $run 30
    [[ $status == 74 ]] || fail "$taken of the key: status $status"
    json_has "$work/json" state lost
    # What another holds is left alone.
    [[ $taken == DEL || $(redis GET k) == another ]] || fail "another's lock was touched"
    redis DEL k >/dev/null
done
# Even when the command ends before a renewal could tell.
expect 74 "$tidelock" run k -- sh -c 'redis-cli -s "$1" DEL k' sh "$socket"
grep -q 'lost' "$err" || fail "nothing is said of the loss"

# ---- what might keep tidelock from its duty ---------------------------------------------------
# Nobody reads its stderr, which the command has filled.
ttl=4000 told=$work/stuck within=(sh -c 'yes >&2 & echo $! >"$0"; exec "$@"' "$work/flood") check=:
mkfifo "$told"
exec 9<>"$told"
reader=
is_stuck() { grep -q yes "/proc/$(cat "$work/flood")/comm" && grep -q '^State:.S' "/proc/$(cat "$work/flood")/status"; }
none_reads() {
    [[ -z $reader ]] || kill $reader
    until_true 20 is_stuck || fail "all that is written to stderr fits into it"
}
one_reads() { # once the command has ended
    cat <"$told" >/dev/null &
    reader=$!
    disown $reader
}
begun=none_reads ended=one_reads
lose STOP deaf -v
# Nor does what is said of a connection keep the lock from being renewed.
ttl=12000
begin polite
none_reads
for _ in 1 2; do # the first renewal makes the connection
    left=0
    until_true 20 renewed || fail "no renewal while nobody reads stderr"
    redis CLIENT KILL TYPE normal >/dev/null
done
one_reads
kill -TERM $run
wait_for $run 30
[[ $status == 3 ]] || fail "while nobody read stderr: status $status"
kill $reader
exec 9>&-
begun=: ended=: told=$err within=()
# It was stopped itself, for longer than the lifetime: the command ends as soon as it goes on.
ttl=4000
begin polite
kill -STOP $run
until_true 10 is_free k || fail "the lock of one that is stopped outlives its lifetime"
kill -CONT $run
wait_for $run 30
[[ $status == 74 ]] || fail "stopped itself: status $status"

# ---- its supervisor is killed -----------------------------------------------------------------
# The kernel kills the command then, but not what the command started: that still has the lock, until it expires.
ttl=12000
for options in --forever '--once-per 1h --on-failure rest'; do
    rm -f "$work/pids" "$work/json"
    # shellcheck disable=SC2086
    { "$tidelock" run $options -t "$ttl"ms --json-fd 3 k -- sh -c 'sleep 600 & echo "$! $PPID $TIDELOCK_TOKEN" >"$1"; wait' sh "$work/pids" & } \
        3>"$work/json" 2>"$err"
    run=$!
    wait_file "$work/pids"
    read -r inner supervisor token <"$work/pids"
    until_true 20 named "$supervisor" || fail "the command's parent is '$(</proc/"$supervisor"/comm)'"
    kill -KILL "$supervisor"
    wait_for "$run" 30
    [[ $(redis GET k) == "$token" ]] || fail "$options: the lock is released while what the command started runs"
    ! gone "$inner" || fail "$options: what the command started has ended"
    [[ $status == 137 ]] || fail "$options: status $status"
    grep -qx 'tidelock: k: tl-supervisor was killed, so what the command started may still run; the lock is not released, and expires by itself' "$err" ||
        fail "$options: nothing is said"
    [[ $(wc -l <"$work/json") == 1 ]] || fail "$options: another round: $(cat "$work/json")"
    json_has "$work/json" state held
    json_has "$work/json" token "$token"
    json_has "$work/json" exit_status 137
    until_true 30 is_free k || fail "$options: the lock outlives its lifetime"
    kill "$inner"
done
# The same while what the command has left is ended with it.
rm -f "$work/pids"
{ "$tidelock" run --max-hold 3s -t 20s k -- sh -c 'sh -c "trap \"\" TERM; echo \$\$ $PPID $$ $TIDELOCK_TOKEN >$1; exec sleep 600" & wait' sh "$work/pids" & } 2>"$err"
run=$!
wait_file "$work/pids"
read -r inner supervisor outer token <"$work/pids"
until_true 30 gone "$outer" || fail "--max-hold does not end the command"
kill -KILL "$supervisor"
wait_for "$run" 30
[[ $(redis GET k) == "$token" ]] || fail "the lock is released while what the command has left runs"
[[ $status == 143 || $status == 137 ]] || fail "the supervisor is killed after TERM: status $status" # 137: it hadn't told yet
grep -q 'k: tl-supervisor was killed, so .* may still run; the lock is not released' "$err" || fail "after TERM nothing is said"
kill -KILL "$inner"
redis DEL k >/dev/null

# ---- the longest hold -------------------------------------------------------------------------
# It has to be long enough for a worker to begin. When it is over: unit/test_guard; here that it is, in which order, and that the
# lock is free then.
ttl=20000
hold() { # manner, status
    begin "$1" --max-hold 3s
    wait_for $run 30
    assert_free k
    [[ $status == "$2" && -n $(term) ]] || held_up $(($(first) + 3000)) || fail "--max-hold: status $status of a $1 command, TERM '$(term)'"
}
hold polite 3
grep -q 'max-hold' "$err" || fail "nothing is said of --max-hold"
json_has "$work/json" state free
hold deaf 137
(($(alive) - $(term) > 700)) || held_up $(($(first) + 3000)) || fail "between TERM and KILL were $(($(alive) - $(term))) ms"
expect 143 "$tidelock" run --max-hold 300ms k -- sleep 60
expect 0 "$tidelock" run --max-hold 20s k -- true

# ---- the server dies, for good ----------------------------------------------------------------
ttl=4000 check=:
lose KILL polite
exit 0
