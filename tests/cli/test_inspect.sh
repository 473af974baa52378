#!/bin/bash
# inspect: lists what looks like a lock and nothing else, in bounded steps, and changes nothing.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# ---- refusals ---------------------------------------------------------------------------------
expect_line 64 'number from 1 to' "$tidelock" inspect --limit 0
expect_line 64 'number from 1 to' "$tidelock" inspect --limit 100001
expect_line 64 'at least 1ms' "$tidelock" inspect --watch=0s
expect_line 64 'say seconds' "$tidelock" inspect --watch=5
expect_line 64 'too many' "$tidelock" inspect a b
expect_line 64 'pattern' "$tidelock" inspect ''
expect_line 64 "pattern: it has a '\[' without" "$tidelock" inspect 'a['
if [[ ${COMPAT:-1} != 0 ]]; then
    expect_line 64 "strict: its commands can't list" "$tidelock" inspect --protocol timestamp --strict
    expect_line 64 "is unknown; see: tidelock help dialects" "$tidelock" inspect --dialect nonsense
fi

# ---- an empty server --------------------------------------------------------------------------
expect 0 "$tidelock" inspect
[[ $(cat "$out") == 'no locks' ]] || fail "an empty server: $(cat "$out")"
expect 0 "$tidelock" inspect --json
[[ $(cat "$out") == '[]' ]] || fail "an empty server: $(cat "$out")"

# ---- what is a lock and what isn't ------------------------------------------------------------
expect 0 "$tidelock" lock -t 10m jobs:a
read -r token fence <"$out"
redis SET jobs:redlock 01234567-89ab-4def-8123-456789abcdef PX 600000 >/dev/null
redis SET jobs:hex "$(printf '%040d' 7)" PX 600000 >/dev/null
redis SET no:ttl 01234567-89ab-4def-8123-456789abcdef >/dev/null
redis SET no:text hello >/dev/null
redis SET no:number 12345 PX 600000 >/dev/null
redis SET no:long "$(printf '%05000d' 1)" >/dev/null
redis HSET no:hash token x value x >/dev/null
redis LPUSH no:list 1 >/dev/null
redis SET jobs:$'\001\n\033[2J' 01234567-89ab-4def-8123-456789abcdef PX 600000 >/dev/null
digest=$(redis DEBUG DIGEST)
expect 0 "$tidelock" inspect
! grep -q 'no:' "$out" || fail "what is no lock is listed: $(cat "$out")"
! grep -q 'tidelock:{' "$out" || fail "a sidecar is listed: $(cat "$out")"
! grep -qE "$token|4def-8123" "$out" || fail "a token is shown"
! grep -q $'\033' "$out" || fail "a key's control bytes reach the terminal"
(($(wc -l <"$out") == 5)) || fail "$(wc -l <"$out") lines: $(cat "$out")"
dialect=' +DIALECT' none=' +-'
if [[ ${COMPAT:-1} == 0 ]]; then dialect='' none=''; fi # there are none
head -n 1 "$out" | grep -qE "^KEY +PROTOCOL$dialect +HOLDER +HELD FOR +EXPIRES +FENCE +WAITERS +ODDITY$" ||
    fail "the head is $(head -n 1 "$out")"
grep -qE "^jobs:a +token$none +$(uname -n) [0-9]+ tidelock +[0-9.]+ m?s +[0-9]+ s +$fence +0 +-$" "$out" ||
    fail "our lock is listed as: $(grep jobs:a "$out")"
grep -qE "^jobs:redlock +token\?$none +- +- +[0-9.]+ s +- +0 +-$" "$out" || fail "$(grep redlock "$out")"
[[ $(redis DEBUG DIGEST) == "$digest" ]] || fail "inspect has changed something"

# ---- names that a terminal would act on ----------------------------------------------------------
# Also the control characters behind ASCII (CSI is U+009B), as UTF-8 and as bytes. Other characters are shown.
for name in $'odd:\xc2\x9b2J' $'odd:\x9b31m' $'odd:\xc3\xa9' $'odd:\xe2\x9b\x84'; do
    redis SET "$name" 01234567-89ab-4def-8123-456789abcdef PX 600000 >/dev/null
