#!/bin/bash
# A server without EVAL and WATCH: timestamp locks go on with SETNX, GET, GETSET and DEL, the rest says why not.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --rename-command EVAL '' --rename-command EVALSHA '' --rename-command WATCH ''
expect_line 77 'no EVALSHA, which listing keys needs: it is renamed or forbidden there; this one is Redis [0-9.]+$' "$tidelock" inspect
expect_line 77 'no EVALSHA, which the bridge needs: .*protocol timestamp works there; this one is Redis [0-9.]+$' "$tidelock" lock --protocol bridge k

expect 0 "$tidelock" lock --protocol timestamp k
read -r token fence <"$out"
[[ $token == "$(redis GET k)" && $fence == 0 ]] || fail "lock prints: $(cat "$out")"
expect 75 "$tidelock" lock --protocol timestamp k
expect 75 "$tidelock" lock --protocol timestamp --strict k
expect 1 "$tidelock" check --protocol timestamp k
grep -qF 'held by a client known only by its stamp (java): a legacy client, or tidelock, free in ' "$out" || fail "check says: $(cat "$out")"
expect 1 "$tidelock" check --protocol timestamp --json k
json_has "$out" fence None
json_has "$out" guessed False
expect_line 2 another "$tidelock" unlock --protocol timestamp k $((token + 1))
assert_held k
expect 0 "$tidelock" unlock --protocol timestamp k "$token"
assert_free k
expect 0 "$tidelock" check --protocol timestamp k
[[ $(cat "$out") == free ]] || fail "check of a free key says: $(cat "$out")"

expect 0 "$tidelock" run --protocol timestamp k -- sh -c 'echo "$TIDELOCK_TOKEN $TIDELOCK_FENCE"; redis-cli -s "$1" GET k' sh "$socket"
read -r token fence <"$out"
[[ $token == "$(tail -n 1 "$out")" && $fence == 0 ]] || fail "the command sees: $(cat "$out")"
assert_free k
# Nothing renews it: the command is ended.
expect 74 "$tidelock" run --protocol timestamp --legacy-ttl-min 4s --clock-skew-max 500ms k -- sleep 1000
