#!/bin/bash
# timeout: 180
# --metrics of run, skew and agent: what is in the file, that Prometheus' own promtool finds nothing to say against it,
# and that a file which can't be written harms nothing.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/prometheus.sh"
start_server
file=$work/run.prom

# ---- run: it went well ----------------------------------------------------------------------------
before=$(date +%s)
expect 0 "$tidelock" run --metrics "$file" k -- sleep 0.3
check "$file"
is 'tidelock_run_state{key="k",state="free"}' 1
is 'tidelock_run_exit_status{key="k"}' 0
between 'tidelock_run_held_seconds{key="k"}' 0.25 60
between 'tidelock_run_waited_seconds{key="k"}' 0 60
between 'tidelock_run_end_timestamp_seconds{key="k"}' "$before" "$(($(date +%s) + 1))"
is 'tidelock_run_last_success_timestamp_seconds{key="k"}' "$(value 'tidelock_run_end_timestamp_seconds{key="k"}')"
is 'tidelock_acquires_total{key="k",result="TL_OK"}' 1
is 'tidelock_releases_total{key="k",result="TL_OK"}' 1
is 'tidelock_losses_total{key="k",cause="gone"}' 0
is 'tidelock_waited_total{key="k"}' 0
is 'tidelock_wait_seconds_count{key="k"}' 1
is 'tidelock_wait_seconds_bucket{key="k",le="+Inf"}' 1
is 'tidelock_hold_seconds_count{key="k"}' 1
between 'tidelock_hold_seconds_sum{key="k"}' 0.25 60
between 'tidelock_round_trip_seconds_count{key="k"}' 2 100
between 'tidelock_clock_width_seconds{key="k"}' 0.000001 60
success=$(value 'tidelock_run_last_success_timestamp_seconds{key="k"}')

# ---- the command's own status; the last success stays ------------------------------------------------
expect 3 "$tidelock" run --metrics "$file" k -- sh -c 'exit 3'
check "$file"
is 'tidelock_run_exit_status{key="k"}' 3
is 'tidelock_run_state{key="k",state="free"}' 1
is 'tidelock_run_last_success_timestamp_seconds{key="k"}' "$success"
cp "$file" "$work/kept"
expect 3 "$tidelock" run --metrics "$file" other -- sh -c 'exit 3' # another's success is none of this key's
[[ -z $(value 'tidelock_run_last_success_timestamp_seconds{key="other"}') ]] || fail "it takes over another key's success"
cp "$work/kept" "$file"

# ---- not had, lost, not reached ------------------------------------------------------------------------
redis SET k another >/dev/null
expect 75 "$tidelock" run -n --metrics "$file" k -- true
check "$file"
is 'tidelock_run_state{key="k",state="busy"}' 1
is 'tidelock_run_exit_status{key="k"}' 75
is 'tidelock_acquires_total{key="k",result="TL_EBUSY"}' 1
is 'tidelock_acquires_total{key="k",result="TL_OK"}' 0
is 'tidelock_run_held_seconds{key="k"}' ''
is 'tidelock_run_last_success_timestamp_seconds{key="k"}' "$success"
expect 0 "$tidelock" run -n -E 0 --metrics "$file" k -- true # no success, whatever the status
is 'tidelock_run_last_success_timestamp_seconds{key="k"}' "$success"
redis DEL k >/dev/null

expect 74 "$tidelock" run -t 10s --metrics "$file" k -- sh -c "redis-cli -s '$socket' SET k thief >/dev/null; exec sleep 600"
check "$file"
is 'tidelock_run_state{key="k",state="lost"}' 1
is 'tidelock_losses_total{key="k",cause="taken"}' 1
redis DEL k >/dev/null

expect 69 "$tidelock" --url "unix://$work/none" run -n --metrics "$file" k -- true
check "$file"
is 'tidelock_run_state{key="k",state="unavailable"}' 1
is 'tidelock_run_exit_status{key="k"}' 69

# ---- a wait; rounds ---------------------------------------------------------------------------------------
expect 0 "$tidelock" lock -t 10m w
read -r token _ <"$out"
"$tidelock" run --metrics "$file" w -- true &
pid=$!
waits() { (($(redis ZCARD 'tidelock:{w}:line') == 1)); }
until_true 30 waits || fail "it does not wait"
nap 0.1 # which is to be seen in the time
expect 0 "$tidelock" unlock w "$token"
wait_for $pid 30
[[ $status == 0 ]] || fail "after a wait: status $status"
check "$file"
between 'tidelock_run_waited_seconds{key="w"}' 0.05 60
is 'tidelock_waited_total{key="w"}' 1
"$tidelock" run --forever --metrics "$file" f -- true &
pid=$!
two_rounds() { (($(number 'tidelock_acquires_total{key="f",result="TL_OK"}') >= 2)); }
until_true 20 two_rounds || fail "--forever: $(cat "$file")"
kill -TERM $pid
wait_for $pid 10
check "$file"

