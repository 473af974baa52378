#!/bin/bash
# skew --passive where nothing can be heard: nobody there, clients of our own, a server that keeps too much for us,
# what isn't allowed, wrong usage.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --bind 127.0.0.1 --protected-mode no # it takes other 127.0.0.x for strangers
open_port
export TIDELOCK_URL=redis://127.0.0.1:$port

# ---- nobody there ------------------------------------------------------------------------------
began=$(now_ms)
expect 1 "$tidelock" skew --passive=200ms
most=$((($(now_ms) - began) / 100))
grep -q '^WARN: no legacy client acquired a lock' "$out" || fail "nobody: $(cat "$out")"
ran=$(sed -n 's/^MONITOR ran for \([0-9]*\)\.\([0-9]\) s: 0 commands.*/\1\2/p' "$out")
((10#${ran:-0} >= 2 && 10#$ran <= most)) || fail "no cost, of $most tenths of a second at most: $(cat "$out")"

# ---- tidelock's own clients aren't legacy clients: scripts send what they send ------------------------
own() {
    while :; do
        for p in bridge timestamp; do
            "$tidelock" run --protocol $p "own:$p" -- true || return
        done
    done
}
own &
own=$!
takes() { [[ $(redis EXISTS '{own:bridge}:tidelock' '{own:timestamp}:tidelock') != 0 || -n $(redis KEYS '*own:*') ]]; }
until_true 10 takes || fail "no client of our own"
for try in {1..40}; do # until they have said something in its second
    expect 1 "$tidelock" skew --passive=1s --json
    grep -q '"reason":"no legacy client acquired' "$out" || fail "our own: $(cat "$out")"
    if grep -q '"cost":"MONITOR ran for [^:]*: [1-9]' "$out"; then break; fi
    ((try < 40)) || fail "our own say nothing: $(cat "$out")"
done
kill $own && wait $own 2>/dev/null

# ---- when the server keeps too much, it is over ------------------------------------------------------
{ "$tidelock" skew --passive=10m --json & } >"$work/late" 2>"$err"
late=$!
monitored() { redis CLIENT LIST | grep -q 'flags=O'; }
until_true 20 monitored || fail "it doesn't begin"
kill -STOP $late
until_true 10 grep -q '^State:.T' "/proc/$late/status" || fail "it isn't stopped"
kept() { redis CLIENT LIST | sed -n 's/.* flags=O .* omem=\([0-9]*\) .*/\1/p'; }
piles_up() { # beyond what the system keeps of it
    redis EVAL "local v = string.rep('x', 60000) for i = 1, 20 do redis.call('SET', 'big', v) end" 0 >/dev/null
    (($(kept) > 4000000))
}
until_true 60 piles_up || fail "the server keeps no more than $(kept) bytes"
kill -CONT $late
wait_for $late 60
[[ $status == 1 ]] || fail "status $status after it was given up"
json_has "$work/late" verdict WARN
grep -q '"cost":"MONITOR was aborted, since the server buffered too much, after' "$work/late" || fail "$(cat "$work/late")"

# ---- what isn't allowed -------------------------------------------------------------------------------
redis ACL SETUSER blind on '>pw' '~*' '+@all' -monitor >/dev/null
expect_line 77 'MONITOR is refused: NOPERM' "$tidelock" --url "redis://blind:pw@127.0.0.1:$port" skew --passive=500ms
redis ACL SETUSER blind +monitor '-client|list' >/dev/null
expect_line 77 'CLIENT LIST: NOPERM' "$tidelock" --url "redis://blind:pw@127.0.0.1:$port" skew --passive=500ms
expect 3 "$tidelock" --url "redis://blind:pw@127.0.0.1:$port" skew --passive=500ms --format nagios
grep -q '^SKEW UNKNOWN - .*NOPERM' "$out" || fail "nagios: $(cat "$out")"

# ---- wrong usage ----------------------------------------------------------------------------------------
expect_line 64 'say seconds' "$tidelock" skew --passive=5
for d in 0s 99ms 61m; do expect_line 64 '--passive: 100ms to 1h' "$tidelock" skew --passive=$d; done
for o in '--legacy-ttl 60s' '--keys x' '--pool-wait 1ms'; do
    # shellcheck disable=SC2086
    expect_line 64 'require --passive' "$tidelock" skew $o
done
expect_line 64 '--legacy-ttl' "$tidelock" skew --passive --legacy-ttl 0s
expect_line 64 'auto' "$tidelock" skew --passive --legacy-ttl sometimes
expect_line 64 'help dialects' "$tidelock" skew --passive --dialect klingon
expect_line 64 'help dialects' "$tidelock" skew --dialect klingon
expect_line 64 '--keys' "$tidelock" skew --passive --keys ''
expect_line 64 "the pattern has a '\[' without '\]'" "$tidelock" skew --passive --keys 'jobs:[a'
expect_line 64 '--pool-wait' "$tidelock" skew --passive --pool-wait 61s
exit 0