done
expect 0 "$tidelock" inspect 'odd:*'
! LC_ALL=C grep -qaE $'\xc2\x9b|:\x9b' "$out" || fail "a control character of a key reaches the terminal: $(cat -v "$out")"
for name in 'odd:?2J' 'odd:?31m' $'odd:\xc3\xa9' $'odd:\xe2\x9b\x84'; do
    LC_ALL=C grep -qaF "$name " "$out" || fail "there is no '$name': $(cat -v "$out")"
done
long=$(printf 'odd:%0119d' 1) # the cell's cut is within the character that follows
redis SET "$long"$'\xe2\x9b\x84and:more' 01234567-89ab-4def-8123-456789abcdef PX 600000 >/dev/null
expect 0 "$tidelock" inspect "$long*"
LC_ALL=C grep -qaF "$long... " "$out" || fail "a name is cut within a character: $(cat -v "$out")"
expect_line 75 '^tidelock: acquire odd:\?\?2J' "$tidelock" lock $'odd:\xc2\x9b2J'
redis DEL $'odd:\xc2\x9b2J' $'odd:\x9b31m' $'odd:\xc3\xa9' $'odd:\xe2\x9b\x84' "$long"$'\xe2\x9b\x84and:more' >/dev/null

# ---- locks of other libraries -----------------------------------------------------------------
owner=01234567-89ab-4def-8123-456789abcdef:51
redis HSET other:redisson $owner 1 >/dev/null
redis PEXPIRE other:redisson 30000 >/dev/null
redis SET other:shedlock ADDED:2026-11-30T03:33:45.123Z@db1:01234567-89ab-4def-8123-456789abcdef PX 600000 >/dev/null
redis SET other:lock 1 EX 600 >/dev/null
redis SET other:flag 1 EX 600 >/dev/null
expect 0 "$tidelock" inspect 'other:*'
(($(wc -l <"$out") == 4)) || fail "of other libraries: $(cat "$out")"
grep -qE '^other:redisson +- .* Redisson +- .* holds a lock of Redisson, which only Redisson can share$' "$out" || fail "$(cat "$out")"
grep -qE '^other:shedlock +token\? .* ShedLock on db1 ' "$out" || fail "$(cat "$out")"
grep -qE "^other:lock +- .* a constant: each holder writes the same, and may delete another's lock$" "$out" || fail "$(cat "$out")"
! grep -qE '89ab-4def|:51' "$out" || fail "a token is shown: $(cat "$out")"
expect 0 "$tidelock" inspect --json 'other:*'
"$python" - "$out" <<'PY' || fail "inspect --json: $(cat "$out")"
import json, sys
rows = json.load(open(sys.argv[1]))
assert [(r["key"], r["library"]) for r in rows] == [("other:lock", None), ("other:redisson", "Redisson"), ("other:shedlock", "ShedLock")], rows
assert 0 < rows[1]["remaining_ms"] <= 30000 and rows[1]["state"] == "held" and rows[1]["protocol"] is None, rows
PY
! grep -qE '89ab-4def' "$out" || fail "a token is shown: $(cat "$out")"
redis DEL other:redisson other:shedlock other:lock other:flag >/dev/null

# ---- JSON -------------------------------------------------------------------------------------
expect 0 "$tidelock" inspect --json 'jobs:*'
"$python" - "$out" "$fence" <<'PY' || fail "inspect --json: $(cat "$out")"
import json, sys
text = open(sys.argv[1]).read()
assert text.count("\n") == 1
rows = json.loads(text)
assert [r["key"] for r in rows] == ["jobs:\x01\n\x1b[2J", "jobs:a", "jobs:hex", "jobs:redlock"], rows
for r in rows:
    assert r["token"] is None and r["waiters"] == 0 and r["oddity"] is None, r
    assert r["state"] == "held" and r["protocol"] == "token", r
    assert 0 < r["remaining_ms"] <= 600000, r
ours = rows[1]
assert ours["fence"] == int(sys.argv[2]) and ours["holder"]["pid"] > 0 and not ours["guessed"], ours
assert rows[3]["holder"] is None and rows[3]["fence"] is None and rows[3]["guessed"], rows[3]
PY
# Who waits is counted, also behind a lock that isn't tidelock's; nothing is written for that.
has_waiters() { # key number
    "$tidelock" inspect --json "$1" >"$work/waiters" && grep -q "\"waiters\":$2," "$work/waiters"
}
waiting=()
for key in jobs:a jobs:a jobs:redlock; do
    "$tidelock" lock --wait 10m "$key" >/dev/null 2>&1 &
    waiting+=($!)