# ---- keys of any bytes ---------------------------------------------------------------------------------------
expect 0 "$tidelock" run --metrics "$file" 'a"b\c
d' -- true
check "$file"
is 'tidelock_run_exit_status{key="a\"b\\c\nd"}' 0
expect 0 "$tidelock" run --metrics "$file" $'\xff' -- true
check "$file"
grep -q $'key="\xc3\xbf"' "$file" || fail "a byte that is no UTF-8: $(cat "$file")"

# ---- files that can't be written ---------------------------------------------------------------------------------
expect_line 78 'run: --metrics .*No such file or directory' "$tidelock" run --metrics "$work/none/x" k -- touch "$work/ran"
[[ ! -e $work/ran ]] || fail "the command ran, though the file can't be written"
mkdir "$work/gone"
expect_line 5 'run: --metrics .*No such file or directory' "$tidelock" run --metrics "$work/gone/x" k -- sh -c "rm -r '$work/gone'; exit 5"
assert_free k
expect 0 "$tidelock" run --metrics /dev/stdout k -- true
check "$out"
grep -q '^tidelock_run_exit_status{key="k"} 0$' "$out" || fail "to a pipe: $(cat "$out")"
cd "$work" || exit 1 # where a file called "-" would be
for name in /dev/stdout /dev/fd/1 /proc/self/fd/1 -; do # a file behind it keeps what others have written to it, and will
    (
        echo before
        "$tidelock" run --metrics $name k -- echo meanwhile
        echo after
    ) >"$out" 2>"$err" || fail "$name: $(cat "$err")"
    [[ $(grep -vc '^#\|^tidelock_' "$out") == 3 && $(sed -n '1p;2p;$p' "$out" | xargs) == "before meanwhile after" ]] || fail "$name: $(cat "$out")"
    grep -q '^tidelock_run_exit_status{key="k"} 0$' "$out" || fail "$name: $(cat "$out")"
done
expect_line 78 'run: --metrics /dev/fd/77: Bad file descriptor' "$tidelock" run --metrics /dev/fd/77 k -- touch "$work/ran"
for fd in 3 4 5 6 7 8 9; do # none is a server's connection
    "$tidelock" skew --slack 20s --metrics /dev/fd/$fd >"$out" 2>"$err" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    [[ $? == 78 && $(<"$err") == "tidelock: --metrics /dev/fd/$fd: Bad file descriptor" ]] || fail "/dev/fd/$fd: $(cat "$err")"
done
"$tidelock" run --metrics - k -- touch "$work/ran" >&- 2>"$err"
[[ $? == 78 && $(<"$err") == "tidelock: run: --metrics -: Bad file descriptor" ]] || fail "without standard output: $(cat "$err")"
expect_line 0 'run: --metrics /dev/full: No space left on device' "$tidelock" run --metrics /dev/full k -- true
expect_line 78 'run: --metrics .*Is a directory' "$tidelock" run --metrics "$work" k -- touch "$work/ran"
expect_line 78 'run: --metrics: the name of the file is empty' "$tidelock" run --metrics '' k -- touch "$work/ran"
[[ ! -e $work/ran ]] || fail "the command ran, though the file can't be written"

# A named pipe that nobody reads, or nobody reads any more, ends neither a run nor a round.
mkfifo "$work/pipe"
expect_line 3 'run: --metrics .*/pipe: nobody reads it' timeout $((50 * slow)) "$tidelock" run --metrics "$work/pipe" k -- sh -c 'exit 3'
{ cat "$work/pipe" & } >"$work/piped"
pid=$!
exec 9>"$work/pipe" # this waits for the reader
expect 0 timeout $((50 * slow)) "$tidelock" run --metrics "$work/pipe" k -- true
exec 9>&-
wait_for $pid 10
check "$work/piped"
exec 9<>"$work/pipe"
full() { ! "$python" -c 'import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), b"x" * 4096)' "$work/pipe" 2>"$err"; }
until_true 20 full || fail "the pipe takes whatever is written"
expect_line 3 "run: --metrics .*/pipe: its reader does not read" timeout $((50 * slow)) "$tidelock" run --metrics "$work/pipe" k -- sh -c 'exit 3'
exec 9>&-

# Names with spaces, links; and what somebody with the same process id has left, as in containers, is in nobody's way.
file="$work/a name.prom"
expect 0 "$tidelock" run --metrics "$file" k -- true
check "$file"
ln -s "a name.prom" "$work/link.prom"
expect 3 "$tidelock" run --metrics "$work/link.prom" k -- sh -c 'exit 3'
is 'tidelock_run_exit_status{key="k"}' 3
[[ -L $work/link.prom ]] || fail "a link was replaced"
# shellcheck disable=SC2016
expect 0 sh -c 'touch "$1.$$" "$1.$$.1" && exec "$2" run --metrics "$1" k -- true' sh "$work/left.prom" "$tidelock"
file=$work/left.prom
is 'tidelock_run_exit_status{key="k"}' 0
[[ $(find "$work" -name 'left.prom.*' | wc -l) == 2 ]] || fail "what is left: $(ls "$work")"

