#!/bin/bash
# skew: a host that is heard of no more is missing, in every face, and what was bad of its clock is not forgotten;
# who is expected is missed; and SAFE says what it assumes.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
me=$("$python" -c 'import re, socket; print(re.sub("[^A-Za-z0-9._:-]", "_", socket.gethostname())[:64])')
run_id=$(redis INFO server | sed -n 's/^run_id:\([0-9a-z]*\).*/\1/p')
server_us() { redis EVAL "local t = redis.call('TIME') return t[1] .. string.sub(1000000 + t[2], 2)" 0; }
# As an agent of --every 10s would have left it: its name, how far its clock is ahead, and how long ago that was.
published() { # name ms s boot
    local at
    at=$(($(server_us) - $3 * 1000000))
    redis SET "{tidelock:agents}:$1" \
        "2 ${4:-beef}-12 $at $(($2 * 1000 - 20)) $(($2 * 1000 + 20)) 0 0 0 0 8 0 0 0 10000 0 $run_id" EX 86400 >/dev/null
    redis ZADD '{tidelock:agents}' $((at + 30000000)) "$1" >/dev/null
}
forgotten() { expect 0 "$tidelock" agent --forget "$1"; }
says() { grep -qE -- "$1" "$out" || depth=1 fail "it does not say '$1': $(head -c 3000 "$out")"; }
says_not() { ! grep -qE -- "$1" "$out" || depth=1 fail "it says '$1': $(head -c 3000 "$out")"; }
host_of() { # name member value
    "$python" - "$out" "$@" <<'PY' || depth=1 fail "$2 of $1 is not $3: $(head -c 3000 "$out")"
import json, sys
_, out, name, member, want = sys.argv
h, = [h for h in json.load(open(out))["hosts"] if h["name"] == name]
sys.exit(str(h[member]) != want)
PY
}

# ---- what SAFE assumes -----------------------------------------------------------------------------------
expect 0 "$tidelock" agent --once --every 10m --name app1
expect 0 "$tidelock" skew
says '^SAFE: no lock can be stolen from a holder that works for at most 59 s \(assumed: say --longest-hold\): .*; a host that was not seen is not judged: name all by --expect$'
for given in '--expect app1' '--min-hosts 1'; do
    # shellcheck disable=SC2086
    expect 0 "$tidelock" skew $given
    grep -q 'not seen' "$out" && fail "$given: $(cat "$out")"
done
expect 0 "$tidelock" skew --format nagios
says '^SKEW OK - .*59 s \(assumed: say --longest-hold\)'
expect 0 "$tidelock" skew --json
json_has "$out" longest_hold_assumed True
json_has "$out" longest_hold_ms 59000
expect 0 "$tidelock" skew --format prometheus
says '^tidelock_skew_longest_hold_assumed 1$'
for given in '--longest-hold 55s' '--slack 5s'; do
    # shellcheck disable=SC2086
    expect 0 "$tidelock" skew $given
    says '^SAFE: no lock can be stolen from a holder that works for at most 55 s: '
    # shellcheck disable=SC2086
    expect 0 "$tidelock" skew $given --json
    json_has "$out" longest_hold_assumed False
done

# ---- a bad host whose agent dies --------------------------------------------------------------------------
published bad 5000 0
expect 2 "$tidelock" skew
says '^UNSAFE: .*the clock of bad is'
published bad 5000 100
expect 2 "$tidelock" skew
says '^UNSAFE: .*the clock of bad is .* 1[0-9][0-9] s old\); missing: bad$'
says 'check that "tidelock agent" runs on bad; for a retired host run: tidelock agent --forget'
expect 2 "$tidelock" skew --publish ns --json
host_of bad missing True
host_of app1 missing False
[[ $(redis HGET 'tidelock:skew:{ns}' verdict) == UNSAFE ]] || fail "published: $(redis HGETALL 'tidelock:skew:{ns}')"
(($(redis HGET 'tidelock:skew:{ns}' worst_ms) >= 5000)) || fail "published: $(redis HGETALL 'tidelock:skew:{ns}')"
redis DEL '{tidelock:agents}:bad' >/dev/null # the server had no room for it, say
expect 1 "$tidelock" skew --publish ns
says '^WARN: bad is missing: the record of its agent no longer exists$'
[[ $(redis HGET 'tidelock:skew:{ns}' verdict) == WARN && $(redis HGET 'tidelock:skew:{ns}' reason) == bad\ is\ missing* ]] ||
    fail "published: $(redis HGETALL 'tidelock:skew:{ns}')"

