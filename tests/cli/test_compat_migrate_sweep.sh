#!/bin/bash
# migrate sweep: removes what is over for everybody, to the millisecond, and nothing else; acl prints, and
# does nothing.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 1 --yes
says() { grep -qE -- "$1" "$out" || depth=1 fail "no '$1': $(cat "$out")"; }

# ---- what is over, what is held, what is no stamp ------------------------------------------------------
stamp jobs:over -60000
stamp jobs:held 60000
stamp jobs:margin 50000 # its end is near, but M + L are not over
stamp other:over -60000 # of another namespace
redis SET jobs:token 01234567-89ab-4def-8123-456789abcdef PX 3600000 >/dev/null
redis SET jobs:text 'x' >/dev/null
redis SET jobs:number 17 >/dev/null
redis SADD jobs:set x >/dev/null
redis SET jobs:gc $(($(server_ms) - 60000)) PX 60000 >/dev/null # a lifetime that no sidecar knows of
redis -x SET $'jobs:\xff \n' <<<'' >/dev/null
printf '%s' $(($(server_ms) - 60000)) | redis -x SET $'jobs:\xff \n' >/dev/null
expect 0 "$tidelock" lock --protocol bridge --legacy-ttl-min 600s jobs:bridge

keys=$(redis DBSIZE)
# What binds for so long: its end, and M + L, and the comparison's own step, counted from when it is looked at.
free_ms=$(($(redis GET jobs:held) + 1500 + 2)) before=$(server_ms)
expect 0 migrate sweep --dry-run
after=$(server_ms)
says '^free +jobs:over$'
says '^free +jobs:\? \?$'
says "^held +jobs:held: until ($(date -u -d "@$(((free_ms - 50) / 1000))" '+%F %T')|$(date -u -d "@$(((free_ms + 50) / 1000))" '+%F %T')) UTC, in [0-9]+\.[0-9] s$"
left=$(sed -n 's/^held.*jobs:held: .*, in \([0-9]*\)\.\([0-9]\) s$/\1\2/p' "$out")
((left * 100 >= free_ms - after - 150 && left * 100 <= free_ms - before + 50)) || fail "it is held for another $left tenths: $((free_ms - before)) to $((free_ms - after)) ms"
says '^held +jobs:bridge: .* by tidelock on '
says '^held +jobs:gc: until .*, in [1-5][0-9]\.[0-9] s$'
says '^0 removed, 2 free, 4 held$'
[[ $(redis DBSIZE) == "$keys" ]] || fail "a dry run changes something: $(redis KEYS '*')"
[[ $(redis LLEN "$register:log") == 1 ]] || fail "a dry run is in the history"

# What is held stays so for longer than all that follows.
stamp jobs:held 3600000
stamp jobs:margin 3600000
redis SET jobs:gc $(($(server_ms) - 60000)) PX 3600000 >/dev/null
expect 0 migrate sweep
says '^removed +jobs:over$'
says '^2 removed, 0 free, 4 held$'
assert_free jobs:over
assert_free $'jobs:\xff \n'
for k in held margin token text number set gc bridge; do assert_held jobs:$k; done
assert_held other:over
expect 0 migrate sweep --json
"$python" - "$out" <<'PY' || fail "--json: $(cat "$out")"
import json, sys
d = {e["key"]: e for e in json.load(open(sys.argv[1]))}
assert set(d) == {"jobs:held", "jobs:margin", "jobs:gc", "jobs:bridge"}, d
assert all(list(e) == ["key", "state", "free_at_ms", "remaining_ms", "holder"] and e["state"] == "held" for e in d.values()), d
assert d["jobs:bridge"]["holder"] and d["jobs:held"]["holder"] is None and d["jobs:held"]["remaining_ms"] > 0, d
PY
expect 0 migrate status --history --json
grep -q '"action":"sweep","from_phase":1,"to_phase":1,[^}]*"evidence":"2 expired stamps removed"' "$out" || fail "history: $(cat "$out")"

# Another's dialect is not read as this one; what a dialect calls eternal stays, and is named.
redis SET jobs:seconds $(($(server_ms) / 1000 - 60)) >/dev/null
redis SET jobs:resque true >/dev/null
expect 0 migrate sweep
assert_held jobs:seconds
expect 0 migrate sweep --dialect rb-resque
says '^held +jobs:resque: it never ends'
says '^removed +jobs:seconds$'
assert_held jobs:resque
expect_line 64 'dialect' migrate sweep --dialect nonsense

# ---- at the boundary ------------------------------------------------------------------------------------
# A sweep after the other while a stamp comes to its end + M + L: it goes, and never a millisecond before.
redis MONITOR >>"$work/monitor" &
monitor=$!
wait_file "$work/monitor"
for margin in "300 100" "50 25"; do
    read -r m l <<<"$margin"
    end=$(($(server_ms) + 300))
    redis SET jobs:edge $end >/dev/null
    rounds=0
    until is_free jobs:edge; do
        expect 0 migrate sweep --clock-skew-max "${m}ms" --legacy-delay-max "${l}ms"
        rounds=$((rounds + 1))
        ((rounds < 2000)) || fail "the stamp stays"
    done
    until_true 10 grep -aqE 'lua\] "DEL" "jobs:edge"' "$work/monitor" || fail "nobody has deleted it"
    at=$(grep -aE 'lua\] "DEL" "jobs:edge"' "$work/monitor" | sed 's/^\([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/')
    ((at > end + m + l)) || fail "removed at $at, $((end + m + l - at)) ms too early"
    : >"$work/monitor"
