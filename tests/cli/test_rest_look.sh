#!/bin/bash
# A lock that rests: check, inspect and break say that nobody holds it, who held it last and until when it is taken; break ends the rest.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
token=00000000-0000-4000-8000-0000000000aa
export TZ=UTC-5 # five hours east of Greenwich

# As a client leaves it that acquired the lock a minute ago, and lets it rest for so long from now.
rest() { # key ms
    local now
    # shellcheck disable=SC2046
    now=$(printf '%d%06d' $(redis TIME))
    redis HSET "tidelock:{$1}" token "resting $now $token" value "resting $now $token" until $((now + $2 * 1000)) \
        spent $token claim '' fence 7 since $((now - 60000000)) owner 'app1 812 report' >/dev/null
    redis SET "$1" "resting $now $token" PX "$2" >/dev/null
}
in_utc() { date -u -d "@$((($(now_ms) + $1 + 999) / 1000))" +%Y-%m-%dT%H:%M; } # ms from now

early=$(in_utc 3450000) # 57 min 30 s
rest nightly 3450000
late=$(in_utc 3450000) # which may be the next minute
digest=$(redis DEBUG DIGEST)
expect 1 "$tidelock" check nightly
at="$(date -d "${early}Z" +%H:%M)|$(date -d "${late}Z" +%H:%M)"
grep -qE "^resting until ($at):[0-5][0-9] \(in 57 min\), last held by report on app1 \(pid 812\)$" "$out" ||
    fail "check says, and not $at: $(cat "$out")"
expect 1 "$tidelock" check --json nightly
for each in "state resting" "fence 7" "held_ms None" "oddity None" "protocol token" "guessed False"; do
    json_has "$out" "${each% *}" "${each#* }"
done
"$python" - "$out" "$early" "$late" <<'PY' || fail "check --json: $(cat "$out")"
import json, sys
r = json.loads(open(sys.argv[1]).read())
assert r["holder"] == {"host": "app1", "pid": 812, "service": "report"}, r
assert r["rest_until"].startswith(tuple(sys.argv[2:])) and r["rest_until"].endswith("Z"), (r, sys.argv[2:])
assert 0 <= r["rested_ms"] < 60000 and 3390000 < r["remaining_ms"] <= 3450000, r
PY
expect 0 "$tidelock" inspect
grep -qE '^nightly +token .*app1 812 report +resting +34[0-9]+ s +7 +0 +-$' "$out" || fail "inspect lists: $(cat "$out")"
! grep -q 0000aa "$out" || fail "a token is shown"
expect 0 "$tidelock" inspect --json
grep -q '"state":"resting".*"rested_ms":[0-9].*"rest_until":"20' "$out" || fail "inspect --json: $(cat "$out")"
[[ $(redis DEBUG DIGEST) == "$digest" ]] || fail "it was changed by a look"

# Days away it has a date, and a lock that is held has none of this.
rest yearly $((200 * 86400000))
expect 1 "$tidelock" check yearly
grep -qE '^resting until 20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8} \(in (199 d 23|200 d 0) h\), last' "$out" || fail "check says: $(cat "$out")"
expect 0 "$tidelock" lock -t 10m held
expect 1 "$tidelock" check --json held
json_has "$out" state held
json_has "$out" rested_ms None
json_has "$out" rest_until None

# Nobody acquires it, even if somebody deletes its key, and its value alone is known for a rest.
redis DEL yearly >/dev/null
expect 1 "$tidelock" check yearly
grep -q '^resting until .*last held by report on app1' "$out" || fail "check says: $(cat "$out")"
expect 75 "$tidelock" lock yearly
rest alone 600000
redis DEL 'tidelock:{alone}' >/dev/null
expect 1 "$tidelock" check alone
grep -qE '^resting until [0-9:]{8} \(in (9|10) min\), last held by an unknown client$' "$out" || fail "check says: $(cat "$out")"
expect_line 0 'alone: removed; it was resting until' "$tidelock" break --yes alone
assert_free alone

# A break ends the rest that it has shown, at once for all who want the lock; a later rest stays.
{ "$tidelock" lock -t 10m --wait 10m nightly & } >"$work/next" 2>&1
waiter=$!
is_awaited() {
    if "$tidelock" check --json nightly >"$out"; then fail "it is free"; fi
    grep -q '"waiters":[1-9]' "$out"
}
until_true $((20 * slow)) is_awaited || fail "nobody waits: $(cat "$out")"
expect_line 0 '^tidelock: nightly: removed; it was resting until [0-9:]{8} \(in 5[67] min\)$' "$tidelock" break --yes nightly
wait_for $waiter 20
[[ $status == 0 ]] || fail "who waited for it ends with $status: $(cat "$work/next")"
[[ $(redis HGET 'tidelock:{nightly}' broken) == "$(uname -n) "*' tidelock' ]] || fail "break leaves no trace"
expect_line 1 'nobody holds it' "$tidelock" break --yes unknown
