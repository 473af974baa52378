#!/bin/bash
# agent: what it publishes, for how long, and what is left of it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
key='{tidelock:agents}:one'
# What an agent has left is its host's word for three of its rounds: the server says whether it is so at that moment.
fresh() {
    redis EVAL "local r, w = redis.call('GET', KEYS[1]), {} for s in string.gmatch(r or '', '%S+') do w[#w + 1] = s end
        local t = redis.call('TIME') return #w == 16 and w[3] + 3000 * w[14] >= t[1] * 1000000 + t[2] and r or ''" 1 "$key"
}
has_record() { [[ -n $(fresh) ]]; }
no_record() { ! has_record; }
# As if the record came a little earlier, and were to last for hours.
keep_record() { # us
    redis EVAL "local w = {} for s in string.gmatch(redis.call('GET', KEYS[1]), '%S+') do w[#w + 1] = s end
        w[3] = string.format('%.0f', w[3] - ARGV[1]) w[14] = '3600000' return redis.call('SET', KEYS[1], table.concat(w, ' '))" 1 "$key" "$1"
}

# ---- once -------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --once --name one --every 20s
[[ ! -s $out && ! -s $err ]] || fail "it prints: $(cat "$out" "$err")"
ttl=$(redis PTTL "$key")
((ttl > 86420000 && ttl <= 86460000)) || fail "it is kept for $ttl ms"
lease=$(($(redis ZSCORE '{tidelock:agents}' one) - $(redis GET "$key" | cut -d' ' -f3)))
((lease == 60000000)) || fail "the lease is $lease us"
[[ $(redis ZRANGE '{tidelock:agents}' 0 -1) == one ]] || fail "the index: $(redis ZRANGE '{tidelock:agents}' 0 -1)"
(($(redis PTTL '{tidelock:agents}') > 0)) || fail "the index has no end"
expect 0 "$tidelock" agent --once --name two -v
grep -qE '^tidelock: agent: two is -?[0-9]+ to -?[0-9]+ us' "$err" || fail "-v says: $(cat "$err")"
redis FLUSHALL >/dev/null

# ---- again and again, until it is told to end ------------------------------------------------------
stamp() { redis GET "$key" | cut -d' ' -f3; }
begin_after() { first=$(stamp) && [[ -n $first ]]; } # the present record, if there is one
is_newer() {
    local now
    now=$(stamp) && [[ -n $now ]] && ((now > first))
}
{ "$tidelock" agent --name one --every 500ms & } 2>"$work/agent.err"
pid=$!
until_true 10 begin_after || fail "nothing is published"
until_true 10 is_newer || fail "the record is never renewed"
kill -TERM $pid
wait_for $pid 10
[[ $status == 0 ]] || fail "status $status after TERM"
no_record || fail "the record goes on"
[[ $(redis ZRANGE '{tidelock:agents}' 0 -1) == one && $(redis EXISTS "$key") == 1 ]] || fail "its host is forgotten"
[[ ! -s $work/agent.err ]] || fail "it says: $(cat "$work/agent.err")"

# ---- killed: the lease ends it -----------------------------------------------------------------------
redis-cli -s "$socket" MONITOR >>"$work/monitor" &
monitor=$!
wait_file "$work/monitor"
published() { # records, and questions for them
    sed -nE -e 's/.* "GET" "[^"]*"$/get/p' -e 's/.* "PSETEX" .* "(2 [^"]*)"$/\1/p' "$work/monitor"
}
"$tidelock" agent --name one --every 500ms &
pid=$!
# From the second record on, which follows at once, it comes a little earlier each time: two that go on
# at one moment would never see each other's record.
is_early() {
    awk '/"PSETEX"/ && begun++ { at = $1 - 0.5 * n++; if (n == 1 || at > most) most = at; early = early || at < most - 0.05 }
        END { exit !early }' "$work/monitor"
}
until_true 20 is_early || fail "it publishes like a clock: $(grep PSETEX "$work/monitor")"
kill -KILL $pid
wait_for $pid 10 2>/dev/null
until_true 10 no_record || fail "the record of a killed agent stays"

