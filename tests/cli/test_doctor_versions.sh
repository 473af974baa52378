#!/bin/bash
# doctor: what it says of servers of other versions, as old_redis.py has them: nothing that they don't know is advised, all of them can
# be run so that it is content, and what min-replicas-to-write is worth depends on the version.
# Only in make check-all: it is about servers of the past.
# timeout: 300
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --appendonly yes --appendfsync everysec

proxies=0
like() { # version rules...
    proxies=$((proxies + 1))
    "$python" "$here/tests/cli/doctor_proxy.py" "$socket" "$work/port$proxies" "like:$@" &
    wait_file "$work/port$proxies"
    url=redis://127.0.0.1:$(cat "$work/port$proxies")
}
finds() { depth=1 grep -qE -- "$1" "$out" || depth=1 fail "$version: no '$1': $(cat "$out")"; }
finds_no() { if grep -qE -- "$1" "$out"; then depth=1 fail "$version: '$1' is there: $(cat "$out")"; fi; }
at_least() { [[ $(printf '%s\n' "$1" "${version#valkey-}" | sort -V | head -n 1) == "$1" ]]; }

advice() { # what no server of this version knows is in no line
    at_least 2.8 || finds_no 'CONFIG REWRITE'
    at_least 6 || finds_no 'ACL|acl|SETUSER|users'
    at_least 5 || finds_no 'min-replicas|replica-read-only|REPLICAOF'
}

replicas='info:connected_slaves=1'
for version in 2.2.15 2.4.18 2.6.17 2.8.24 3.0.7 3.2.13 4.0.14 5.0.14 6.0.16 6.0.17 6.2.6 6.2.16 7.2.6 valkey-8.0.1; do
    # Run as one would run it.
    safe=(config:timeout=0)
    options=()
    if ! at_least 2.6; then
        if [[ ${COMPAT:-1} == 0 ]]; then continue; fi
        options=(--protocol timestamp)
    fi
    like "$version" "${safe[@]}"
    expect 0 "$tidelock" --url "$url" doctor "${options[@]}"
    case $version in
        valkey-*) finds ', Valkey 8\.0\.1: fine' ;;
        *) finds ", Redis ${version//./\\.}: fine" ;;
    esac
    finds_no '^(unseen|warning|danger)'
    at_least 3.0 || finds '^note +eviction: maxmemory-policy is volatile-lru, which has no effect while maxmemory is 0'
    advice
    if ! at_least 2.6; then
        expect 2 "$tidelock" --url "$url" doctor
        finds '^danger +version: the server is Redis 2'
        finds 'or use --protocol timestamp, which works there'
        [[ $(grep -c '^danger' "$out") == 1 ]] || fail "$version: one lack is told more than once: $(cat "$out")"
    fi

    case $version in # as they name a replica
        2.[246].*) replica='info:slave0=127.0.0.1,1,online' ;;
        *) replica='info:slave0=ip=127.0.0.1,port=1,state=online,offset=1,lag=0' ;;
    esac
    # With replicas, and nothing else that is well.
    limit=(config:maxmemory=1000000 config:maxmemory-policy=allkeys-lru)
    if at_least 3.2; then limit=(info:maxmemory=1000000 info:maxmemory_policy=allkeys-lru); fi
    like "$version" "${limit[@]}" "$replicas" "$replica" config:min-slaves-to-write=0 config:min-replicas-to-write=0 \
        info:aof_enabled=0 info:master_link_status=down
    expect 2 "$tidelock" --url "$url" doctor "${options[@]}"
    finds '^danger +eviction: maxmemory-policy is allkeys-lru'
    finds 'CONFIG SET appendonly yes'
    finds_no 'the replica .* is'
    at_least 2.6 && finds 'clock of 127\.0\.0\.1:1: connect'
    advice
    case $version in
        2.[246].*) finds 'there are replicas, and Redis 2\.[246]\.[0-9]+ has no min-slaves-to-write \(2\.8\) and no WAIT' ;;
        2.8.*) finds "min-slaves-to-write doesn't stop scripts, which locks are, in Redis 2\.8\.24" && finds 'fix: upgrade to 7\.0' ;;
        [34].*) finds "min-slaves-to-write doesn't stop scripts" && finds 'fix: wait_replicas in the clients, or upgrade' ;;
        5.* | 6.0.16 | 6.2.6) finds "min-replicas-to-write doesn't stop scripts" && finds 'fix: wait_replicas in the clients, or upgrade' ;;
        *) finds 'min-replicas-to-write is 0' && finds 'CONFIG SET min-replicas-to-write 1' ;;
    esac

    # Where it is set but stops no script, that is said; where it does stop them, it is what is wanted.
    if at_least 2.8; then
        like "$version" "$replicas" "$replica" config:min-slaves-to-write=1 config:min-replicas-to-write=1 config:min-slaves-max-lag=10 \
            config:min-replicas-max-lag=10 info:min_slaves_good_slaves=1
        expect 1 "$tidelock" --url "$url" doctor # not for replication alone: nobody answers for the replica's clock
        case $version in
            [2-5].* | 6.0.16 | 6.2.6) finds "^warning +replication: min-(replica|slave)s-to-write is 1, but doesn't stop scripts" ;;
            *) finds_no ' replication:' ;;
        esac
        like "$version" "$replicas" "$replica" config:min-slaves-to-write=2 config:min-replicas-to-write=2 info:min_slaves_good_slaves=1
        case $version in
            [2-5].* | 6.0.16 | 6.2.6) expect 1 "$tidelock" --url "$url" doctor && finds 'though not those of scripts' ;;
            *) expect 2 "$tidelock" --url "$url" doctor && finds 'no lock can be acquired or renewed' ;;
        esac
    fi
done

# A Sentinel of Valkey's, and a replica of old.
version=valkey-8.0.1
like "$version" info:server_mode=sentinel
expect 2 "$tidelock" --url "$url" doctor
finds 'this is a Sentinel'
version=2.4.18
like "$version" info:role=slave info:master_host=10.0.0.1
expect 2 "$tidelock" --url "$url" doctor
finds 'replica of 10.0.0.1, and may be written to'
# A user who may not do everything, where the server doesn't tell what: the rule is there to compare with.
version=6.2.16
like "$version" flag:allkeys
expect 1 "$tidelock" --url "$url" doctor
finds 'unseen +permissions: .*it may not do everything, and Redis 6\.2\.16 does not report what'
finds 'tidelock doctor --acl KEY. prints all that it needs'
# Users are of 6.0, their channels of 6.2.
version=5.0.14
like "$version"
expect_line 77 'the server has no users; they need Redis 6\.0 or newer, and this one is Redis 5\.0\.14' "$tidelock" --url "$url" doctor --acl locker 'jobs:*'
version=6.0.17
like "$version"
expect 0 "$tidelock" --url "$url" doctor --acl locker 'jobs:*'
finds 'ACL SETUSER locker reset on >PASSWORD ~jobs:\* ~tidelock:\{jobs:\*\} ~tidelock:\{jobs:\*\}:line ~tidelock:fence:\* \+eval '
# CONFIG renamed, before there were users.
version=4.0.14
like "$version" lacks:CONFIG
expect 1 "$tidelock" --url "$url" doctor
finds 'read redis.conf: CONFIG is renamed'
advice
