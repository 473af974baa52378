#!/bin/bash
# lock, unlock, extend and check: a lock that a script keeps by its token.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 3.2 "the line"
start_server
pttl() { redis PTTL "$1"; }

# ---- lock -------------------------------------------------------------------------------------
expect 0 "$tidelock" lock -t 10m k
read -r token fence rest <"$out"
[[ -n $token && $fence -gt 0 && -z $rest && $(wc -l <"$out") == 1 ]] || fail "lock prints: $(cat "$out")"
[[ $(redis GET k) == "$token" ]] || fail "the key does not hold the token"
(($(pttl k) > 500000 && $(pttl k) <= 600000)) || fail "the lifetime is $(pttl k) ms"
expect 75 "$tidelock" lock k
[[ ! -s $out && $(cat "$err") == "tidelock: acquire k: another holds it; see: tidelock check k" ]] || fail "a busy lock prints: $(cat "$out" "$err")"
start=$(now_ms)
expect 75 "$tidelock" lock -w 2s k
took=$(($(now_ms) - start))
((took >= 1950)) || fail "lock -w 2s took $took ms"
[[ $(redis GET k) == "$token" ]] || fail "a refused lock changed the key"

# A key that holds no lock at all is called what it is.
redis RPUSH jobs:42 a b >/dev/null
expect_line 75 '^tidelock: jobs:42 holds a list, not a lock; choose another key$' "$tidelock" lock jobs:42
expect_line 75 '^tidelock: jobs:42 holds a list, not a lock; choose another key$' "$tidelock" run -n jobs:42 -- true
expect_line 75 '^tidelock: jobs:42 holds a list, not a lock; choose another key$' "$tidelock" run -w 2s jobs:42 -- true
expect 1 "$tidelock" check jobs:42
[[ $(cat "$out") == "jobs:42 holds a list, not a lock; choose another key" ]] || fail "check of a list says: $(cat "$out")"
expect 1 "$tidelock" check --json jobs:42
json_has "$out" oddity 'holds a list, not a lock'
expect 75 sh -c 'exec "$@" 3>"$0"' "$work/json" "$tidelock" run -n --json --json-fd 3 jobs:42 -- true
json_has "$work/json" error 'holds a list, not a lock'
redis DEL jobs:42 >/dev/null
redis SET jobs:42 list >/dev/null # a string may hold any text
expect_line 75 '^tidelock: acquire jobs:42: another holds it; see: tidelock check jobs:42$' "$tidelock" lock jobs:42
redis DEL jobs:42 >/dev/null

# Locks that no client can share with this one, and what to do.
redis HSET jobs:42 01234567-89ab-4def-8123-456789abcdef:51 1 >/dev/null
expect_line 75 '^tidelock: jobs:42 holds a lock of Redisson, which only Redisson can share; choose another key$' "$tidelock" lock jobs:42
expect 1 "$tidelock" check jobs:42
[[ $(cat "$out") == "jobs:42 holds a lock of Redisson, which only Redisson can share; choose another key" ]] || fail "check: $(cat "$out")"
expect_line 64 'holds a lock of Redisson, .*: it is never removed' "$tidelock" break --yes --force jobs:42
redis DEL jobs:42 >/dev/null
redis SET jobs:42 locked EX 60 >/dev/null
expect 1 "$tidelock" check jobs:42
grep -Eq "^held by a client that is not tidelock, expires in .* \(a constant: each holder writes the same, and may delete another's lock\)$" "$out" || fail "check: $(cat "$out")"
grep -q '^let each holder write a random value, and release by a script ' "$out" || fail "check: $(cat "$out")"
expect 1 "$tidelock" check --json jobs:42
json_has "$out" oddity "a constant: each holder writes the same, and may delete another's lock"
json_has "$out" library None
json_has "$out" advice 'let each holder write a random value, and release by a script that deletes the key only while it has that value'
redis SET jobs:42 ADDED:2026-11-30T03:33:45.123Z@db1:01234567-89ab-4def-8123-456789abcdef EX 60 >/dev/null
expect 1 "$tidelock" check jobs:42
grep -q '^held by ShedLock on db1, expires in ' "$out" || fail "check: $(cat "$out")"
redis DEL jobs:42 >/dev/null

# ---- check ------------------------------------------------------------------------------------
expect 1 "$tidelock" check k
[[ $(wc -l <"$out") == 1 ]] || fail "check prints more than one line"
grep -q "^held by tidelock on .*expires in" "$out" || fail "check says: $(cat "$out")"
! grep -q "$token" "$out" || fail "check shows another's token"
expect 1 "$tidelock" check --json k
! grep -q "$token" "$out" || fail "check --json shows another's token"
json_has "$out" key k
json_has "$out" state held
json_has "$out" protocol token
json_has "$out" token None
json_has "$out" fence "$fence"
json_has "$out" waiters 0
"$python" - "$out" <<'PY' || fail "check --json: $(cat "$out")"
import json, socket, sys
d = json.load(open(sys.argv[1]))
assert 500000 < d["remaining_ms"] <= 600000, d
assert set(d["holder"]) == {"host", "pid", "service"}, d
assert d["holder"]["pid"] > 0 and d["holder"]["host"] == socket.gethostname(), d
PY
expect 1 "$tidelock" check --format json k
expect 0 "$tidelock" check free-one
[[ $(cat "$out") == free ]] || fail "check of a free key says: $(cat "$out")"
expect 0 "$tidelock" check free-one --json
json_has "$out" state free
json_has "$out" holder None
json_has "$out" remaining_ms None
redis SET foreign 'secret-token' PX 600000 >/dev/null
expect 1 "$tidelock" check foreign
grep -q 'not tidelock' "$out" || fail "check of a foreign lock says: $(cat "$out")"
! grep -q secret-token "$out" || fail "check shows a foreign token"
expect 1 "$tidelock" check --json foreign
json_has "$out" holder None
! grep -q secret-token "$out" || fail "check --json shows a foreign token"
redis SET eternal x >/dev/null
expect 1 "$tidelock" check eternal
expect 1 "$tidelock" check --json eternal
json_has "$out" remaining_ms None

