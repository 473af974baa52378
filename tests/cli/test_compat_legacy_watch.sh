#!/bin/bash
# A server with WATCH but without EVAL: timestamp locks have tokens and fences, and are renewed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --rename-command EVAL '' --rename-command EVALSHA ''
expect_line 77 'no EVALSHA, which the bridge needs: .*protocol timestamp works there; this one is Redis [0-9.]+$' "$tidelock" lock --protocol bridge k

expect 0 "$tidelock" lock --protocol timestamp k
read -r token fence <"$out"
stamp=$(redis GET k)
[[ ${#token} == 36 && $fence -gt 0 && $stamp =~ ^[0-9]{13}$ ]] || fail "lock prints: $(cat "$out"); k holds $stamp"
expect 75 "$tidelock" lock --protocol timestamp k
expect 75 "$tidelock" lock --protocol timestamp --strict k
expect 1 "$tidelock" check --protocol timestamp k
expect 0 "$tidelock" extend --protocol timestamp --ttl 100s k "$token"
(($(redis GET k) > stamp)) || fail "extending wrote no later stamp: $(redis GET k) after $stamp"
expect_line 2 another "$tidelock" unlock --protocol timestamp k 00000000-0000-4000-8000-000000000001
assert_held k
expect 0 "$tidelock" unlock --protocol timestamp k "$token"
assert_free k
expect_line 1 'no longer held' "$tidelock" unlock --protocol timestamp k "$token"

# It is renewed: the command sees a later stamp.
expect 0 "$tidelock" run --protocol timestamp --legacy-ttl-min 12s --clock-skew-max 500ms k -- \
    sh -c 'was=$(redis-cli -s "$1" GET k); until [ "$(redis-cli -s "$1" GET k)" -gt "$was" ]; do sleep 0.05; done' sh "$socket"
assert_free k

# Frozen while somebody waits, who looks each 5 s: the server isn't reached, as it is called by the other protocols. It is frozen
# before the last look, however late that is.
expect 0 "$tidelock" lock --protocol timestamp k
looks() { redis INFO commandstats | sed -n 's/^cmdstat_watch:calls=\([0-9]*\),.*/\1/p'; }
before=$(looks)
waits() { (($(looks) > before)); }
{ "$tidelock" run -w 12s --protocol timestamp k -- echo never & } >"$out" 2>"$err"
waiter=$!
until_true 10 waits || fail "nobody waits"
stop_server STOP
wait_for $waiter 20
stop_server CONT
[[ $status == 69 && ! -s $out ]] || fail "frozen during the wait: status $status"
grep -q 'no reply' "$err" || fail "it doesn't say what is wrong"