# Several at once to one file: in the end it is that of one of them, and whole.
file=$work/many.prom pids=()
for i in 1 2 3 4 5 6 7 8; do
    "$tidelock" run --metrics "$file" "many$i" -- true 2>>"$work/many.err" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait_for "$pid" 20; ((status == 0)) || fail "one of many ends with $status: $(cat "$work/many.err")"; done
check "$file"
[[ ! -s $work/many.err && $(grep -c '^tidelock_run_exit_status{key="many[1-8]"} 0$' "$file") == 1 ]] || fail "of many: $(cat "$work/many.err" "$file")"

# ---- skew ------------------------------------------------------------------------------------------------------
file=$work/skew.prom
expect 0 "$tidelock" agent --once --name two --every 10m # one host alone is nothing to be sure of
expect 0 "$tidelock" skew --slack 20s --metrics "$file"
check "$file"
is tidelock_skew_verdict 0
grep -q '^tidelock_skew_offset_seconds{host=".*",instrument="server",edge="lo"} -*[0-9]' "$file" || fail "$(cat "$file")"
grep -q '^tidelock_skew_width_seconds{host=".*",instrument="server"} [0-9]' "$file" || fail "$(cat "$file")"
grep -q SAFE "$out" || fail "and what people see: $(cat "$out")"
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew --metrics "$file"
check "$file"
is tidelock_skew_verdict 3
expect 78 "$tidelock" skew --slack 20s --metrics "$work/none/x"
grep -q '^tidelock: --metrics .*No such file' "$err" || fail "$(cat "$err")"
expect 0 "$tidelock" skew --slack 20s --metrics - --log -
grep -q SAFE "$out" && grep -qx 'tidelock_skew_verdict 0' "$out" && grep -q '^{"at_ms":' "$out" || fail "to standard output: $(cat "$out")"
expect 0 "$tidelock" skew --slack 20s --output -
grep -q SAFE "$out" || fail "--output -: $(cat "$out")"
for option in metrics log output; do
    expect 78 "$tidelock" skew --slack 20s --$option ''
    [[ $(<"$err") == "tidelock: --$option: the name of the file is empty" ]] || fail "--$option '': $(cat "$err")"
done
expect_line 64 'skew report: its only options are' "$tidelock" skew report --metrics "$file" "$file"

# ---- agent -------------------------------------------------------------------------------------------------------
file=$work/agent.prom
expect 0 "$tidelock" agent --once --name one --metrics "$file"
check "$file"
is 'tidelock_agent_up{host="one"}' 1
is 'tidelock_agent_name_clash{host="one"}' 0
is 'tidelock_agent_rounds_total{host="one"}' 1
is 'tidelock_agent_rounds_failed_total{host="one"}' 0
between 'tidelock_agent_last_success_timestamp_seconds{host="one"}' "$before" "$(($(date +%s) + 1))"
between 'tidelock_agent_width_seconds{host="one"}' 0 60
between 'tidelock_agent_offset_seconds{host="one",edge="lo"}' -60 0.001
between 'tidelock_agent_offset_seconds{host="one",edge="hi"}' -0.001 60
expect 0 "$tidelock" agent --once --name one --metrics -
grep -qx 'tidelock_agent_up{host="one"} 1' "$out" || fail "to standard output: $(cat "$out")"
[[ ! -e $work/- ]] || fail "there is a file called -"
expect_line 78 'agent: --metrics .*No such file' "$tidelock" agent --once --name one --metrics "$work/none/x"
expect_line 64 'leave --name' "$tidelock" agent --forget one --metrics "$file"

{ "$tidelock" agent --name one --every 200ms --metrics "$file" & } 2>"$work/agent.err"
pid=$!
rounds() { (($(number 'tidelock_agent_rounds_total{host="one"}') >= 3)); }
until_true 20 rounds || fail "agent: $(cat "$file" "$work/agent.err")"
stop_server STOP
fails() { (($(number 'tidelock_agent_rounds_failed_total{host="one"}') >= 1)); }
until_true 30 fails || fail "agent without a server: $(cat "$file" "$work/agent.err")"
check_text "$file"
is 'tidelock_agent_up{host="one"}' 0
# What is known of the clock ages meanwhile.
width=$(value 'tidelock_agent_width_seconds{host="one"}')
ages() { "$python" -c 'import sys; sys.exit(not float(sys.argv[1]) > float(sys.argv[2]) + 1e-4)' "$(value 'tidelock_agent_width_seconds{host="one"}')" "$width"; }
until_true 60 ages || fail "an agent without a server is as sure as ever: $(cat "$file")"
kill -CONT "$server_pid"
is_up() { [[ $(value 'tidelock_agent_up{host="one"}') == 1 ]]; }
until_true 20 is_up || fail "agent with its server back: $(cat "$file" "$work/agent.err")"
kill -TERM $pid
wait_for $pid 10
check "$file"
is 'tidelock_agent_up{host="one"}' 0