# ---- a good one: no more than a warning, in all faces --------------------------------------------------------
published bad 0 100
expect 1 "$tidelock" skew
says '^WARN: bad is missing: its agent has published nothing for 1[0-9][0-9] s$'
expect 1 "$tidelock" skew --json
host_of bad status missing
expect 1 "$tidelock" skew --format nagios
says '^SKEW WARNING - bad is missing: .* \| hosts=3 measured=2 missing=1 '
expect 1 "$tidelock" skew --format prometheus
says '^tidelock_skew_host_missing\{host="bad",instrument="agent"\} 1$'
says '^tidelock_skew_host_known\{host="bad",instrument="agent"\} 0$'
says '^tidelock_skew_host_age_seconds\{host="bad",instrument="agent"\} 1[0-9][0-9]\.'
says '^tidelock_skew_host_missing\{host="app1",instrument="agent"\} 0$'
says '^tidelock_skew_host_age_seconds\{host="app1",instrument="agent"\} [0-9]+\.'
expect 1 "$tidelock" skew --format html
says 'bad is missing: its agent has published nothing for 1[0-9][0-9] s'
expect 1 "$tidelock" skew --log "$work/log"
expect 1 "$tidelock" skew report "$work/log"
says 'bad is missing: its agent has published nothing for 1[0-9][0-9] s'
says '^bad +unknown +unknown +- +agent, missing$'
published other 0 200
expect 1 "$tidelock" skew
says '^WARN: 2 hosts are missing: bad, other \(bad: '

# ---- retired on purpose ----------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --forget bad --forget other
[[ ! -s $out && ! -s $err ]] || fail "--forget prints: $(cat "$out" "$err")"
expect 0 "$tidelock" skew
[[ $(redis EXISTS '{tidelock:agents}:bad') == 0 ]] || fail "its record is left"
expect_line 1 'host bad is unknown' "$tidelock" agent --forget bad
expect 0 "$tidelock" agent --forget app1
grep -q '^tidelock: agent: the agent of app1 may still run: stop it' "$err" || fail "a live one: $(cat "$err")"
expect_line 64 '--forget: 1 to 64 letters' "$tidelock" agent --forget 'a b'
expect_line 64 '--forget: leave --name' "$tidelock" agent --forget app1 --once
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" agent --forget app1

# ---- real agents: killed, started again, told to end --------------------------------------------------------------
"$tidelock" agent --name app2 --every 500ms &
pid=$!
is_safe() { "$tidelock" skew --slack 20s >"$out" 2>"$err"; }
is_missing() { ! is_safe && grep -q '^WARN: app2 is missing' "$out"; }
until_true 10 is_safe || fail "no agent: $(cat "$out" "$err")"
kill -KILL $pid
wait_for $pid 10 2>/dev/null
until_true 10 is_missing || fail "a killed agent's host is not missed: $(cat "$out")"
{ "$tidelock" agent --name app2 --every 2s & } 2>"$work/agent.err"
pid=$!
until_true 10 is_safe || fail "it does not come back: $(cat "$out")"
[[ ! -s $work/agent.err ]] || fail "it takes its own record for another's: $(cat "$work/agent.err")"
kill -TERM $pid
wait_for $pid 10
[[ $status == 0 ]] || fail "status $status after TERM"
is_missing || fail "told to end, its host is not missed at once: $(cat "$out")"
(($(redis PTTL '{tidelock:agents}:app2') > 86000000)) || fail "what was known of it does not stay for a day"
# A host that was booted again is no other host of that name.
published app2 0 100 old
expect 0 "$tidelock" agent --name app2 --once --every 10m
[[ ! -s $err ]] || fail "after a boot: $(cat "$err")"
published "$me" 0 100 old
expect 0 "$tidelock" skew
record=$(redis GET "{tidelock:agents}:$me")
redis SET "{tidelock:agents}:$me" "${record% 0 *} 1 $run_id" >/dev/null # unless two have had it
expect 1 "$tidelock" skew
says "^WARN: .*another host has this host's name"
forgotten "$me"