done
until_true $((20 * slow)) has_waiters jobs:a 2 || fail "two wait: $(cat "$work/waiters")"
until_true $((20 * slow)) has_waiters jobs:redlock 1 || fail "one waits: $(cat "$work/waiters")"
expect 1 "$tidelock" check --json jobs:a
json_has "$out" waiters 2
grep -qE ' 2 +-$' <("$tidelock" inspect jobs:a) || fail "the table: $("$tidelock" inspect jobs:a)"
kill "${waiting[@]}"
until_true $((20 * slow)) has_waiters jobs:a 0 || fail "nobody waits: $(cat "$work/waiters")"
expect 0 "$tidelock" inspect --format json 'none:*'
[[ $(cat "$out") == '[]' ]] || fail "no match: $(cat "$out")"
# A key with a zero byte.
printf '*5\r\n$3\r\nSET\r\n$3\r\nz\0y\r\n$36\r\n01234567-89ab-4def-8123-456789abcdef\r\n$2\r\nPX\r\n$6\r\n600000\r\n' |
    "$python" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.stdin.buffer.read()); s.recv(100)' "$socket"
expect 0 "$tidelock" inspect --json 'z*'
grep -q '"key":"z\\u0000y"' "$out" || fail "a key with a zero byte: $(cat "$out")"

# ---- stamps -----------------------------------------------------------------------------------
if [[ ${COMPAT:-1} != 0 ]]; then
    now=$(now_ms)
    expect 0 "$tidelock" lock -t 110s --protocol bridge old:bridge
    redis SET old:java $((now + 600000)) >/dev/null
    redis SET old:over $((now - 7200000)) >/dev/null
    redis SET old:ago $((now - 864000000)) >/dev/null
    redis SET old:seconds $((now / 1000 + 600)) >/dev/null
    redis SET old:concat "${now}60000" >/dev/null
    redis SET old:json "\"$now\"" >/dev/null
    printf '\xac\xed\x00\x05sr\x00\x0ejava.lang.Long;' | redis -x SET old:binary >/dev/null
    expect 0 "$tidelock" inspect 'old:*'
    line() { grep -E "^old:$1 " "$out"; }
    [[ $(line bridge) =~ \ bridge\ +java\?\ +$(uname -n)\ [0-9]+\ tidelock ]] || fail "$(line bridge)"
    [[ $(line java) =~ timestamp\?\ +java\?\ +-\ +-\ +[56][0-9]{2}\ s\? ]] || fail "$(line java)"
    [[ $(line over) =~ timestamp\?\ +java\?\ +.*\ 1[0-9]{2}\ min\ ago\? ]] || fail "$(line over)"
    [[ $(line ago) =~ \ 10\ d\ ago\? ]] || fail "$(line ago)"
    [[ $(line seconds) =~ timestamp\?\ +redis-doc\? ]] || fail "$(line seconds)"
    [[ $(line concat) =~ 'run together' && $(line concat) =~ never ]] || fail "$(line concat)"
    [[ $(line json) =~ JSON ]] || fail "$(line json)"
    [[ $(line binary) =~ 'serialised Java' ]] || fail "$(line binary)"
    expect 0 "$tidelock" inspect --dialect java 'old:*'
    [[ $(line java) =~ timestamp\ +java\ +-\ +-\ +[56][0-9]{2}\ s\ +- ]] || fail "$(line java)"
    [[ $(line over) =~ java\ .*\ over\  ]] || fail "$(line over)"
    [[ $(line seconds) =~ 'seconds where milliseconds' ]] || fail "$(line seconds)"
    expect 0 "$tidelock" inspect --json 'old:o*'
    "$python" -c 'import json,sys; (r,) = json.load(open(sys.argv[1])); assert r["state"] == "expired" and r["guessed"] and r["stamp_left_ms"] < -7000000, r' "$out" ||
        fail "an old stamp: $(cat "$out")"
    ! grep -qE "$now|$((now + 600000))" "$out" || fail "a stamp is shown, which may serve as a token"
    redis DEL old:bridge old:java old:over old:seconds old:concat old:json old:binary 'tidelock:{old:bridge}' >/dev/null
