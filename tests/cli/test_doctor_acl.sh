#!/bin/bash
# doctor --acl: the user whom it describes can do all that users of locks do, and nothing of what is permitted goes unused.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
admin=$TIDELOCK_URL
export TIDELOCK_URL=unix://locker:pw@$socket # who is meant unless the administrator is named

# The user, made by the printed line.
make_user() { # pattern options...
    local pattern=$1
    shift
    expect 0 "$tidelock" --url "$admin" doctor --acl locker "$@" "$pattern"
    [[ $(grep -cv '^#' "$out") == 1 ]] || fail "not one line: $(cat "$out")"
    rule=$(grep '^ACL SETUSER locker ' "$out")
    [[ $(redis <<<"${rule/PASSWORD/pw}") == OK ]] || fail "the server refuses $rule"
    redis FLUSHALL >/dev/null
    redis SCRIPT FLUSH >/dev/null
    redis ACL LOG RESET >/dev/null
    redis CONFIG RESETSTAT >/dev/null
}
# Nothing was refused, however silently it was done without; and everything that is permitted was used.
nothing_refused() { [[ -z $(redis ACL LOG) ]] || depth=1 fail "refused: $(redis ACL LOG)"; }
nothing_unused() {
    local unused
    # Native takes are those of a process that acquires again within a second; conform/test_acquire has them.
    # A connection is ended after a native take that went unanswered; chaos/test_lost_take has that.
    # An inbox is left half a minute after the last wait.
    unused=$(comm -23 <(tr ' ' '\n' <<<"$rule" | sed -n 's/^+//p' | grep -vxE "multi|exec|incr|incrby|client\\|kill|${1:-none}" | sort) \
        <(redis INFO commandstats | sed -nE 's/^cmdstat_([^:]*):.*/\1/p' | sort))
    [[ -z $unused ]] || depth=1 fail "permitted for nothing: $unused"
}
fresh() { # a key that nobody used, into $key
    keys=$((${keys:-0} + 1))
    key=${prefix}$keys
}
# What users of locks do. -n -w and a hand-over, a renewal, a stamp or a token that is over, looking, breaking.
use_locks() { # options of the protocol
    local token
    fresh
    expect 0 "$tidelock" lock "$@" "$key"
    token=$(cut -d' ' -f1 "$out")
    expect 75 "$tidelock" run -n "$@" "$key" -- true
    expect 1 "$tidelock" check "$@" "$key"
    { "$tidelock" run -w 10m "$@" "$key" -- touch "$work/had$keys" & } 2>"$work/waits"
    local waiter=$!
    if [[ " $* " != *" --strict "* ]]; then # it listens for the release
        waits() { redis PUBSUB CHANNELS | grep -q tidelock; }
        until_true 10 waits || fail "nobody listens: $(cat "$work/waits")"
    fi
    expect 0 "$tidelock" unlock "$@" "$key" "$token"
    wait_for $waiter 30
    [[ $status == 0 && -e $work/had$keys ]] || fail "the waiter ended with $status: $(cat "$work/waits")"
    fresh
    redis SET "$key" 1600000000000 >/dev/null # for a token a lock for good, for a stamp one that is long over
    if (($# > 0)); then expect 0 "$tidelock" run -n "$@" "$key" -- true; fi
    if [[ " $* " == *" --strict "* ]]; then return; fi
    expect 0 "$tidelock" inspect "$@" "$prefix*"
    fresh
    redis HSET "$key" 01234567-89ab-4def-8123-456789abcdef:51 1 >/dev/null
    expect 1 "$tidelock" check "$@" "$key"
    grep -q 'a lock of Redisson' "$out" || fail "check says: $(cat "$out")"
    fresh
    expect 0 "$tidelock" lock "$@" "$key"
    token=$(cut -d' ' -f1 "$out")
    expect 0 "$tidelock" extend "$@" "$key" "$token" --ttl 90s
    expect 0 "$tidelock" inspect "$@" "$prefix*"
    grep -q "^$key " "$out" || fail "inspect doesn't list $key: $(cat "$out")"
    expect 0 "$tidelock" break -y "$@" "$key"
}
# A command that goes on until its lock has been renewed so often: its stamp, or the end of its token, is a later one.
cat >"$work/renewed" <<'SH'
#!/bin/sh
ask() { redis-cli -s "$1" "$2" "$TIDELOCK_KEY"; }
end() {
    stamp=$(ask "$1" GET)
    case $stamp in *[!0-9]*) ask "$1" PTTL ;; *) echo "$stamp" ;; esac
}
was=$(end "$1") times=0
while [ $times -lt "$2" ]; do
    sleep 0.05
    now=$(end "$1")
    if [ "$now" -gt "$was" ]; then times=$((times + 1)); fi
    was=$now
