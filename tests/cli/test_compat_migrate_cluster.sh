#!/bin/bash
# migrate through a cluster: sweep removes what is over for everybody on all masters, and nothing else; acl tells of each
# node's users. test_compat_migrate_slots has the phases.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
mapfile -t port < <(ports_of "$url")
of() { redis-cli -p "$@" 2>/dev/null; }
find_masters() { # one that was lost before they were kept may still believe that it is one
    masters=()
    for p in "${port[@]}"; do if [[ $(of "$p" ROLE | head -n 1) == master ]]; then masters+=("$p"); fi; done
    ((${#masters[@]} == 3))
}
until_true 20 find_masters || fail "not three masters: ${masters[*]}"
owner() { # of a key
    local p
    for p in "${masters[@]}"; do
        if [[ $(of "$p" EXISTS "$1" 2>&1) =~ ^[01]$ ]]; then echo "$p" && return; fi
    done
}
at() { local k=$1 && shift && of "$(owner "$k")" "$@"; } # key words...
now_s=$(of "${masters[0]}" TIME | head -n 1)
stamp() { at "$1" SET "$1" $((now_s * 1000 + $2)) >/dev/null; } # key, ends in ms
is_there() { [[ $(at "$1" EXISTS "$1") == 1 ]]; }
says() { grep -qE -- "$1" "$out" || depth=1 fail "no '$1': $(cat "$out")"; }
printf '#!/bin/sh\nexec "%s" migrate sweep --keys "jobs:*" "$@"\n' "$tidelock" >"$work/sweep"
chmod +x "$work/sweep"

# ---- what it is told ------------------------------------------------------------------------------------
expect_line 77 'migrate sweep: refused: namespace default is not registered: give --keys PATTERN' "$tidelock" migrate sweep
expect_line 64 "migrate sweep: --keys: the pattern has a '\\['" "$tidelock" migrate sweep --keys 'a['
expect_line 77 'migrate: this is a node of a cluster, and the locks of other nodes would be overlooked: give its URL as redis.cluster' "$tidelock" --url "redis://127.0.0.1:${masters[0]}" migrate acl

# ---- what is over, on whatever node; what is held ------------------------------------------------------------
for i in {1..30}; do stamp "jobs:over$i" -60000; done
counts=$(for i in {1..30}; do owner "jobs:over$i"; done | sort | uniq -c | wc -l)
[[ $counts == 3 ]] || fail "the keys are not on all masters"
stamp jobs:held 3600000
stamp jobs:margin -700 # its end has passed, M + L not: it is swept in a second, or said to be held
stamp 'jobs:a}b' -60000 # no tidelock client could have it here
stamp other:over -60000
stamp jobs:beside -60000 # a tidelock client, says the sidecar
at jobs:beside HSET 'tidelock:{jobs:beside}' token t value x until $((now_s * 1000000 + 3600000000)) >/dev/null
at jobs:token SET jobs:token 01234567-89ab-4def-8123-456789abcdef PX 3600000 >/dev/null
at jobs:text SET jobs:text x >/dev/null

expect 0 "$work/sweep" --dry-run
says '^free +jobs:over1$'
says '^held +jobs:held: until '
says '^0 removed, 3[1-3] free, [1-3] held$'
for i in {1..30}; do is_there "jobs:over$i" || fail "a dry run removes over$i"; done

# While a slot is open not all keys can be looked at: nothing is removed, as if that were all.
from=$(owner jobs:over7) slot=$(of "$(owner jobs:over7)" CLUSTER KEYSLOT jobs:over7)
for p in "${masters[@]}"; do [[ $p == "$from" ]] || to=$p; done
id() { of "$1" CLUSTER MYID; }
of "$to" CLUSTER SETSLOT "$slot" IMPORTING "$(id "$from")" >/dev/null
of "$from" CLUSTER SETSLOT "$slot" MIGRATING "$(id "$to")" >/dev/null
expect_from 69 "$work/sweep"
grep -q 'is being moved' "$err" || fail "it isn't told why"
[[ ! -s $out ]] || fail "it tells of a part as of all: $(cat "$out")"
for i in {1..6} {8..30}; do is_there "jobs:over$i" || fail "over$i is removed meanwhile"; done
[[ $(of "$from" EXISTS jobs:over7) == 1 ]] || fail "removed while its slot is open"
of "$from" MIGRATE 127.0.0.1 "$to" jobs:over7 0 60000 >/dev/null
for p in "$to" "${masters[@]}"; do of "$p" CLUSTER SETSLOT "$slot" NODE "$(id "$to")" >/dev/null; done

expect 0 "$work/sweep"
says '^removed +jobs:over7$'
says '^3[12] removed, 0 free, [23] held$'
for i in {1..30}; do if is_there "jobs:over$i"; then fail "over$i is left"; fi; done
for k in jobs:held jobs:beside jobs:token jobs:text other:over; do is_there $k || fail "$k is removed"; done
if is_there 'jobs:a}b'; then fail "what has no sidecar in its slot is left"; fi

expect 0 "$work/sweep" --json
"$python" - "$out" <<'PY' || fail "--json: $(cat "$out")"
import json, sys
d = {e["key"]: e["state"] for e in json.load(open(sys.argv[1]))}
assert d["jobs:held"] == d["jobs:beside"] == "held", d
assert set(d) - {"jobs:margin"} == {"jobs:held", "jobs:beside"}, d
PY

# Stamps are looked at by what is known of their clients, and locks are acquired and released by them.
expect_from 1 "$tidelock" check --protocol bridge jobs:held
says '^held by a legacy client \(java\), free in '
expect 0 "$tidelock" inspect --protocol bridge 'jobs:*'
says '^jobs:held '
expect_from 75 "$tidelock" run --protocol bridge --wait 0s jobs:held -- true
for p in bridge timestamp; do
    expect_from 1 "$tidelock" run --protocol $p job -- "$tidelock" check --protocol $p job
    says '^held by tidelock on '
    ! is_there job || fail "it is left: $p"
done
expect 0 "$tidelock" lock --protocol bridge job
token=$(head -n 1 "$out")
expect 0 "$tidelock" extend --protocol bridge job "${token%% *}" --ttl 60s
expect 0 "$tidelock" unlock --protocol bridge job "${token%% *}"
! is_there job || fail "it is left by unlock"
expect_line 64 'strict: with a URL that begins with redis.cluster:// locks can be looked at, but not acquired' \
    "$tidelock" run --protocol timestamp --strict job -- true
expect_from 1 "$tidelock" run --protocol auto job -- "$tidelock" check --protocol auto job
says '^held by tidelock on '
! is_there job || fail "it is left: auto"

# A master that doesn't answer: nobody may take its stamps for none.
pid=$(of "$(owner jobs:held)" INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
kill -STOP "$pid"
expect_from 69 "$work/sweep"
[[ ! -s $out ]] || fail "it tells of a part as of all: $(cat "$out")"
kill -CONT "$pid"

# ---- each node's users ----------------------------------------------------------------------------------------
of "${masters[1]}" ACL SETUSER javaapp on nopass '~*' +@all >/dev/null
expect 0 "$tidelock" migrate acl
for p in "${port[@]}"; do says "^# 127\\.0\\.0\\.1:$p of the cluster:$"; done
[[ $(grep -c '^ACL SETUSER default -setnx -getset$' "$out") == 6 ]] || fail "not of all nodes: $(cat "$out")"
[[ $(grep -c '^ACL SETUSER javaapp -setnx -getset$' "$out") == 1 ]] || fail "not of one node: $(cat "$out")"
sed -n "/:${masters[1]} of/,/way back/p" "$out" | grep -q javaapp || fail "of another node: $(cat "$out")"
of "${port[5]}" CONFIG SET requirepass hunter2 >/dev/null
expect_from 77 "$tidelock" migrate acl
grep -q "^tidelock: migrate acl: not checked: 127.0.0.1:${port[5]}" "$err" || fail "who was left out isn't told"
[[ $(grep -c ' of the cluster:$' "$out") == 5 ]] || fail "the others are not told: $(cat "$out")"
demo stop 2>"$err" || fail "the cluster isn't ended"
