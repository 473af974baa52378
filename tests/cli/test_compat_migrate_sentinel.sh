#!/bin/bash
# A set of servers that Sentinels lead: ACLs are not replicated, so `migrate acl` tells of each server that may become master,
# and no step to phase 2 relies on what the master alone denies.
# timeout: 120
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo sentinel 2>"$err") || fail "no set of servers: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
of() { redis-cli -p "$@" 2>/dev/null; } # port words...
first=$(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$url" | head -n 1)
master=$(of "${first#*:}" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1)
replicas() { of "${first#*:}" SENTINEL SLAVES demo | grep -A 1 -x port | grep -E '^[0-9]+$'; }
two() { [[ $(replicas | wc -l) == 2 ]]; }
until_true 20 two || fail "the Sentinels know no two replicas: $(replicas)"
mapfile -t replica < <(replicas)
says() { grep -qE -- "$1" "$out" || depth=1 fail "it lacks '$1': $(cat "$out" "$err")"; }
refused() { # pattern...
    depth=1 expect_from 77 "$tidelock" migrate advance --namespace ns --phase 2 --yes
    local pattern
    for pattern; do grep -qE "^tidelock: migrate advance: refused: .*$pattern" "$err" || depth=1 fail "it lacks '$pattern': $(cat "$err")"; done
    [[ $(wc -l <"$err") == $# ]] || depth=1 fail "more is refused: $(cat "$err")"
}
expect 0 "$tidelock" migrate init --namespace ns --keys 'jobs:*' --phase 1 --lease 1s --yes

# ---- what is printed -----------------------------------------------------------------------------
of "${replica[1]}" ACL SETUSER javaapp on nopass '~*' +@all >/dev/null
expect 0 "$tidelock" migrate acl
says "^# 127\\.0\\.0\\.1:$master, the master:$"
for p in "${replica[@]}"; do says "^# 127\\.0\\.0\\.1:$p, a replica, which may become master:$"; done
[[ $(grep -c '^ACL SETUSER default -setnx -getset$' "$out") == 3 ]] || fail "not of all servers: $(cat "$out")"
[[ $(grep -c '^ACL SETUSER javaapp -setnx -getset$' "$out") == 1 ]] || fail "not of one server: $(cat "$out")"

# ---- what is looked at ---------------------------------------------------------------------------
# While the master denies nothing, nobody relies on that.
expect 0 "$tidelock" migrate advance --namespace ns --phase 2 --yes
expect 0 "$tidelock" migrate rollback --namespace ns --phase 1 --yes
of "$master" ACL SETUSER default -setnx -getset >/dev/null
hole='SETNX and GETSET are denied at the master, and not at 127\.0\.0\.1:'
refused "$hole${replica[0]}, .*: user default: .*tidelock migrate acl" "$hole${replica[1]}, .*: user default, javaapp: .*tidelock migrate acl"
expect 0 "$tidelock" migrate status --namespace ns
says "$hole${replica[0]}"
of "${replica[0]}" ACL SETUSER default -setnx -getset >/dev/null
of "${replica[1]}" ACL SETUSER default -setnx -getset >/dev/null
refused "$hole${replica[1]}, .*: user javaapp: "
of "${replica[1]}" ACL SETUSER javaapp off >/dev/null # its connections that are open go on
refused "$hole${replica[1]}, .*: user javaapp: "
of "${replica[1]}" ACL SETUSER javaapp -setnx -getset >/dev/null
of "${replica[1]}" CONFIG SET requirepass hunter2 >/dev/null
refused "whether the servers that may become master do so is not known: 127\.0\.0\.1:${replica[1]}: .*: make it respond"
expect_from 77 "$tidelock" migrate acl
grep -q "^tidelock: migrate acl: 127.0.0.1:${replica[1]}: " "$err" || fail "who was left out isn't told: $(cat "$err")"
of "${replica[1]}" -a hunter2 CONFIG SET requirepass '' >/dev/null
expect 0 "$tidelock" migrate advance --namespace ns --phase 2 --yes
says '^  acl +SETNX and GETSET are denied to every user of 3 servers: none can lock by them as long as that stays'
expect 0 "$tidelock" migrate acl
[[ $(grep -c '^# default is denied them already$' "$out") == 3 ]] || fail "it doesn't see what is denied: $(cat "$out")"
# By the rules of a user alone, as where the server can't be asked (before 7.0); and by a URL of one server.
of "$master" ACL SETUSER asker on '>pw' '~*' '&*' +@all -setnx -getset '-acl|dryrun' >/dev/null
of "$master" ACL SETUSER half on nopass '~*' -@write +@all -setnx >/dev/null
of "$master" ACL SETUSER part on nopass '~*' +@all -setnx -getset '(+setnx ~x*)' >/dev/null
TIDELOCK_PASSWORD=pw expect 0 "$tidelock" --url "redis://asker@127.0.0.1:$master" migrate acl
says '^# default is denied them already$'
says '^ACL SETUSER half -setnx -getset$'
says '^ACL SETUSER part -setnx -getset clearselectors \(~x\* .*\+setnx -setnx -getset\)$'
says '^# Each replica has users of its own: one that may become master needs these too\.$'

# ---- a failover within the watch -----------------------------------------------------------------
# Nothing is proved by the former master. At the promoted replica what is refused names who tried.
expect 0 "$tidelock" migrate rollback --namespace ns --phase 1 --yes
of "$master" ACL DELUSER asker half part >/dev/null
for p in $master "${replica[@]}"; do of "$p" ACL SETUSER javaapp on nopass '~*' '&*' +@all -setnx -getset >/dev/null; done
watch() { # port of the master
    of "$1" CONFIG RESETSTAT >/dev/null
    { "$tidelock" migrate advance --namespace ns --phase 2 --watch 5m --yes & } >"$work/watch" 2>&1
    watch=$!
    until_true 20 watches "$1" || fail "it does not watch: $(cat "$work/watch")"
}
watches() { of "$1" INFO commandstats | grep -q '^cmdstat_client|list:calls=[1-9]'; }
watch "$master"
failed_over() { of "${first#*:}" SENTINEL FAILOVER demo | grep -q OK; }
until_true 30 failed_over || fail "no failover"
wait_for $watch 60
[[ $status == 69 ]] || fail "$status instead of 69: $(cat "$work/watch")"
promoted() { [[ $(of "${first#*:}" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1) != "$master" ]]; }
until_true 60 promoted || fail "the master is the same"
now=$(of "${first#*:}" SENTINEL GET-MASTER-ADDR-BY-NAME demo | tail -n 1)
watch "$now"
of "$now" --user javaapp --pass x SETNX jobs:x 1 >/dev/null
wait_for $watch 60
[[ $status == 77 ]] || fail "$status instead of 77: $(cat "$work/watch")"
grep -q 'refused: the server refused SETNX or GETSET 1 time meanwhile: .*: user javaapp, ' "$work/watch" || fail "who tried isn't named: $(cat "$work/watch")"
demo stop 2>"$err" || fail "the set isn't ended"