# ---- stopped: its lease ends it too, and it comes back by itself ------------------------------------------
"$tidelock" agent --name one --every 500ms &
pid=$!
until_true 10 has_record || fail "nothing is published"
kill -STOP $pid
until_true 10 no_record || fail "the record of a stopped agent stays"
expect 1 "$tidelock" skew --slack 30s # however long the answers take
grep -q '^WARN: one is missing' "$out" || fail "a stopped agent's host: $(cat "$out")"
kill -CONT $pid
record() { read -r -a words <<<"$(fresh)" && ((${#words[@]} == 16)); }
until_true 10 record || fail "it does not go on"
((words[3] <= 0 && words[4] >= 0)) || fail "after a stop: ${words[*]}"
kill -TERM $pid
wait_for $pid 10

# ---- two of one name -----------------------------------------------------------------------------------
expect 0 "$tidelock" agent --forget one
{ "$tidelock" agent --name one --every 500ms & } 2>"$work/a.err"
a=$!
until_true 10 record || fail "nothing is published"
id_a=${words[1]}
{ "$tidelock" agent --name one --every 3s & } 2>"$work/b.err" # its word lasts until the other has looked
b=$!
until_true 10 grep -qs 'another agent publishes as one' "$work/a.err" || fail "the clash is not noticed"
clashes() { [[ $(redis GET "$key" | cut -d' ' -f15) == 1 ]]; }
hold_record() { # both stop, and the record stays until they go on
    kill -STOP $a $b
    if clashes && [[ $(keep_record 0) == OK ]]; then return; fi
    kill -CONT $a $b
    return 1
}
until_true 10 hold_record || fail "the record does not tell of the clash"
expect 1 "$tidelock" skew --json
grep -q '"name":"one","instrument":"agent","offset_ms":null,[^}]*"status":"clash"' "$out" || fail "skew: $(cat "$out")"
kill -CONT $a $b
# One is late for a round: the other finds its own record, and tells of the clash all the same. What it tells since the
# other's last record counts from a round that has looked after that.
since_b() {
    published | awk -v a="$id_a" '!/^2/ { asked = asked || told == "" } /^2/ && $2 == a { told = told $15 }
        /^2/ && $2 != a { told = ""; asked = 0 } END { print told, asked + 0 }'
}
of_b() { published | grep -qv -e "^2 $id_a " -e get; }
three_rounds() { [[ $(since_b) == ???*\ ? ]]; }
for try in {1..10}; do
    : >"$work/monitor"
    until_true 10 of_b || fail "the other publishes nothing"
    kill -STOP $b
    until_true 10 three_rounds || fail "the record is not renewed: $(published)"
    if [[ $(since_b) == *\ 1 ]]; then break; fi
    ((try < 10)) || fail "they always look at the same moment: $(published)"
    kill -CONT $b
done
[[ $(since_b) == 111* ]] || fail "after a round alone: $(published)"
kill -CONT $b
kill -TERM $b
wait_for $b 10
alone() { [[ $(redis GET "$key" | cut -d' ' -f15) == 0 ]]; }
until_true 10 alone || fail "the clash never ends"

# A machine that was cloned while it ran: the agent there has the same id.
told() { grep -c 'another agent publishes as one' "$work/a.err"; }
before=$(told)
as_a_clone() {
    [[ $(keep_record 1000) == OK ]] && (($(told) > before))
}
until_true 20 as_a_clone || fail "a clone is not noticed: $(redis GET "$key")"
until_true 10 alone || fail "the clone's clash never ends"

# ---- the server goes and comes back ----------------------------------------------------------------------
samples() { redis GET "$key" | cut -d' ' -f10; }
many() { (($(samples) > 50)); }
until_true 30 many || fail "only $(samples) samples"
kill $monitor
stop_server KILL
until_true 20 grep -qs 'tries again' "$work/a.err" || fail "it does not say that the server is gone"
start_server
until_true 20 record || fail "it does not come back"
# No more than the new server has been asked for; the record was read first.
asked=$(redis INFO commandstats | sed -n 's/^cmdstat_time:calls=\([0-9]*\).*/\1/p')
((words[9] <= asked)) || fail "what was measured against the server before still counts: ${words[9]} samples of $asked"
until_true 20 grep -qs 'replies again' "$work/a.err" || fail "it does not say so"
[[ $(grep -c 'tries again' "$work/a.err") == 1 ]] || fail "it says so again and again: $(cat "$work/a.err")"
kill -TERM $a
wait_for $a 10

# ---- a user who may do what the man page says, and no more ---------------------------------------------------
mapfile -t acl < <(tr '\n' ' ' <"$here/tools/man/tidelock-agent.1.scd" |
    sed -n 's/.*An ACL for agents and [^:]*: \([^.]*\)\. .*/\1/p' | tr -d '*\\' | tr ' ' '\n')
((${#acl[@]} == 13)) && [[ ${acl[0]} == '~{tidelock:agents}' ]] || fail "the man page: ${acl[*]}"
redis ACL SETUSER agents on '>secret' "${acl[0]}*" "${acl[@]:1}" >/dev/null
as_agents=("$tidelock" --url "unix://agents:secret@$socket")
redis FLUSHALL >/dev/null
expect 0 "${as_agents[@]}" agent --once --name one
expect 0 "${as_agents[@]}" skew --slack 30s
expect 1 "${as_agents[@]}" skew --slack 30s --ntp 127.0.0.1:1 # where nobody answers, and all else is measured
grep -q '^WARN: there is no evidence of 127.0.0.1:1 ' "$out" || fail "with --ntp: $(cat "$out" "$err")"
expect 0 "${as_agents[@]}" agent --forget one

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
