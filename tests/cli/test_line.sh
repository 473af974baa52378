#!/bin/bash
# Who waits for a lock stands in line: run and lock --fair come in turn, check and inspect show who is there, and how many.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 3.2 "the line"
start_server

# ---- refusals ---------------------------------------------------------------------------------
expect_line 64 'run: --fair needs --wait: with --no-wait there is no queue' "$tidelock" run --fair -n k -- true
expect_line 64 'run: --fair needs --wait: with --no-wait there is no queue' "$tidelock" run --fair -w 0s k -- true
expect_line 64 'lock: --fair needs --wait: with one try there is no queue' "$tidelock" lock --fair k
if [[ ${COMPAT:-1} != 0 ]]; then
    expect_line 64 'needs the token protocol' "$tidelock" run --fair --protocol bridge k -- true
    expect_line 64 'needs the token protocol' "$tidelock" lock --fair -w 1s --protocol timestamp k
fi

# ---- a line of four ---------------------------------------------------------------------------
standing() { (($(redis ZCARD 'tidelock:{k}:line') == $1)); }
expect 0 "$tidelock" lock --ttl 10m k
read -r token fence <"$out"
expect 1 "$tidelock" check k
(($(wc -l <"$out") == 1)) || fail "nobody waits, and check says: $(cat "$out")"
waiters=()
for i in 1 2 3; do
    "$tidelock" run --fair --name "w$i" k -- sh -c 'echo "$1" >>"$2"' sh "$i" "$work/turns" &
    waiters+=($!)
    until_true 20 standing "$i" || fail "waiter $i doesn't come into the line"
done
{ "$tidelock" lock -w 10m --fair --ttl 10m k & } >"$work/lock"
waiters+=($!)
until_true 20 standing 4 || fail "lock --fair doesn't come into the line"

expect 1 "$tidelock" check k
grep -q '^4 in the queue:$' "$out" || fail "check doesn't count the line: $(cat "$out")"
[[ $(sed -nE 's/^ +([0-9]+)\. (\S+) on \S+ \(pid ([0-9]+)\), for [0-9.]+ .*, fair$/\1 \2 \3/p' "$out") == "1 w1 ${waiters[0]}
2 w2 ${waiters[1]}
3 w3 ${waiters[2]}
4 tidelock ${waiters[3]}" ]] || fail "check shows another line: $(cat "$out")"
expect 0 "$tidelock" inspect 'k*'
grep -qE '^ +3\. w3 on ' "$out" || fail "inspect doesn't show the line: $(cat "$out")"
for command in check inspect; do
    "$tidelock" $command --json k >"$out"
    "$python" - "$out" "${waiters[@]}" <<'P' || fail "$command --json: $(cat "$out")"
import json, sys
facts = json.load(open(sys.argv[1]))
if isinstance(facts, list):
    (facts,) = facts
line = facts["line"]
assert facts["waiters"] == facts["in_line"] == 4, facts
assert [w["pid"] for w in line] == [int(p) for p in sys.argv[2:]], line
assert [w["place"] for w in line] == [1, 2, 3, 4], line
assert [w["service"] for w in line] == ["w1", "w2", "w3", "tidelock"], line
waited = [w["waited_ms"] for w in line]
assert all(w["fair"] for w in line) and waited == sorted(waited, reverse=True) and waited[3] >= 0, line
P
    ! grep -q "$(redis GET k)" "$out" || fail "$command shows the holder's token"
    redis ZRANGE 'tidelock:{k}:line' 0 -1 | cut -d' ' -f1 | grep -qf - "$out" && fail "$command shows a waiter's token"
done

# ---- its end: one after the other, and lock has all of its lifetime -----------------------------
expect 0 "$tidelock" unlock k "$token"
for w in "${waiters[@]}"; do
    wait_for "$w" 30
    [[ $status == 0 ]] || fail "a waiter ended with $status"
done
[[ $(cat "$work/turns") == $'1\n2\n3' ]] || fail "their turns: $(tr '\n' ' ' <"$work/turns")"
read -r token fence <"$work/lock"
[[ $(redis GET k) == "$token" ]] || fail "lock --fair printed a token that isn't the key's"
(($(redis PTTL k) > 400000)) || fail "lock --fair has $(redis PTTL k) ms of 10m"
expect 1 "$tidelock" check k
grep -q '^held by tidelock on .*, expires in [45][0-9][0-9] s' "$out" || fail "check: $(cat "$out")"
expect 0 "$tidelock" unlock k "$token"

# ---- what stands there is data from strangers ---------------------------------------------------
expect 0 "$tidelock" lock --ttl 10m k
redis HSET 'tidelock:{k}' line "$(redis HGET 'tidelock:{k}' line)x" >/dev/null
redis EVAL 'redis.call("ZADD", KEYS[1], 1, "nonsense") redis.call("ZADD", KEYS[1], 2, "")
    redis.call("ZADD", KEYS[1], 9e15, "t 1 1 i \27[31mho\10st x " .. string.rep("s", 500))
    for i = 1, 30 do redis.call("ZADD", KEYS[1], i + 10, "t" .. i .. " 1 64 i h 7 s" .. i) end' 1 'tidelock:{k}:line' >/dev/null
expect 1 "$tidelock" check k
grep -q '^33 in the queue:$' "$out" || fail "33 entries: $(cat "$out")"
(($(grep -cE '^ +[0-9]+\. ' "$out") == 20)) || fail "not 20 of them: $(cat "$out")"
grep -q '^ *and 13 more$' "$out" || fail "the rest isn't told: $(cat "$out")"
grep -q ' 1\. an unnamed program on an unknown host' "$out" || fail "nonsense: $(cat "$out")"
redis ZREMRANGEBYSCORE 'tidelock:{k}:line' 0 1000 >/dev/null
expect 1 "$tidelock" check k
! grep -q $'[\033\010]' "$out" || fail "control bytes: $(cat -v "$out")"
(($(wc -c <"$out") < 600)) || fail "it isn't cut: $(cat -v "$out")"
redis DEL 'tidelock:{k}:line' >/dev/null
redis SET 'tidelock:{k}:line' text >/dev/null # of another kind: who stands there isn't known
expect 1 "$tidelock" check --json k
json_has "$out" waiters None
json_has "$out" in_line None
redis FLUSHALL >/dev/null

# ---- a holder that nobody knows but by its token ------------------------------------------------
redis SET k 01234567-89ab-4def-8123-0123456789ab PX 600000 >/dev/null
expect 1 "$tidelock" check k
grep -q 'known only by its token' "$out" || fail "check: $(cat "$out")"
