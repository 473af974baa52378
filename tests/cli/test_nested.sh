#!/bin/bash
# A run within a run on the same lock would wait for itself: it is told so at once, and nobody else is.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 2.8 "what local: starts"
start_server
already='acquire k: a tidelock run around this command holds it already; waiting for it would never end'
outer=("$tidelock" run k --)

expect_line 75 "$already" "${outer[@]}" "$tidelock" run k -- true
expect_line 75 "$already" "${outer[@]}" "$tidelock" run -w 10m k -- true
expect_line 75 "$already" "${outer[@]}" "$tidelock" run -n k -- true
expect_line 3 "$already" "${outer[@]}" "$tidelock" run -E 3 --forever k -- true
expect_line 75 "$already" "${outer[@]}" "$tidelock" lock -w 10m k
expect_line 75 "$already" "${outer[@]}" "$tidelock" run l -- sh -c '"$@"; exit $?' sh "$tidelock" run k -- true
"${outer[@]}" sh -c '"$1" run --json-fd 3 k -- true 3>"$2"' sh "$tidelock" "$work/json" 2>"$err"
json_has "$work/json" state busy
json_has "$work/json" exit_status 75
assert_free k

# Other locks, and the same name elsewhere.
expect 0 "${outer[@]}" "$tidelock" run l -- "$tidelock" run m -- true
expect 0 "${outer[@]}" "$tidelock" --url "local:$work/tidelock" run k -- true
expect 0 "$tidelock" --url "local:$work/tidelock" local stop
binary=$'a b:%=\xff"\n'
expect_line 75 'a tidelock run around this command holds it already' "$tidelock" run "$binary" -- "$tidelock" run "$binary" -- true

# What the environment says of a lock that is over keeps nobody from it, and makes nobody its holder.
"${outer[@]}" sh -c 'echo "$TIDELOCK_HELD"' >"$work/held"
TIDELOCK_HELD=$(cat "$work/held") expect 0 "$tidelock" run k -- true
expect 0 "$tidelock" lock -t 10m k
read -r token _ <"$out"
TIDELOCK_HELD=$(cat "$work/held") expect_line 75 'acquire k: another holds it' "$tidelock" run -n k -- true
expect 0 "$tidelock" unlock k "$token"
"$tidelock" run --hold-at-least 10m k -- sh -c 'echo "$TIDELOCK_HELD"' >"$work/held"
TIDELOCK_HELD=$(cat "$work/held") "$tidelock" run -w 10m k -- true & # nobody holds what rests
waiter=$!
is_awaited() { "$tidelock" check k | grep -q 'in the queue' || ! kill -0 $waiter 2>/dev/null; }
until_true $((20 * slow)) is_awaited || fail "nobody waits for the end of a rest"
expect 0 "$tidelock" break --yes k
wait_for $waiter 20
[[ $status == 0 ]] || fail "who waited for the end of a rest ends with $status"
for held in nonsense : 'af63e64c8601fd8a:' 'af63e64c8601fd8a:fence:' 'af63e64c8601fd8a:token:' "$(printf '%040000d' 7)"; do
    TIDELOCK_HELD=$held expect 0 "$tidelock" run k -- true
done

if [[ ${COMPAT:-1} != 0 ]]; then
    for how in "--protocol bridge" "--protocol timestamp" "--protocol timestamp --strict" "--protocol auto" \
        "--protocol timestamp --strict --dialect jedis-lock-uuid"; do
        # shellcheck disable=SC2086
        expect_line 75 "$already" "$tidelock" run $how k -- "$tidelock" run $how k -- true
        assert_free k
    done
fi