# ---- extend -----------------------------------------------------------------------------------
expect 0 "$tidelock" extend k "$token" --ttl 20m
(($(pttl k) > 1100000 && $(pttl k) <= 1200000)) || fail "after extend the lifetime is $(pttl k) ms"
expect 2 "$tidelock" extend k wrong-token --ttl 50s
expect 1 "$tidelock" extend free-one "$token" --ttl 50s
[[ $(redis EXISTS free-one) == 0 ]] || fail "extend created a key"

# ---- unlock -----------------------------------------------------------------------------------
expect_line 2 'another' "$tidelock" unlock k wrong-token
assert_held k
expect 2 "$tidelock" unlock foreign "$token"
[[ $(redis GET foreign) == secret-token ]] || fail "unlock touched a foreign lock"
expect 0 "$tidelock" unlock k "$token"
[[ ! -s $out && ! -s $err ]] || fail "unlock says something"
assert_free k
expect_line 1 'no longer held' "$tidelock" unlock k "$token"
expect_line 64 . "$tidelock" unlock k ''
expect_line 64 . "$tidelock" unlock k "$(printf '%*s' 100 '' | tr ' ' x)"

# The lock is not renewed: it ends with its lifetime.
expect 0 "$tidelock" lock -t 2s k
(($(pttl k) <= 2000)) || fail "the lifetime is $(pttl k) ms"
until_true 5 is_free k || fail "the lock outlives its lifetime"
expect 0 "$tidelock" lock -t 10m k
read -r token fence2 <"$out"
((fence2 > fence)) || fail "the fence does not grow: $fence, $fence2"

# JSON of lock.
expect 75 "$tidelock" lock --json k
json_has "$out" state busy
json_has "$out" token None
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["holder"]["pid"] > 0' "$out" ||
    fail "lock --json does not say who has it: $(cat "$out")"
expect 0 "$tidelock" unlock k "$token"
expect 0 "$tidelock" lock --json -t 10m k
token=$(redis GET k)
json_has "$out" state held
json_has "$out" token "$token"
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert 470000 < d["remaining_ms"] <= 490909' "$out" ||
    fail "lock --json: $(cat "$out")"
expect 0 "$tidelock" unlock k "$token"

# A token that could not be printed is no lock to anybody: it is given back.
if [[ -w /dev/full ]]; then
    "$tidelock" lock k >/dev/full 2>"$err"
    [[ $? == 70 ]] || fail "lock into a full device succeeds"
    assert_free k
fi
# Nor is one whose standard output is closed, whatever has its number since.
for closed in '>&-' '<&- >&-' '<&- >&- 2>&-'; do
    for json in '' --json; do
        eval '"$tidelock" lock $json k' "$closed" 2>"$err"
        [[ $? == 70 ]] || fail "lock $json $closed succeeds"
        assert_free k
    done
done
"$tidelock" lock -t 10m k <&- 2>&- >"$out" || fail "lock <&- 2>&-: status $?"
read -r token _ <"$out"
[[ $(redis GET k) == "$token" ]] || fail "lock <&- 2>&- prints no token: $(cat "$out")"
expect 0 "$tidelock" unlock k "$token"
# A reader that is gone: the same.
mkfifo "$work/gone"
: <"$work/gone" &
reader=$!
exec 7>"$work/gone"
wait $reader
"$tidelock" lock k >&7 2>"$err"
[[ $? == 70 ]] || fail "lock for a reader that is gone succeeds"
exec 7>&-
assert_free k

# A lock is handed from lock to run by its key: run waits for the unlock.
expect 0 "$tidelock" lock -t 10m k
token=$(cut -d ' ' -f 1 "$out")
"$tidelock" run k -- true &
run=$!
has_waiter() { "$tidelock" check --json k | grep -q '"waiters":1,'; }
until_true 20 has_waiter || fail "run does not wait"
! gone $run || fail "run got a lock that another holds"
expect 0 "$tidelock" unlock k "$token"
wait_for $run 10
[[ $status == 0 ]] || fail "run after unlock: status $status"

# ---- no server --------------------------------------------------------------------------------
stop_server
expect_line 69 . "$tidelock" lock -w 300ms k
for c in "lock k" "unlock k t" "extend k t --ttl 1s" "check k"; do # each ends by itself, or expect_line ends it
    # shellcheck disable=SC2086
    expect_line 69 . "$tidelock" $c
done