done
SH
renew_locks() { # times, options
    local times=$1
    shift
    fresh
    expect 0 "$tidelock" run "$@" "$key" -- sh "$work/renewed" "$socket" "$times"
}

# Tokens; keys with a tag, whose sidecar is another one; another database.
prefix=jobs:
make_user 'jobs:*'
use_locks
renew_locks 2 --ttl 10s # the first tells who holds it
nothing_refused
nothing_unused unsubscribe
expect 77 "$tidelock" lock other
expect 77 "$tidelock" lock "tidelock:{other}"
prefix='{app}:jobs:'
make_user '{app}:jobs:*'
use_locks
nothing_refused
prefix=a
make_user '[ab]?'
redis ACL LOG RESET >/dev/null
expect 0 "$tidelock" run a1 -- true
expect 0 "$tidelock" run 'a{' -- true
nothing_refused
expect 77 "$tidelock" run 'ab1' -- true
make_user exactly
expect 0 "$tidelock" run exactly -- true
nothing_refused
expect 77 "$tidelock" run exactly1 -- true
expect 0 "$tidelock" --url "$admin?db=3" doctor --acl locker 'jobs:*'
grep -q '^ACL .* +select$' "$out" || fail "another database: $(cat "$out")"

# Stamps.
if [[ ${COMPAT:-1} != 0 ]]; then
    short=(--clock-skew-max 100ms --legacy-ttl-min 10s)
    prefix=jobs:
    for protocol in bridge timestamp; do
        make_user 'jobs:*' --protocol $protocol
        use_locks --protocol $protocol
        renew_locks 1 --protocol $protocol "${short[@]}"
        nothing_refused
        nothing_unused zrem # asked of a server that doesn't know the lock any more
    done
    # Phases: before anybody has made a register, and in the last one. A client that is there for nobody is cleared away.
    make_user 'jobs:*' --protocol auto
    redis HSET 'tidelock:phase:{default}:clients' nobody nonsense >/dev/null
    use_locks --protocol auto
    redis DEL 'tidelock:phase:{default}:clients' >/dev/null
    redis HSET 'tidelock:phase:{default}' phase 3 epoch 1 keys 'jobs:*' lease_ms 30000 since 1 >/dev/null
    renew_locks 2 --protocol auto --ttl 9s "${short[@]}"
    # Who goes by phases stands in no line, but gives way to those who do.
    expect 0 "$tidelock" lock --protocol auto "$key"
    token=$(cut -d' ' -f1 "$out")
    "$tidelock" --url "$admin" run -w 10m "$key" -- true &
    waiter=$!
    stands() { (($(redis ZCARD "tidelock:{$key}:line") == 1)); }
    until_true 10 stands || fail "nobody stands in line"
    expect 0 "$tidelock" unlock --protocol auto "$key" "$token"
    wait_for $waiter 30
    [[ $status == 0 ]] || fail "the one in line ended with $status"
    nothing_refused
    nothing_unused
    make_user 'jobs:*' --protocol auto --namespace pay,cron
    expect 0 "$tidelock" run --protocol auto --namespace pay jobs:1 -- true
    expect 0 "$tidelock" run --protocol auto --namespace cron jobs:1 -- true
    nothing_refused
    make_user 'jobs:*' --protocol auto --namespace 'jobs:a\,*=pay,jobs:*=cron' # as it is given to run
    expect 0 "$tidelock" run --protocol auto --namespace 'jobs:a\,*=pay,jobs:*=cron' jobs:a,1 -- true
    expect 0 "$tidelock" run --protocol auto --namespace 'jobs:*=cron' jobs:1 -- true
    nothing_refused
    expect_line 64 'NAME or PATTERN=NAME' "$tidelock" doctor --protocol auto --namespace 'jobs:*=a b' --acl locker 'jobs:*'
    expect_line 64 'named twice' "$tidelock" doctor --protocol auto --namespace 'a:*=pay,cron,jobs:*=pay' --acl locker 'jobs:*'
    make_user 'jobs:*' --protocol timestamp --strict
    use_locks --protocol timestamp --strict
    nothing_refused
    nothing_unused
    expect_line 64 'only with --protocol timestamp' "$tidelock" doctor --acl locker --strict 'jobs:*'
    expect_line 64 'only with --protocol auto' "$tidelock" doctor --acl locker --namespace x 'jobs:*'
fi

expect_line 64 "no JSON" "$tidelock" doctor --acl locker --json 'jobs:*'
expect_line 64 "without spaces" "$tidelock" doctor --acl locker
expect_line 64 "without spaces" "$tidelock" doctor --acl 'a b' 'jobs:*'
expect_line 64 "without spaces" "$tidelock" doctor --acl locker 'a b'