fi

# ---- many keys --------------------------------------------------------------------------------
redis EVAL 'for i = 1, 5000 do redis.call("SET", "many:" .. i, "text") end
    for i = 1, 300 do redis.call("SET", "lot:" .. i, string.format("01234567-89ab-4def-8123-%012d", i), "PX", 600000) end' 0 >/dev/null
expect 0 "$tidelock" inspect --json 'lot:*'
"$python" -c 'import json,sys; r = [x["key"] for x in json.load(open(sys.argv[1]))]; assert len(r) == 300 and r == sorted(set(r))' "$out" ||
    fail "of 300 locks among 5000 keys: $(head -c 200 "$out")"
expect 0 "$tidelock" inspect --limit 10 'lot:*'
(($(wc -l <"$out") == 11)) || fail "--limit 10 lists $(($(wc -l <"$out") - 1))"
grep -q 'the list is incomplete.*--limit' "$err" || fail "nobody is told that there are more"
expect 0 "$tidelock" inspect --limit 300 'lot:*'
[[ ! -s $err ]] || fail "exactly the limit: $(cat "$err")"
! redis INFO commandstats | grep -q cmdstat_keys: || fail "KEYS was used"
# Of a key that is no lock nothing is read but its value, if that is short. No step asks for many keys. (A key may be
# reported twice.)
redis EVAL 'for i = 1, 1000 do
    redis.call("SET", "cache:" .. i, string.rep("x", 200), "PX", 600000)
    redis.call("SET", "session:" .. i, "{\"user\":" .. i .. ",\"role\":\"guest\"}", "PX", 600000)
    redis.call("SET", "count:" .. i, i)
    redis.call("HSET", "user:" .. i, "name", "n" .. i)
    end redis.call("DEL", "z\0y")' 0 >/dev/null
redis CONFIG RESETSTAT >/dev/null
for pattern in 'many:*' 'cache:*' 'session:*' 'count:*' 'user:*'; do
    expect 0 "$tidelock" inspect "$pattern"
    [[ $(cat "$out") == 'no locks' ]] || fail "$pattern: $(cat "$out")"
done
calls() { redis INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\).*/\1/p" | grep . || echo 0; }
(($(calls strlen) < 9000 && $(calls get) < 8000)) || fail "of 8000 strings: $(redis INFO commandstats)"
(($(calls hmget) + $(calls pttl) + $(calls ttl) + $(calls pubsub) == 0)) || fail "of what is no lock: $(redis INFO commandstats)"
(($(calls scan) > 5 * 9300 / 200)) || fail "9300 keys in $(calls scan) steps"
if redis SCAN 0 TYPE string | grep -qE '^[0-9]+$'; then # from 6.0 on
    (($(calls type) == 0)) || fail "types are asked for: $(redis INFO commandstats)"
fi

# ---- watch ------------------------------------------------------------------------------------
# A shell has its background jobs ignore INT.
heeding_int() { exec "$python" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$@"; }
for sig in INT TERM; do
    expect 0 "$tidelock" lock -t 10m watched
    read -r token fence <"$out"
    : >"$work/watch"
    { heeding_int "$tidelock" inspect --watch=50ms watched & } >"$work/watch" 2>"$err"
    watch=$!
    tables() { (($(grep -c "$1" "$work/watch") >= 2)); }
    until_true 10 tables '^KEY' || fail "no second table: $(cat "$work/watch")"
    expect 0 "$tidelock" unlock watched "$token"
    until_true 10 tables 'no locks' || fail "the release is not seen: $(cat "$work/watch")"
    kill -$sig $watch
    wait_for $watch 10
    want=0
    [[ $sig == INT ]] || want=143
    [[ $status == "$want" ]] || fail "$sig ends a watch with $status"
done

# ---- output and server that fail --------------------------------------------------------------
if [[ -w /dev/full ]]; then
    for o in --json --format=text; do
        "$tidelock" inspect $o >/dev/full 2>"$err"
        [[ $? == 70 ]] || fail "inspect $o into a full device succeeds"
    done
fi
redis ACL SETUSER default -eval -evalsha >/dev/null
expect_line 77 'permission' "$tidelock" inspect
stop_server
expect_line 69 . "$tidelock" inspect
