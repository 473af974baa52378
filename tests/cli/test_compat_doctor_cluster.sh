#!/bin/bash
# doctor --acl for a cluster: the user whom it describes can do on all nodes what users of locks do there, by each protocol, in each
# phase, and in a slot that is open; and nothing of what is permitted goes unused.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 7.0 "ACL DRYRUN"
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
admin=$(demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
keep_masters "$admin"
mapfile -t port < <(ports_of "$admin")
export TIDELOCK_URL=${admin/:\/\//://locker:pw@}
of() { redis-cli -p "$@" 2>/dev/null; } # port words...
find_masters() {
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
on_all() { for p in "${port[@]}"; do of "$p" "$@"; done; }

make_user() { # options...
    expect 0 "$tidelock" --url "$admin" doctor --acl locker "$@" 'jobs:*'
    rule=$(grep '^ACL SETUSER locker ' "$out")
    for p in "${port[@]}"; do
        [[ $(redis-cli -p "$p" <<<"${rule/PASSWORD/pw}") == OK ]] || fail "a node refuses $rule"
    done
    for p in "${masters[@]}"; do of "$p" FLUSHALL >/dev/null; done
    for command in "SCRIPT FLUSH" "ACL LOG RESET" "CONFIG RESETSTAT"; do
        # shellcheck disable=SC2086
        on_all $command >/dev/null
    done
}
nothing_refused() { [[ -z $(on_all ACL LOG) ]] || depth=1 fail "refused: $(on_all ACL LOG)"; }
nothing_unused() { # but these; see test_doctor_acl.sh
    local unused
    unused=$(comm -23 <(tr ' ' '\n' <<<"$rule" | sed -n 's/^+//p' | grep -vxE "multi|exec|incr|incrby|client\\|kill|${1:-none}" | sort) \
        <(on_all INFO commandstats | sed -nE 's/^cmdstat_([^:]*):.*/\1/p' | sort -u))
    [[ -z $unused ]] || depth=1 fail "permitted for nothing: $unused"
}

# A hand-over to a waiter, a renewal, a stamp or a token that is over, looking, breaking.
use_locks() { # key, options of the protocol
    local key=$1 token
    shift
    expect 0 "$tidelock" lock "$@" "$key"
    token=$(cut -d' ' -f1 "$out")
    expect 75 "$tidelock" run -n "$@" "$key" -- true
    expect 1 "$tidelock" check "$@" "$key"
    { "$tidelock" run -w 10m "$@" "$key" -- touch "$work/had" & } 2>"$work/waits"
    local waiter=$!
    waits() { on_all PUBSUB CHANNELS | grep -q tidelock; }
    until_true 10 waits || fail "nobody listens: $(cat "$work/waits")"
    expect 0 "$tidelock" extend "$@" "$key" "$token" --ttl 90s
    expect 0 "$tidelock" unlock "$@" "$key" "$token"
    wait_for $waiter 30
    [[ $status == 0 && -e $work/had ]] || fail "the waiter ended with $status: $(cat "$work/waits")"
    rm "$work/had"
    expect 0 "$tidelock" lock "$@" "$key"
    expect 0 "$tidelock" inspect "$@" 'jobs:*'
    grep -q "^$key " "$out" || fail "inspect doesn't list $key: $(cat "$out")"
    expect 0 "$tidelock" break -y "$@" "$key"
    at "$key" SET "$key" 1600000000000 >/dev/null # for a stamp one that is long over
    if [[ ${free_stamps:-} ]]; then expect 0 "$tidelock" run -n "$@" "$key" -- true; fi
    at "$key" DEL "$key" >/dev/null
    at "$key" HSET "$key" 01234567-89ab-4def-8123-456789abcdef:51 1 >/dev/null # a lock of Redisson
    expect 1 "$tidelock" check "$@" "$key"
    at "$key" DEL "$key" >/dev/null
}
# The slot of the key is left open while the lock is renewed and released.
use_open_slot() { # key, options
    local key=$1 from to slot token
    shift
    expect 0 "$tidelock" lock "$@" "$key"
    token=$(cut -d' ' -f1 "$out")
    from=$(owner "$key") slot=$(of "${port[0]}" CLUSTER KEYSLOT "$key")
    for p in "${masters[@]}"; do [[ $p == "$from" ]] || to=$p; done
    of "$to" CLUSTER SETSLOT "$slot" IMPORTING "$(of "$from" CLUSTER MYID)" >/dev/null
    of "$from" CLUSTER SETSLOT "$slot" MIGRATING "$(of "$to" CLUSTER MYID)" >/dev/null
    of "$from" MIGRATE 127.0.0.1 "$to" "$key" 0 60000 >/dev/null
    expect 0 "$tidelock" extend "$@" "$key" "$token" --ttl 90s
    expect 0 "$tidelock" unlock "$@" "$key" "$token"
    if (($# == 0)); then expect 0 "$tidelock" run -w 5s "$key" -- true; fi
    for p in "$from" "$to"; do of "$p" CLUSTER SETSLOT "$slot" STABLE >/dev/null; done
    of "$to" DEL "$key" >/dev/null
}

make_user
use_locks jobs:1
expect 0 "$tidelock" run --ttl 6s jobs:1 -- sleep 4.5 # is renewed twice
use_open_slot jobs:2
nothing_refused
nothing_unused unsubscribe

free_stamps=1
for protocol in bridge timestamp; do
    make_user --protocol $protocol
    use_locks jobs:1 --protocol $protocol
    use_open_slot jobs:2 --protocol $protocol
    nothing_refused
    nothing_unused 'zrem|unsubscribe'
done

# Without a register, and in each phase. The register's tag is that of the slot's fencing counter.
register() { # key phase
    local slot counter
    slot=$(of "${port[0]}" CLUSTER KEYSLOT "$1")
    for counter in $(of "$(owner "$1")" --scan --pattern 'tidelock:fence:*'); do
        [[ $(of "${port[0]}" CLUSTER KEYSLOT "$counter") == "$slot" ]] || continue
        at "$1" SET "tidelock:phase:slot:${counter#tidelock:fence:}:default" "$2 1796000000000000" >/dev/null && return
    done
    fail "no fencing counter for $1"
}
make_user --protocol auto
use_locks jobs:1 --protocol auto
for phase in 1 2 3; do
    register jobs:1 $phase
    ((phase < 3)) || free_stamps=
    use_locks jobs:1 --protocol auto
done
expect 0 "$tidelock" run --protocol auto --ttl 6s jobs:1 -- sleep 4.5 # is renewed twice
use_open_slot jobs:2 --protocol auto # a stamp
expect 0 "$tidelock" run --protocol auto jobs:3 -- true
register jobs:3 3
use_open_slot jobs:3 --protocol auto # a token
nothing_refused
nothing_unused unsubscribe

# The doctor finds what such a user lacks, and nothing else.
on_all ACL SETUSER locker +acl +cluster +config +time +scan >/dev/null
doctor() { "$tidelock" doctor --protocol auto jobs:1 >"$out" 2>"$err"; }
doctor
if grep -E '^(danger|warning).* permissions: ' "$out"; then fail "the doctor lacks what isn't sent"; fi
on_all ACL SETUSER locker resetkeys '~jobs:*' '~tidelock:{jobs:*}' '~tidelock:{jobs:*}:line' '~tidelock:fence:*' >/dev/null
doctor
grep -q 'danger .*permissions: EVAL: .*tidelock:phase:slot:{0}:default' "$out" || fail "the register isn't missed: $(cat "$out")"
grep -q ' this command prints them with --acl locker KEY$' "$out" || fail "no advice: $(cat "$out")"
