#!/bin/bash
# agent: what it publishes, for how long, and what is left of it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
key='{tidelock:agents}:one'
no_record() { [[ $(redis EXISTS "${1:-$key}") == 0 ]]; }
has_record() { ! no_record "$@"; }

# ---- once -------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --once --name one --every 20s
[[ ! -s $out && ! -s $err ]] || fail "it prints: $(cat "$out" "$err")"
ttl=$(redis PTTL "$key")
((ttl > 20000 && ttl <= 60000)) || fail "the lease is $ttl ms"
[[ $(redis ZRANGE '{tidelock:agents}' 0 -1) == one ]] || fail "the index: $(redis ZRANGE '{tidelock:agents}' 0 -1)"
(($(redis PTTL '{tidelock:agents}') > 0)) || fail "the index has no end"
expect 0 "$tidelock" agent --once --name two -v
grep -qE '^tidelock: agent: two is -?[0-9]+ to -?[0-9]+ us' "$err" || fail "-v says: $(cat "$err")"
redis FLUSHALL >/dev/null

# ---- again and again, until it is told to end ------------------------------------------------------
stamp() { redis GET "$key" | cut -d' ' -f3; }
"$tidelock" agent --name one --every 100ms 2>"$work/agent.err" &
pid=$!
until_true 10 has_record || fail "nothing is published"
first=$(stamp)
is_newer() { (($(stamp || echo 0) > first)); }
until_true 10 is_newer || fail "the record is never renewed"
kill -TERM $pid
wait_for $pid 10
[[ $status == 0 ]] || fail "status $status after TERM"
no_record || fail "the record is left behind"
[[ -z $(redis ZRANGE '{tidelock:agents}' 0 -1) ]] || fail "its name is left behind"
[[ ! -s $work/agent.err ]] || fail "it says: $(cat "$work/agent.err")"

# ---- killed: the lease ends it -----------------------------------------------------------------------
"$tidelock" agent --name one --every 100ms &
pid=$!
until_true 10 has_record || fail "nothing is published"
kill -KILL $pid
wait_for $pid 10 2>/dev/null
until_true 10 no_record || fail "the record of a killed agent stays"

# ---- stopped: its lease ends it too, and it comes back by itself ------------------------------------------
"$tidelock" agent --name one --every 100ms &
pid=$!
until_true 10 has_record || fail "nothing is published"
kill -STOP $pid
until_true 10 no_record || fail "the record of a stopped agent stays"
expect 1 "$tidelock" skew
grep -q '^WARN: only one host' "$out" || fail "a stopped agent's host: $(cat "$out")"
kill -CONT $pid
until_true 10 has_record || fail "it does not go on"
(($(redis GET "$key" | cut -d' ' -f4) <= 0 && $(redis GET "$key" | cut -d' ' -f5) >= 0)) || fail "after a stop: $(redis GET "$key")"
kill -TERM $pid
wait_for $pid 10

# ---- two of one name -----------------------------------------------------------------------------------
"$tidelock" agent --name one --every 500ms 2>"$work/a.err" &
a=$!
until_true 10 has_record || fail "nothing is published"
"$tidelock" agent --name one --every 500ms 2>"$work/b.err" &
b=$!
until_true 10 grep -qs 'another agent publishes as one' "$work/a.err" || fail "the clash is not noticed"
clashes() { [[ $(redis GET "$key" | cut -d' ' -f15) == 1 ]]; }
until_true 10 clashes || fail "the record does not tell of the clash"
expect 1 "$tidelock" skew --json
grep -q '"name":"one","instrument":"agent","offset_ms":null,[^}]*"status":"clash"' "$out" || fail "skew: $(cat "$out")"
# One is late for a round: the other finds its own record, and tells of the clash all the same.
kill -STOP $b
first=$(stamp)
until_true 10 is_newer || fail "the record is not renewed"
[[ $(redis GET "$key" | cut -d' ' -f15) == 1 ]] || fail "after a round alone: $(redis GET "$key")"
kill -CONT $b
kill -TERM $b
wait_for $b 10
alone() { [[ $(redis GET "$key" | cut -d' ' -f15) == 0 ]]; }
until_true 10 alone || fail "the clash never ends"

# A machine that was cloned while it ran: the agent there has the same id.
as_a_clone() {
    local -a words
    read -r -a words <<<"$(redis GET "$key")"
    ((${#words[@]} == 16)) || return 1
    words[2]=$((words[2] - 5000000))
    redis SET "$key" "${words[*]}" PX 60000 >/dev/null
    (($(grep -c 'another agent publishes as one' "$work/a.err") == 2))
}
until_true 20 as_a_clone || fail "a clone is not noticed: $(redis GET "$key")"
until_true 10 alone || fail "the clone's clash never ends"

# ---- the server goes and comes back ----------------------------------------------------------------------
samples() { redis GET "$key" | cut -d' ' -f10; }
many() { (($(samples) > 50)); }
until_true 30 many || fail "only $(samples) samples"
stop_server KILL
until_true 20 grep -qs 'tries again' "$work/a.err" || fail "it does not say that the server is gone"
start_server
until_true 20 has_record || fail "it does not come back"
many && fail "what was measured against the server before still counts: $(samples) samples"
until_true 20 grep -qs 'answers again' "$work/a.err" || fail "it does not say so"
[[ $(grep -c 'tries again' "$work/a.err") == 1 ]] || fail "it says so again and again: $(cat "$work/a.err")"
kill -TERM $a
wait_for $a 10

# ---- wrong usage, and no server ------------------------------------------------------------------------------
expect_line 64 '--name' "$tidelock" agent --once --name 'a b'
expect_line 64 '--name' "$tidelock" agent --once --name ''
expect_line 64 '--name' "$tidelock" agent --once --name "$(printf '%065d' 0)"
expect_line 64 '--every' "$tidelock" agent --once --every 99ms
expect_line 64 '--every' "$tidelock" agent --once --every 2h
expect_line 64 'too many' "$tidelock" agent word
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" agent --once
redis CONFIG SET requirepass secret >/dev/null
expect_line 77 'password' "$tidelock" agent --once
expect_line 77 'password' "$tidelock" agent
export TIDELOCK_PASSWORD=secret
expect 0 "$tidelock" agent --once --name one
exit 0
