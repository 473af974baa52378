#!/bin/bash
# skew --publish: tells a namespace's clients the verdict, by the server's clock.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
key='tidelock:skew:{cron}'
field() { redis HGET "$key" "$1"; }
run_id() { redis INFO server | sed -n 's/^run_id:\([0-9a-z]*\).*/\1/p'; }
server_us() { redis EVAL "local t = redis.call('TIME') return t[1] .. string.sub(1000000 + t[2], 2)" 0; }

skew=("$tidelock" skew --samples 32 --slack 30s) # one answer that is late says nothing
before=$(server_us)
expect 1 "${skew[@]}" --publish cron
after=$(server_us)
# The server's own clock counts: by it tidelock's clients time their locks. It is no second host.
[[ $(field verdict) == WARN ]] && (($(field worst_ms) >= 0 && $(field worst_ms) < 4000 * slow)) ||
    fail "one host: $(redis HGETALL "$key")"
grep -q '^WARN: only one host' "$out" || fail "one host: $(cat "$out")"
(($(field at) >= before && $(field at) <= after)) || fail "at $(field at), not from $before to $after"
(($(field until) == $(field at) + 900000000)) || fail "until $(field until), at $(field at)"
[[ $(field by) =~ ^[^\ ]+\ [0-9]+$ ]] || fail "by: $(field by)"
[[ $(field reason) == only\ one\ host* ]] || fail "why: $(redis HGETALL "$key")"
[[ $(redis HLEN "$key") == 6 && $(redis KEYS 'tidelock:skew*') == "$key" ]] || fail "more: $(redis HGETALL "$key")"

# Two hosts, one of which is ahead by 50 s: it is worse than the slack, and by so much.
far() {
    local now
    now=$(server_us)
    redis SET '{tidelock:agents}:far' "2 beef-12 $now 49999000 50001000 0 0 0 0 8 0 0 0 600000 0 $(run_id)" PX 600000 >/dev/null
    redis ZADD '{tidelock:agents}' $((now + 600000000)) far >/dev/null
}
far
index=$(redis KEYS '{tidelock:agents}*' | grep -v :far)
expect 2 "${skew[@]}" --publish cron --json
[[ $(field verdict) == UNSAFE ]] || fail "far ahead: $(redis HGETALL "$key") $index $(cat "$out")"
(($(field worst_ms) >= 50000 && $(field worst_ms) < 54000 * slow)) || fail "worst: $(field worst_ms)"
(($(field at) > after)) || fail "at: $(field at)"

# All hosts are 50 s behind the server, by a proxy that says that it is later: none of them can steal from another, but each of them
# is stolen from by who goes by the server's clock, and steals from it the other way round.
"$python" "$here/tests/cli/doctor_proxy.py" "$socket" "$work/port" time:50000000 &
wait_file "$work/port"
late=redis://127.0.0.1:$(cat "$work/port")
expect 0 "$tidelock" agent --forget far 2>/dev/null
expect 0 "$tidelock" --url "$late" agent --once --every 10m --name also-behind
expect 0 "${skew[@]}" --url "$late" --json
grep -q "may be too far from that of [a-z-]*: judge it by --servers" "$out" || fail "no word of the server's clock: $(cat "$out")"
expect 2 "${skew[@]}" --url "$late" --publish cron --json
[[ $(field verdict) == UNSAFE ]] || fail "behind the server: $(redis HGETALL "$key")"
grep -q "the clock of 127.0.0.1:[0-9]* is" "$out" || fail "who: $(cat "$out")"
expect 0 "$tidelock" agent --forget also-behind

# A server that takes no writes for a while, as it is full: what was published stays, and a watch goes on.
{ "$tidelock" skew --publish cron --watch=100ms & } >"$work/watched" 2>"$work/watch.err"
watch=$!
published() { [[ $(field verdict) == WARN ]]; }
until_true 10 published || fail "the watch publishes nothing: $(redis HGETALL "$key")"
redis CONFIG SET maxmemory 1 >/dev/null
until_true 10 grep -qs -- '--publish: OOM' "$work/watch.err" || fail "a full server is not told: $(cat "$work/watch.err")"
published || fail "what was published has gone: $(redis HGETALL "$key")"
redis CONFIG SET maxmemory 0 >/dev/null
last=$(field at)
goes_on() { (($(field at) > last)); }
until_true 10 goes_on || fail "the watch has ended: $(cat "$work/watch.err")"
kill -TERM $watch
wait_for $watch 10
[[ $status == 143 ]] || fail "status $status of the watch"

expect_line 64 '--publish: a namespace' "$tidelock" skew --publish 'a b'
expect_line 64 '--publish: a namespace' "$tidelock" skew --publish ''
far
redis ACL SETUSER default -eval >/dev/null
expect 77 "$tidelock" skew --publish cron # it shows what it has found all the same
grep -q 'UNSAFE' "$out" || fail "nothing is shown: $(cat "$out")"
grep -qE '^tidelock: --publish: .*(NOPERM|permission)' "$err" || fail "not why: $(cat "$err")"
