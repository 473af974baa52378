#!/bin/bash
# Locks beside legacy clients: the options about them, what is refused, and who excludes whom.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
now=$(now_ms)
is_ms() { [[ $1 =~ ^[0-9]{13}$ ]]; }

# ---- refusals: one line, 64 -------------------------------------------------------------------
for c in "run KEY -- true" "lock KEY" "unlock KEY t" "extend KEY t -t 60s" "check KEY"; do
    words=${c/KEY/k}
    name=${c%% *}
    refuse() { # pattern options...
        local pattern=$1
        shift
        # shellcheck disable=SC2086
        depth=1 expect_line 64 "$pattern" "$tidelock" $name "$@" ${words#"$name"}
    }
    refuse 'token.bridge.timestamp' --protocol nonsense
    refuse "'nonsense' is unknown" --protocol bridge --dialect nonsense
    refuse "'nonsense' is unknown" --protocol bridge --dialect 'cron:*=nonsense,java'
    refuse 'the name is empty' --protocol bridge --dialect ''
    refuse 'need --protocol' --dialect java
    refuse 'need --protocol' --clock-skew-max 2s
    refuse 'need --protocol' --clock-guard refuse
    refuse 'so clock_guard can.t refuse' --protocol timestamp --strict --clock-guard refuse
    refuse 'only with --protocol timestamp' --strict
    refuse 'only with --protocol timestamp' --protocol bridge --strict
    refuse 'legacy_ttl_min: 2000 ms leave no validity with clock_skew_max 1000 ms' --protocol bridge --legacy-ttl-min 2s
    refuse 'leave no validity' --protocol timestamp --clock-skew-max 30s
    refuse 'at least 1ms' --protocol bridge --clock-skew-max 0s
    refuse 'at least 1ms' --protocol bridge --legacy-delay-max 0ms
    refuse 'at least 1ms' --protocol bridge --legacy-ttl-min 0s
    refuse 'clock_skew_max' --protocol bridge --clock-skew-max 2h
    refuse 'say seconds or milliseconds' --protocol bridge --legacy-ttl-min 60
done
expect_line 64 'ttl: more than 3000 ms' "$tidelock" lock --protocol bridge -t 3s k
expect_line 64 'ttl: at most' "$tidelock" lock --protocol bridge -t 10m k
expect_line 64 'ttl: more than' "$tidelock" run --protocol bridge -t 3s k -- true
assert_free k
# What is wrong of them is not blamed on the URL in the environment.
expect_line 64 'legacy_ttl_min' "$tidelock" check --protocol bridge --legacy-ttl-min 1s k

# Of this lifetime 13 s are believed: it is renewed before the command is told to end, which sees the next stamp.
{ "$tidelock" run --protocol bridge --legacy-ttl-min 33s --clock-skew-max 10s --legacy-delay-max 1ms brief -- \
    sh -c 'was=$(redis-cli -s "$1" GET brief); while [ "$(redis-cli -s "$1" GET brief)" = "$was" ]; do sleep 0.05; done' sh "$socket" & } 2>"$work/brief"
brief=$!

# ---- bridge -----------------------------------------------------------------------------------
expect 0 "$tidelock" lock --protocol bridge k
read -r token fence <"$out"
value=$(redis GET k)
is_ms "$value" || fail "the key holds $value"
((value >= now + 59000 && value <= $(now_ms) + 60000)) || fail "the stamp ends $((value - now)) ms from now"
[[ $token != "$value" && $fence -gt 0 ]] || fail "lock prints: $(cat "$out")"
expect 75 "$tidelock" lock --protocol bridge k
expect 75 "$tidelock" lock --protocol timestamp k
expect 75 "$tidelock" lock --protocol timestamp --strict k
expect 75 "$tidelock" lock k
expect 1 "$tidelock" check --protocol bridge k
grep -qE '^held by tidelock on .* expires in .*, fence' "$out" || fail "check says: $(cat "$out")"
expect 0 "$tidelock" extend --protocol bridge k "$token" -t 80s
(($(redis GET k) >= value + 15000)) || fail "extend moved the stamp from $value to $(redis GET k)"
expect_line 2 another "$tidelock" unlock --protocol bridge k wrong
is_ms "$(redis GET k)" || fail "a wrong token released it"
expect 0 "$tidelock" unlock --protocol bridge k "$token"
assert_free k
expect 0 "$tidelock" lock --protocol bridge --json k
json_has "$out" protocol bridge
expect 0 "$tidelock" unlock --protocol bridge k "$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["token"])' "$out")"

# ---- lifetimes: the legacy clients' unless told otherwise ----------------------------------------
lives() { # key ms; acquired since $before
    local end
    end=$(redis GET "$1")
    ((end <= $(now_ms) + $2 && end >= before + $2 - 1000)) || depth=1 fail "the stamp ends $((end - before)) ms from then"
}
before=$(now_ms)
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 20s short
lives short 20000
before=$(now_ms)
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 120s -t 90s long
lives long 90000

# ---- timestamp, strict: the stamp is the token ------------------------------------------------
expect 0 "$tidelock" lock --protocol timestamp --strict s
read -r token fence <"$out"
[[ $token == "$(redis GET s)" && $fence == 0 ]] || fail "lock --strict prints: $(cat "$out")"
[[ $(redis EXISTS 'tidelock:{s}') == 0 ]] || fail "strict has made a sidecar"
expect 1 "$tidelock" check --protocol timestamp --strict s
grep -qE 'known only by its stamp \(java\): a legacy client, or tidelock, free in ' "$out" || fail "check --strict says: $(cat "$out")"
! grep -q "$token" "$out" || fail "check shows what serves as a token"
expect 0 "$tidelock" unlock --protocol timestamp --strict s "$token"
assert_free s

# ---- dialects ---------------------------------------------------------------------------------
expect 0 "$tidelock" help dialects
grep -qE '^  java +ms +[0-9]{13}$' "$out" || fail "help dialects: $(cat "$out")"
grep -qE '^  rb-pid +s +[0-9]{10}-[0-9]+$' "$out" || fail "help dialects: $(cat "$out")"
(($(grep -cE '^  [a-z]' "$out") == 14)) || fail "help dialects lists $(grep -cE '^  [a-z]' "$out")"
shape() { # dialect pattern
    expect 0 "$tidelock" lock --protocol bridge --dialect "$1" "d:$1"
    [[ $(redis GET "d:$1") =~ ^$2$ ]] || fail "$1 writes $(redis GET "d:$1")"
    expect 75 "$tidelock" lock --protocol bridge --dialect "$1" "d:$1"
    expect 1 "$tidelock" check --protocol bridge --dialect "$1" "d:$1"
    expect 0 "$tidelock" lock --protocol timestamp --strict --dialect "$1" "s:$1"
    read -r token _ <"$out"
    expect 2 "$tidelock" unlock --protocol timestamp --strict --dialect "$1" "s:$1" 00000000-0000-4000-8000-000000000000
    expect 0 "$tidelock" unlock --protocol timestamp --strict --dialect "$1" "s:$1" "$token"
    assert_free "s:$1"
}
ms='[0-9]{13}' s='[0-9]{10}' uuid='[0-9a-f-]{36}'
shape java "$ms"
shape jedis-lock "$ms"
shape jedis-lock-uuid "$uuid:$ms"
shape ms-pipe "$ms\|$uuid"
shape redis-doc "$s"
shape node-ms "$ms"
for d in py-float py-float-1 rb-mutex rb-objects c-lua; do shape $d "$s\.[0-9]{6}"; done
shape rb-resque "$s"
shape rb-pid "$s-$uuid"
shape php-s "$s"
# One for some keys, another for the rest.
choice='cron:*=redis-doc,*.py=py-float,java'
expect 0 "$tidelock" lock --protocol bridge --dialect "$choice" cron:a
[[ $(redis GET cron:a) =~ ^$s$ ]] || fail "cron:a holds $(redis GET cron:a)"
expect 0 "$tidelock" lock --protocol bridge --dialect "$choice" x.py
[[ $(redis GET x.py) =~ ^$s\.[0-9]+$ ]] || fail "x.py holds $(redis GET x.py)"
expect 0 "$tidelock" lock --protocol bridge --dialect "$choice" other
is_ms "$(redis GET other)" || fail "other holds $(redis GET other)"

# ---- a legacy holder ----------------------------------------------------------------------------
now=$(now_ms)
redis SET old $((now + 600000)) >/dev/null
expect 1 "$tidelock" check old
grep -qE 'legacy client \(java\?\), its stamp expires in ' "$out" || fail "check says: $(cat "$out")"
expect 1 "$tidelock" check --protocol bridge old
grep -qE 'legacy client \(java\), free in ' "$out" || fail "check says: $(cat "$out")"
expect 1 "$tidelock" check --protocol bridge --json old
json_has "$out" dialect java
json_has "$out" guessed False
json_has "$out" holder None
"$python" - "$out" <<'PY' || fail "check --json: $(cat "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["remaining_ms"] - d["stamp_left_ms"] == 1502, d  # M, L, and the comparison's own step
PY
expect 75 "$tidelock" lock --protocol bridge old
# Long over: taken, but by those alone who know what it means.
redis SET past $((now - 60000)) >/dev/null
expect 1 "$tidelock" check past
grep -q 'expired .* ago' "$out" || fail "check says: $(cat "$out")"
grep -q '^clients with tokens never take over a stamp, so none .* remove it: tidelock break$' "$out" || fail "no advice: $(cat "$out")"
expect 1 "$tidelock" check --json past
grep -q '"advice":"clients with tokens never' "$out" || fail "no advice: $(cat "$out")"
expect 1 "$tidelock" check old
grep -q '^clients with tokens never .* they wait until its holder releases it$' "$out" || fail "no advice: $(cat "$out")"
expect 75 "$tidelock" lock past
expect 0 "$tidelock" check --protocol bridge past
grep -q '^free (the stamp' "$out" || fail "check says: $(cat "$out")"
! grep -q 'clients with tokens' "$out" || fail "check says: $(cat "$out")"
expect 1 "$tidelock" check --protocol bridge old
! grep -q 'clients with tokens' "$out" || fail "check says: $(cat "$out")"
expect 0 "$tidelock" lock by-token
expect 1 "$tidelock" check by-token
[[ $(wc -l <"$out") == 1 ]] || fail "check says: $(cat "$out")"
expect 0 "$tidelock" run --protocol bridge -n past -- sh -c 'redis-cli -s "$1" GET past' sh "$socket"
is_ms "$(cat "$out")" || fail "the command found $(cat "$out")"
assert_free past
# Accidents are held, and named.
accident() { # value pattern
    redis SET odd "$1" >/dev/null
    expect 75 "$tidelock" lock --protocol bridge odd
    expect 1 "$tidelock" check --protocol bridge odd
    grep -qE "never expires \(.*$2" "$out" || fail "check of $1 says: $(cat "$out")"
}
accident "${now}60000" 'run together'
accident $((now / 1000)) 'seconds where milliseconds'
accident "\"$now\"" JSON
accident "+$now" sign

# Anything else that is no stamp is held as well, and to who has chosen a dialect the reason is told.
why() { # value words
    redis SET odd "$1" >/dev/null
    expect 75 "$tidelock" lock --protocol bridge odd
    for o in '' --strict; do
        # shellcheck disable=SC2086
        expect 1 "$tidelock" check --protocol timestamp $o odd
        grep -qE "never expires \\($2\\)$" "$out" || fail "check $o of '$1' says: $(cat "$out")"
    done
}
why '' 'empty'
why 0 'a number that is not a time'
why -1 'not a time of the dialect java'
why 4102444800000000 'two numbers run together.*'
why 9999999999999 'a number that is not a time'
why "$now.5" 'not a time of the dialect java'
why 00000000-0000-4000-8000-000000000000 'a token, not a stamp'
why "$(printf '1%.0s' {1..90})" 'too long for a stamp'
redis DEL odd >/dev/null
redis RPUSH odd a >/dev/null
expect 75 "$tidelock" lock --protocol timestamp --strict odd
expect 1 "$tidelock" check --protocol bridge odd
grep -qx 'odd holds a list, not a lock; choose another key' "$out" || fail "check of a list says: $(cat "$out")"
for c in "unlock odd $token" "extend odd $token -t 60s"; do
    for o in bridge timestamp token; do
        # shellcheck disable=SC2086
        expect 2 "$tidelock" $c --protocol $o
    done
done
expect 0 "$tidelock" inspect --protocol bridge odd
grep -q '^no locks' "$out" || fail "a list passes for a lock: $(cat "$out")"

# ---- run --------------------------------------------------------------------------------------
expect 0 "$tidelock" run --protocol bridge --json-fd 3 k -- sh -c 'echo $TIDELOCK_TTL_MS $TIDELOCK_FENCE' 3>"$work/json"
read -r ttl fence <"$out"
[[ $ttl == 60000 && $fence -gt 0 ]] || fail "the command sees $(cat "$out")"
json_has "$work/json" protocol bridge
json_has "$work/json" state free
# A legacy client whose clock runs far ahead takes it: the message tells by how much.
{ "$tidelock" run -v --protocol bridge --legacy-ttl-min 12s --clock-skew-max 500ms k -- sleep 1000 & } 2>"$err"
run=$!
until_true 10 is_held k || fail "no lock"
redis SET k $(($(now_ms) + 400000 + 12000)) >/dev/null
wait_for $run 20
[[ $status == 74 ]] || fail "status $status after the theft"
grep -qE 'lost: stolen by a client whose clock is at least (3[0-9]{5}|400[0-9]{3}) ms ahead, or whose lifetime is longer than legacy_ttl_min by as much' "$err" || fail "run says nothing of the clock"
grep -qE 'k: the lock (was lost|could not be renewed).*ahead' "$err" || fail "the last line says nothing of the clock"
wait_for $brief 30
[[ $status == 0 ]] || fail "a brief lock was not renewed in time: status $status, $(<"$work/brief")"

# ---- a server without room ------------------------------------------------------------------------
# A stamp is renewed by writing another one, which is refused; a token's lifetime alone changes. Both are released.
expect 0 "$tidelock" lock -t 90s by-lifetime
kept=$(cut -d' ' -f1 "$out")
expect 0 "$tidelock" lock --protocol bridge by-stamp
stamped=$(cut -d' ' -f1 "$out")
redis CONFIG SET maxmemory 1 >/dev/null
expect 0 "$tidelock" extend by-lifetime "$kept" --ttl 120s
expect_line 69 'OOM' "$tidelock" extend --protocol bridge by-stamp "$stamped" --ttl 60s
expect 0 "$tidelock" unlock --protocol bridge by-stamp "$stamped"
expect 0 "$tidelock" unlock by-lifetime "$kept"
redis CONFIG SET maxmemory 0 >/dev/null
