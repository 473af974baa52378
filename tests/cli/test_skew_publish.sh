#!/bin/bash
# skew --publish: tells a namespace's clients the verdict, by the server's clock.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
key='tidelock:skew:{cron}'
field() { redis HGET "$key" "$1"; }
server_us() { redis EVAL "local t = redis.call('TIME') return t[1] .. string.sub(1000000 + t[2], 2)" 0; }

before=$(server_us)
expect 1 "$tidelock" skew --publish cron
after=$(server_us)
[[ $(field verdict) == WARN && $(field worst_ms) == -1 ]] || fail "one host: $(redis HGETALL "$key")"
(($(field at) >= before && $(field at) <= after)) || fail "at $(field at), not from $before to $after"
(($(field until) == $(field at) + 900000000)) || fail "until $(field until), at $(field at)"
[[ $(field by) =~ ^[^\ ]+\ [0-9]+$ ]] || fail "by: $(field by)"
[[ $(redis HLEN "$key") == 5 && $(redis KEYS 'tidelock:skew*') == "$key" ]] || fail "more: $(redis HGETALL "$key")"

# Two hosts, one of which is ahead by 5 s: it is worse than the slack, and by so much.
now=$(server_us)
redis SET '{tidelock:agents}:far' "1 beef-12 $now 4999000 5001000 0 0 0 0 8 0 0 0 10000 0" PX 600000 >/dev/null
redis ZADD '{tidelock:agents}' $((now + 600000000)) far >/dev/null
index=$(redis KEYS '{tidelock:agents}*' | grep -v :far)
expect 2 "$tidelock" skew --publish cron --json
[[ $(field verdict) == UNSAFE ]] || fail "far ahead: $(redis HGETALL "$key") $index $(cat "$out")"
(($(field worst_ms) >= 5000 && $(field worst_ms) < 6000 * slow)) || fail "worst: $(field worst_ms)"
(($(field at) > after)) || fail "at: $(field at)"

expect_line 64 '--publish: a namespace' "$tidelock" skew --publish 'a b'
expect_line 64 '--publish: a namespace' "$tidelock" skew --publish ''
redis ACL SETUSER default -eval >/dev/null
expect 77 "$tidelock" skew --publish cron # it shows what it has found all the same
grep -q 'UNSAFE' "$out" || fail "nothing is shown: $(cat "$out")"
grep -qE '^tidelock: --publish: .*(NOPERM|permission)' "$err" || fail "not why: $(cat "$err")"