# ---- for a day, and not without end -----------------------------------------------------------------------------------
redis ZADD '{tidelock:agents}' $(($(server_us) - 86000000000)) today $(($(server_us) - 86410000000)) yesterday >/dev/null
expect 1 "$tidelock" skew
says '^WARN: today is missing'
says_not yesterday
expect 0 "$tidelock" agent --name app2 --once --every 10m
[[ $(redis ZSCORE '{tidelock:agents}' yesterday) == '' && $(redis ZSCORE '{tidelock:agents}' today) ]] ||
    fail "the index: $(redis ZRANGE '{tidelock:agents}' 0 -1 WITHSCORES)"
forgotten today
redis EVAL "for i = 1, 10500 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 'n' .. i) end" 1 '{tidelock:agents}' \
    $(($(server_us) - 5000000000)) >/dev/null
expect 0 "$tidelock" agent --name app2 --once --every 10m
[[ $(redis ZCARD '{tidelock:agents}') == 10000 && $(redis ZSCORE '{tidelock:agents}' app2) ]] ||
    fail "the index has no bound: $(redis ZCARD '{tidelock:agents}')"
expect 1 "$tidelock" skew --json
host_of app2 status ok # who is there comes before those who have gone
redis DEL '{tidelock:agents}' >/dev/null
# Names that no agent would give itself leave no room for one whose clock is bad.
expect 0 "$tidelock" agent --name app2 --once --every 10m
published bad 5000 0
redis EVAL "for i = 1, 4999 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 'n ' .. i) end" 1 '{tidelock:agents}' \
    $(($(server_us) + 5000000000)) >/dev/null
expect 1 "$tidelock" skew
says '^WARN: there are more hosts than the 2 that were checked$'
forgotten bad
redis DEL '{tidelock:agents}' >/dev/null

# ---- who is expected ---------------------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --name app2 --once --every 10m
expect 0 "$tidelock" skew --expect "app2,$me" --min-hosts 2
expect 1 "$tidelock" skew --expect app2,db1 --expect db2,db1,db3,db4
says '^WARN: 4 hosts are missing: db1, db2, db3 and 1 more \(db1: it is expected, and no agent publishes under that name\)$'
says 'check that "tidelock agent" runs on db1'
expect 1 "$tidelock" skew --expect db1 --json
host_of db1 offset_ms None
host_of db1 missing True
expect 1 "$tidelock" skew --expect db1 --format nagios
says '^SKEW WARNING - db1 is missing: .* hosts=3 measured=2 missing=1 '
expect 1 "$tidelock" skew --expect db1 --format prometheus
says '^tidelock_skew_host_missing\{host="db1",instrument="agent"\} 1$'
says_not '^tidelock_skew_host_age_seconds\{host="db1"'
expect 1 "$tidelock" skew --min-hosts 3
says '^WARN: 2 hosts are measured, and at least 3 are required \(--min-hosts\)$'
published far 9000 0
expect 2 "$tidelock" skew --expect db1 # a theft that is possible stays one
says '^UNSAFE: .*; missing: db1$'
forgotten far

# ---- whether this host counts --------------------------------------------------------------------------------------------
expect 0 "$tidelock" skew --json
host_of "$me" self True
host_of app2 self False
expect 1 "$tidelock" skew --no-self
says '^WARN: only one host is measured'
says 'this host, which acquires none of these locks \(--no-self\)'
published app3 0 0
expect 0 "$tidelock" skew --no-self --json
"$python" - "$out" "$me" <<'PY' || fail "--no-self: $(cat "$out")"
import json, sys
d, me = json.load(open(sys.argv[1])), sys.argv[2]
assert {p["holder"] for p in d["pairs"]} == {"app2", "app3"} and me in [h["name"] for h in d["hosts"]], d
PY
expect 1 "$tidelock" skew --no-self --min-hosts 3
says '^WARN: 2 hosts are measured'

expect_line 64 '--expect: hosts. names' "$tidelock" skew --expect ''
expect_line 64 '--expect: hosts. names' "$tidelock" skew --expect app1,
expect_line 64 '--expect: a host.s name' "$tidelock" skew --expect 'app1,,app2'
expect_line 64 '--expect: a host.s name' "$tidelock" skew --expect 'app1, app2'
expect_line 64 '--expect: a host.s name' "$tidelock" skew --expect "$(printf '%065d' 0)"
expect_line 64 "--no-self leaves it out" "$tidelock" skew --no-self --expect "app2,$me"
expect_line 64 'leave no host' "$tidelock" skew --no-self --no-agents
expect_line 64 '--min-hosts: a number' "$tidelock" skew --min-hosts 0
expect_line 64 'its only options are --format' "$tidelock" skew report --expect app1 "$work/log"
exit 0