done

# What the script that deletes compares, at the instant of deleting: the bytes, the TIME, the sidecar.
for k in jobs:again 'jobs:{a}k' 'jobs:a}' 'jobs:{}k'; do stamp $k -60000; done
expect 0 migrate sweep
redis ECHO the-end >/dev/null
until_true 10 grep -aq '"the-end"' "$work/monitor" || fail "MONITOR does not tell"
kill $monitor
"$python" - "$work/monitor" "$socket" <<'PY' || fail "the script: $(cat "$err")"
import ast, subprocess, sys, time
lines = [l.split("] ", 1)[1].strip() for l in open(sys.argv[1], errors="replace") if '"EVAL"' in l and '"jobs:' in l]
calls = [ast.literal_eval("[" + l.replace('" "', '", "') + "]") for l in lines]
names = {w[3]: w[4] for w in calls if w[2] == "2"}
for key, sidecar in (("jobs:again", "tidelock:{jobs:again}"), ("jobs:{a}k", "jobs:{a}k:tidelock"),
                     ("jobs:a}", "jobs:a}:tidelock"), ("jobs:{}k", "jobs:{}k:tidelock")):
    assert names[key] == sidecar, names
words = [w for w in calls if w[3] == "jobs:again"][-1]
def redis(*words):
    return subprocess.run(["redis-cli", "-s", sys.argv[2], *words], stdout=subprocess.PIPE, check=True).stdout.decode().rstrip("\n")
now = int(time.time() * 1000)
def sweep(key, value, free_at):
    return redis("EVAL", words[1], "2", key, "tidelock:{%s}" % key, str(value), str(free_at), "0")
redis("SET", "k", str(now - 60000))
assert sweep("k", now - 59999, 0) == "0"  # it holds something else by now
assert sweep("k", now - 60000, now + 600000) == "-1"  # it is not free yet
redis("HSET", "tidelock:{k}", "token", "t", "value", "v", "until", str((now + 600000) * 1000))
assert sweep("k", now - 60000, now - 30000) == "-1"  # a sidecar binds
redis("HSET", "tidelock:{k}", "value", str(now - 60000), "until", str((now - 30000) * 1000), "fence", "7")
assert redis("GET", "k") == str(now - 60000)
assert sweep("k", now - 60000, now - 30000) == "1" and redis("EXISTS", "k") == "0"
assert redis("HMGET", "tidelock:{k}", "token", "value", "spent", "fence").split("\n") == ["", "", "t", "7"]
assert sweep("k", now - 60000, now - 30000) == "0"  # gone
redis("SADD", "k", "x")
assert sweep("k", now - 60000, now - 30000) == "0"  # of another kind
timeless = words[1].replace("if redis.replicate_commands then", "if false then")  # as below 3.2
def sweep_at(now_ms):
    return redis("EVAL", timeless, "2", "k", "tidelock:{k}", str(now - 60000), str(now), str(now_ms * 1000))
redis("DEL", "k")
redis("SET", "k", str(now - 60000))
assert sweep_at(now - 1) == "-1" and sweep_at(now) == "1"
PY

# ---- acl: what it prints does what it says ---------------------------------------------------------------
redis ACL SETUSER java on nopass '~*' +@all >/dev/null
redis ACL SETUSER old off >/dev/null
redis ACL SETUSER müller on nopass '~*' +@all >/dev/null
expect 0 migrate acl
says "^# m\\?\\?ller is not denied them: its name can't be typed"
! grep -q '^ACL SETUSER m' "$out" || fail "a line makes another user: $(cat "$out")"
redis ACL DELUSER müller >/dev/null
expect 0 migrate acl
says '^ACL SETUSER default -setnx -getset$'
says '^ACL SETUSER java -setnx -getset$'
! grep -q '^ACL SETUSER old' "$out" || fail "a user that is off: $(cat "$out")"
grep '^ACL' "$out" >"$work/acl"
redis SETNX free 1 >/dev/null
is_held free || fail "acl has changed something"
redis <"$work/acl" >/dev/null
for user in default java; do
    [[ $(redis-cli -s "$socket" --user $user --pass x SETNX denied 1 2>&1) == *"no permissions"* ]] || fail "SETNX is not denied to $user"
    [[ $(redis-cli -s "$socket" --user $user --pass x GETSET denied 1 2>&1) == *"no permissions"* ]] || fail "GETSET is not denied to $user"
done
expect 0 migrate acl
says '^# java is denied them already$'
! grep -q '^ACL' "$out" || fail "again: $(cat "$out")"
long_ago # and tidelock's own clients are not hindered
expect 0 "$tidelock" run --protocol bridge -n jobs:mine -- true
