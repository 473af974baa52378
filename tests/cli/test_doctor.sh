#!/bin/bash
# doctor: each finding on a server that has the ailment, with what mends it, and nothing on one that has none.
# The parts have servers of their own, and run at the same time: most of it is waiting.
# timeout: 300
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

# What is said, a line for each finding: id level what | fix. Nothing may be left unsaid.
examine() { # status url-or-empty words...
    local want=$1 url=${2:-$TIDELOCK_URL}
    shift 2
    depth=1 expect_from "$want" "$tidelock" --url "$url" doctor --json "$@"
    sed -E 's/.*"findings":\[//; s/\]\}$//; s/\},\{"id"/}\n{"id"/g' "$out" |
        sed -nE 's/^\{"id":"([^"]+)","level":"([^"]+)","what":"(.+)","why":"(.+)","fix":"(.+)"\}$/\1 \2 \3 | \5/p' >"$work/said"
    [[ $(wc -l <"$work/said") == $(grep -o '"id":' "$out" | wc -l) ]] || depth=1 fail "something is left unsaid: $(cat "$out")"
}
found() { # id level pattern-of-what-and-fix
    grep -qE -- "^$1 $2 .*$3" "$work/said" || depth=1 fail "no $*: $(cat "$work/said")"
}
not_found() { # id level
    ! grep -q "^$1 $2 " "$work/said" || depth=1 fail "$* is there: $(cat "$work/said")"
}
set_to() { [[ $(redis CONFIG SET "$@") == OK ]] || depth=1 fail "CONFIG SET $*"; }
proxies=0
proxy() { # rules; its URL comes into $through, its port into $port
    proxies=$((proxies + 1))
    "$python" "$here/tests/cli/doctor_proxy.py" "${behind:-$socket}" "$work/port$proxies" "$@" &
    wait_file "$work/port$proxies"
    port=$(cat "$work/port$proxies")
    through=redis://127.0.0.1:$port
}

# ---- a healthy server, and what can be set on one ----------------------------------------------------
settings() {
    mkdir "$work/taken" # where a snapshot would be, so that it fails
    start_server --appendonly yes --appendfsync always --dbfilename taken
    examine 0 ''
    json_has "$out" state fine
    "$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert [f["id"] for f in d["findings"]] == ["restart", "vmclock"] and list(d) == ["state", "server", "product", "version", "findings"]' \
        "$out" || fail "a healthy server: $(cat "$out")"
    expect 0 "$tidelock" doctor
    grep -q "^$socket, Redis [0-9.]*: fine" "$out" || fail "as text: $(cat "$out")"

    # What ends a rest early, when asked.
    examine 0 '' --once-per 1d
    found rest-flush note 'FLUSHALL is allowed \| .*FLUSHALL|-flushall'
    (($(grep -c '^rest-' "$work/said") == 1)) || fail "of a healthy server: $(cat "$work/said")"
    if redis ACL SETUSER default -flushall >/dev/null && redis ACL DRYRUN default PING >/dev/null; then
        examine 0 '' --once-per 1d
        not_found rest-flush note
        redis ACL SETUSER default +flushall >/dev/null
    fi
    set_to appendfsync everysec
    examine 0 '' --once-per 1d
    found rest-restart note 'the last second or two .*everysec\) \| CONFIG SET appendfsync always'
    examine 0 ''
    not_found 'rest-.*' note
    set_to no-appendfsync-on-rewrite yes
    examine 1 '' --once-per 1d
    found persistence warning 'no-appendfsync-on-rewrite is yes \| CONFIG SET no-appendfsync-on-rewrite no$'
    found quiet warning 'a restart forgets locks'
    found rest-restart warning 'during a save, .* \| CONFIG SET no-appendfsync-on-rewrite no$'
    set_to no-appendfsync-on-rewrite no

    # What can be set.
    set_to maxmemory 200mb
    set_to maxmemory-policy allkeys-lru
    set_to appendfsync no
    set_to timeout 30
    set_to tcp-keepalive 0
    set_to maxclients 40
    examine 2 ''
    json_has "$out" state dangerous
    found eviction danger 'is allkeys-lru \| CONFIG SET maxmemory-policy noeviction'
    found persistence warning 'appendfsync is no \| .*everysec'
    found timeout warning 'idle for 30 s \| CONFIG SET timeout 0'
    found tcp-keepalive warning '\| CONFIG SET tcp-keepalive 300'
    found maxclients warning 'accepts 40 connections only \| CONFIG SET maxclients'
    expect 2 "$tidelock" doctor
    [[ $(sed -n 3p "$out") == 'danger   eviction: '* ]] || fail "the worst is not first: $(cat "$out")"
    [[ $(grep -c '^         why: ' "$out") == $(grep -cE '^(danger|warning|note|unseen) ' "$out") ]] || fail "why is missing"

    set_to maxmemory 0
    set_to maxmemory-policy volatile-ttl
    set_to appendonly no
    set_to save ''
    set_to timeout 0
    set_to tcp-keepalive 300
    examine 1 ''
    found eviction note 'volatile-ttl, which has no effect while maxmemory is 0 .*before maxmemory is ever set'
    found persistence warning 'no data survives .*\| CONFIG SET appendonly yes'
    examine 1 '' --once-per 1d --quiet 30s
    found rest-restart warning 'appendonly no.*; the last one was .* ago \| CONFIG SET appendonly yes, CONFIG REWRITE'
    found rest-eviction note 'volatile-ttl .*, but maxmemory is 0 \| CONFIG SET maxmemory-policy noeviction'
    # Full, nearly; and connections that are in use.
    set_to maxmemory-policy noeviction
    set_to save '3600 1'
    used=$(redis INFO memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p')
    set_to maxmemory $((used / 2))
    "$python" -c 'import socket, sys, time
held = []
for i in range(33):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b"PING\r\n"); s.recv(7); held.append(s)
open(sys.argv[2], "w").write("x")
time.sleep(1000)' "$socket" "$work/held" &
    holder=$!
    wait_file "$work/held"
    examine 2 ''
    found memory danger 'MB of maxmemory are used'
    if "$tidelock" help | grep -q '^  migrate '; then
        grep -q 'no lock can be acquired, and no lock shared with legacy clients (bridge, timestamp) can be renewed' "$out" ||
            fail "not what becomes of stamps: $(cat "$out")"
    fi
    found persistence warning 'last snapshot'
    found maxclients warning '3[0-9] of 40 connections are in use'
    kill $holder
    set_to maxmemory 0
    set_to maxclients 10000
    # A save that fails.
    redis BGSAVE >/dev/null
    save_failed() { redis INFO persistence | grep -q 'rdb_last_bgsave_status:err'; }
    until_true 15 save_failed || fail "the save did not fail"
    examine 2 ''
    found persistence danger 'the last save failed'
    [[ $(redis SET x 1) == MISCONF* ]] || fail "it refuses no writes"
    for lenient in 'stop-writes-on-bgsave-error no' 'save '; do
        set_to "${lenient% *}" "${lenient#* }"
        [[ $(redis SET x 1) == OK ]] || fail "it refuses writes with $lenient"
        examine 1 ''
        not_found persistence danger
        found persistence warning 'the last save failed'
        set_to stop-writes-on-bgsave-error yes
    done
    set_to save '3600 1'
    rmdir "$work/taken"
    redis BGSAVE >/dev/null
    save_worked() { ! save_failed; }
    until_true 15 save_worked || fail "the save does not work"
    set_to save ''
    redis CONFIG SET appendonly yes >/dev/null
    set_to appendfsync everysec
}

# ---- what it says of itself, changed on the way ------------------------------------------------------
own_words() {
    start_server --appendonly yes --appendfsync everysec
    proxy info:redis_version=2.4.17 info:aof_last_write_status=err step:30000000 config:protected-mode=no 'config:bind=* -::*' config:port=6379
    for try in {1..40}; do # until it has asked often enough while it watched
        examine 2 "$through"
        if [[ -e $work/port1.stepped ]]; then break; fi
        ((try < 40)) || fail "it does not ask for the time"
    done
    found version danger '2.4.17'
    found persistence danger 'append-only file'
    found persistence note 'everysec'
    found clock danger 'was set while it was watched \| .*makestep'
    found protected warning 'without a password'
    proxy info:redis_version=3.0.7 info:uptime_in_seconds=-50 info:slave0=ip=10.0.0.9,port=6379,state=online,offset=1,lag=40 info:connected_slaves=1 \
        info:maxmemory=1000000000 info:used_memory=950000000 info:connected_clients=9900
    examine 2 "$through"
    found version note '3.0.7'
    found uptime warning 'started 50 s from now'
    found replication warning '10.0.0.9:6379 is online, and last reported 40 s ago'
    found replication warning "min-slaves-to-write doesn't stop scripts.* \| wait_replicas in the clients, or upgrade"
    found memory warning '905 of 953 MB'
    found maxclients danger '9900 of 10000'
    proxy info:redis_version=5.0.14 info:redis_mode=sentinel config:bind=10.0.0.1 config:protected-mode=no config:port=6379
    examine 2 "$through"
    not_found version note # nothing else of it matters
    found replica danger 'Sentinel'
    not_found protected warning

    # An agent that saw the server's clock being set.
    expect 0 "$tidelock" agent --once --name witness --every 10m
    examine 0 ''
    read -r -a words <<<"$(redis GET '{tidelock:agents}:witness')"
    words[12]=$((words[2] - 90000000)) # server_stepped_us
    redis SET '{tidelock:agents}:witness' "${words[*]}" KEEPTTL >/dev/null
    examine 1 ''
    found clock warning 'being set (9|[1-9][0-9])[0-9] s ago'
    redis DEL '{tidelock:agents}:witness' >/dev/null
}

# ---- a replica, and its master -----------------------------------------------------------------------
copies() {
    start_server --appendonly yes --appendfsync everysec
    behind=$work/replica.sock proxy time:900000 # the replica as others see it
    ahead=$port
    mkdir "$work/replica"
    { redis-server --port 0 --unixsocket "$work/replica.sock" --dir "$work/replica" --save '' --loglevel warning \
        --replicaof no one & } >"$work/replica.log" 2>&1
    replica=$!
    on_replica() { redis-cli -s "$work/replica.sock" "$@" 2>/dev/null; }
    replica_answers() { [[ -n $(on_replica PING) ]]; }
    until_true 10 replica_answers || fail "the replica did not start"
    redis CONFIG SET bind 127.0.0.1 >/dev/null
    redis CONFIG SET repl-diskless-sync-delay 0 >/dev/null
    open_port
    on_replica CONFIG SET replica-announce-ip 127.0.0.1 >/dev/null
    on_replica CONFIG SET replica-announce-port "$ahead" >/dev/null
    on_replica REPLICAOF 127.0.0.1 "$port" >/dev/null
    linked() { redis INFO replication | grep -q 'state=online'; }
    until_true 20 linked || fail "the replica did not come: $(redis INFO replication)"
    examine 1 ''
    found replication warning 'min-replicas-to-write is 0'
    shows_clock() {
        "$tidelock" doctor --json >"$out" 2>"$err"
        grep -qE "\"id\":\"replica-clock\",\"level\":\"warning\",\"what\":\"the clock of 127.0.0.1:$ahead is ([5-8][0-9]{2}|900) ms ahead" "$out"
    }
    until_true 20 shows_clock || fail "the clock of the replica: $(cat "$out")" # at least so much: what the answers took is left out
    set_to min-replicas-to-write 2
    set_to min-replicas-max-lag 0
    examine 2 ''
    found replication warning 'min-replicas-max-lag is 0'
    found replication danger '[01] of at least 2 replicas'
    set_to min-replicas-to-write 0
    examine 2 "unix://$work/replica.sock"
    found replica danger 'replica of 127.0.0.1, and read-only \| name the master'
    on_replica CONFIG SET replica-read-only no >/dev/null
    on_replica REPLICAOF 127.0.0.1 1 >/dev/null
    examine 2 "unix://$work/replica.sock"
    found replica danger 'may be written to \| CONFIG SET replica-read-only yes'
    found replication warning 'lost its master'
    kill $replica
    redis CONFIG SET port 0 >/dev/null
    gone_replica() { ! linked; }
    until_true 10 gone_replica || fail "the replica is still there"
}

# ---- what a failover can promise ----------------------------------------------------------------------
promises() {
    start_server --appendonly yes --appendfsync always
    examine 0 '' --quiet 30s # a server alone that keeps all
    not_found failover note
    not_found quiet warning
    replicas=(info:connected_slaves=2 info:slave0=ip=127.0.0.1,port=1,state=online,offset=1,lag=0 info:slave1=ip=127.0.0.1,port=2,state=online,offset=1,lag=0)
    proxy "${replicas[@]}" config:min-replicas-to-write=1 config:min-replicas-max-lag=10 info:min_slaves_good_slaves=2
    examine 1 "$through"
    found quiet warning 'is off, and there are replicas \| quiet_ms \(--quiet\) of 30'
    found failover warning 'two clients may hold a lock .* \(quiet_ms 0, wait_replicas 0 of 2\) \| a redis.sentinel:// URL and quiet_ms of 31.0 s .*min-replicas-to-write 2, min-replicas-max-lag 10 and quiet_ms of 42.0 s; or wait_replicas 2$'
    examine 1 "$through" --quiet 30s
    found failover warning 'if the former master is dead, or cut off'
    not_found quiet warning
    examine 1 "$through" --wait-replicas 1 --once-per 1d
    found failover warning 'wait_replicas 1 of 2'
    found rest-failover warning 'rests early \(wait_replicas 1 of 2\) \| wait_replicas 2 \(run --wait-replicas 2\)'
    examine 1 "$through" --wait-replicas 2 --once-per 1d # nobody answers for the replicas' clocks
    found failover note 'forgets nothing: all replicas \(2\)'
    not_found rest-failover warning
    not_found quiet warning
    examine 2 "$through" --wait-replicas 3
    found replication danger 'wait_replicas is 3, and the server has 2'
    proxy "${replicas[@]}" config:min-replicas-to-write=2 config:min-replicas-max-lag=10 info:min_slaves_good_slaves=2
    examine 1 "$through" --quiet 41s
    found failover warning 'if the former master is dead.*\| quiet_ms of 42.0 s'
    examine 1 "$through" --quiet 42s
    found failover note 'no two clients .* quiet_ms is 42.0 s, and a former master is trusted for 12.0 s'
    examine 1 "$through" --quiet 42s --ttl 35s
    found failover warning 'if the former master is dead'
    # What is to be on the disk.
    examine 2 '' --wait-fsync
    found fsync danger 'needs WAITAOF, .* 7.2 \| upgrade to 7.2'
    proxy like:7.2.6
    examine 0 "$through" --wait-fsync
    not_found fsync danger
    set_to appendfsync everysec
    examine 0 "$through"
    found persistence note 'appendfsync is everysec'
    examine 0 "$through" --wait-fsync
    not_found persistence note
    found fsync note 'everysec, and clients wait for the disk \| CONFIG SET appendfsync always$'
    examine 1 "$through" --wait-fsync --ttl 14s
    found fsync warning 'everysec.* \| .*, or a ttl of 15 s'
    set_to no-appendfsync-on-rewrite yes
    examine 1 "$through" --wait-fsync
    found fsync warning 'no-appendfsync-on-rewrite is yes, .* \| CONFIG SET no-appendfsync-on-rewrite no$'
    not_found persistence warning
    set_to no-appendfsync-on-rewrite no
    set_to appendfsync no
    examine 2 "$through" --wait-fsync
    found fsync danger 'never reports what is on its disk'
    set_to appendfsync always
    proxy like:7.2.6 info:aof_enabled=0
    examine 2 "$through" --wait-fsync
    found fsync danger 'needs an append-only file, .* \| CONFIG SET appendonly yes'
    proxy like:7.2.6 "${replicas[@]}" config:min-replicas-to-write=1 config:min-replicas-max-lag=10 info:min_slaves_good_slaves=2
    examine 1 "$through" --wait-replicas 2
    found failover note 'forgets nothing: .* \| .*with wait_fsync'

    proxy info:redis_version=5.0.14 "${replicas[@]}" config:min-replicas-to-write=2 config:min-replicas-max-lag=10
    examine 1 "$through" --quiet 42s
    found failover warning 'if the former master is dead' # it doesn't stop scripts

    # No clock is left out in silence.
    many=(info:connected_slaves=21)
    for i in {0..20}; do many+=("info:slave$i=ip=127.0.0.1,port=$((i + 1)),state=online,offset=1,lag=0"); done
    proxy "${many[@]:0:21}" info:connected_slaves=20
    examine 1 "$through" --wait-replicas 20
    (($(grep -c '^replica-clock unseen the clock of 127' "$work/said") == 20)) || fail "not 20 clocks: $(cat "$work/said")"
    ! grep -q 'the clocks of other servers' "$work/said" || fail "more than all: $(cat "$work/said")"
    proxy "${many[@]}"
    examine 1 "$through" --wait-replicas 21
    found replica-clock unseen 'the clocks of other servers: there are more than 20 \| tidelock skew'

    # Sentinels, told by what they listen to; a restart that forgets.
    { redis-cli -s "$socket" SUBSCRIBE __sentinel__:hello & } >"$work/heard"
    until_true 10 grep -q subscribe "$work/heard" || fail "nobody listens"
    examine 1 ''
    found quiet warning 'there are Sentinels \|'
    found failover warning 'two clients may hold'
    kill $!
    left() { redis PUBSUB NUMSUB __sentinel__:hello | grep -qx 0; }
    until_true 10 left || fail "it still listens"
    set_to appendonly no
    examine 1 ''
    not_found failover warning
    found quiet warning 'a restart forgets locks'
    found persistence warning 'appendonly no'
    examine 0 '' --quiet 30s
    found persistence note 'appendonly no'
    expect_line 64 'doctor: --quiet: .*at least --ttl, which is 30000 ms' "$tidelock" doctor --quiet 29s
    expect_line 64 'doctor: --quiet: at most 1h' "$tidelock" doctor --quiet 2h
    expect_line 64 'doctor: --once-per: 400d at most' "$tidelock" doctor --once-per 401d
    if "$tidelock" help | grep -q '^  migrate '; then
        expect_line 64 'doctor: --once-per: not with --strict' "$tidelock" doctor --once-per 1d --protocol timestamp --strict
    fi
}

# ---- permissions -------------------------------------------------------------------------------------
permissions() {
    start_server --appendonly yes --appendfsync everysec
    limited() { # rules; what may be taken away from all
        redis ACL SETUSER limited reset on '>secret' '~*' '&*' '+@all' "$@" >/dev/null || fail "ACL SETUSER $*"
    }
    export TIDELOCK_PASSWORD=secret
    proxy
    as_limited=redis://limited@127.0.0.1:$port
    limited -pexpire -subscribe
    examine 2 "$as_limited"
    found permissions danger 'PEXPIRE: .*pexpire.* \| ACL SETUSER limited \+PEXPIRE'
    found permissions warning 'SUBSCRIBE: .* \| ACL SETUSER limited \+SUBSCRIBE'
    limited -command # nor does it ask for one that is newer than the server
    examine 1 "$as_limited"
    found commands unseen 'command'
    not_found permissions unseen
    if [[ $(redis ACL DRYRUN limited SUBSCRIBE x) == OK ]]; then # from 7.0 on
        limited resetchannels '&tidelock:{k}'
        examine 1 "$as_limited" k
        found permissions warning "SUBSCRIBE: .*tidelock:inbox:.*'&tidelock:inbox:\*'"
        limited resetchannels '&tidelock:{k}' '&tidelock:inbox:*'
        examine 0 "$as_limited" k
    fi
    limited -config -acl
    examine 1 "$as_limited"
    found config unseen 'CONFIG|config'
    found permissions unseen 'acl'
    json_has "$out" state warnings
    limited -time
    expect_line 77 "the permission \\+time is missing" "$tidelock" --url "$as_limited" doctor
    limited -info -command -eval
    examine 2 "$as_limited"
    found info unseen 'info'
    found commands unseen 'command'
    found persistence unseen ''
    found scripts danger 'ACL SETUSER limited \+eval'
    limited resetkeys '~jobs:*' '~tidelock:{jobs:*' '~tidelock:fence:*'
    examine 1 "$as_limited"
    found permissions unseen 'tidelock doctor KEY'
    examine 0 "$as_limited" jobs:nightly
    not_found permissions danger
    examine 2 "$as_limited" elsewhere
    found permissions danger "GET: .*ACL SETUSER limited '~elsewhere' '~tidelock:\{elsewhere\}\*'"
    unset TIDELOCK_PASSWORD
}

# ---- commands that are not there, and refusals -------------------------------------------------------
commands() {
    start_server --appendonly yes --rename-command EVAL '' --rename-command PTTL hidden --rename-command SUBSCRIBE ''
    examine 2 ''
    found commands danger 'has no EVAL: it is renamed or forbidden \| remove .*rename-command EVAL'
    found commands danger 'has no PTTL'
    found commands warning 'has no SUBSCRIBE'
    found scripts danger 'runs no script'
    if [[ ${COMPAT:-1} != 0 ]]; then
        found scripts danger 'or use --protocol timestamp, which works there$'
        examine 1 '' --protocol timestamp # by WATCH
        not_found scripts danger
        not_found commands danger
    fi
    examine 2 ''
    not_found permissions unseen

    # A new server without Lua is not called old, nor its commands renamed.
    stop_server
    start_server --appendonly yes
    proxy no-lua:
    examine 2 "$through"
    json_has "$out" version 9.1.0
    found scripts danger 'the server runs no script: its Lua module is not loaded \| in valkey.conf: loadmodule PATH/libvalkeylua.so'
    not_found commands danger
    not_found version danger
    examine 2 "$through" --once-per 1d
    if [[ ${COMPAT:-1} != 0 ]]; then
        found scripts danger 'or use --protocol timestamp, which works there$'
        examine 0 "$through" --protocol timestamp
        found scripts note 'its Lua module is not loaded \| in valkey.conf: loadmodule'
        examine 2 "$through" --protocol timestamp --once-per 1d
        found rest-scripts danger 'no lock can rest: the server runs no script \| in valkey.conf: loadmodule'
    fi

    # Refusals.
    expect_line 64 'too many' "$tidelock" doctor a b
    expect_line 64 'KEY' "$tidelock" doctor ''
    expect_line 64 'malformed URL' "$tidelock" --url ftp://x doctor
    expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" doctor
    # A script that runs and runs: the server answers nothing else, and that is said.
    redis CONFIG SET lua-time-limit 10 >/dev/null
    redis-cli -s "$socket" EVALSHA "$(redis SCRIPT LOAD 'while true do end')" 0 >/dev/null 2>&1 &
    busy() { redis PING 2>&1 | grep -q BUSY; }
    until_true 10 busy || fail "the script does not run"
    expect_line 69 'BUSY' "$tidelock" doctor
    redis SCRIPT KILL >/dev/null
    until_true 10 server_answers || fail "the script does not end"
    redis CONFIG SET requirepass secret >/dev/null
    expect_line 77 'password' "$tidelock" doctor
    if [[ -w /dev/full ]]; then
        TIDELOCK_PASSWORD=secret "$tidelock" doctor >/dev/full 2>"$err"
        [[ $? == 70 ]] || fail "a full device"
    fi
}

# ---- the fencing counter of a key's slot --------------------------------------------------------------
counter() {
    start_server --appendonly yes --appendfsync always
    expect 0 "$tidelock" run jobs:1 -- true
    counter=$(redis --scan --pattern 'tidelock:fence:*')
    [[ $counter ]] || fail "no counter"
    examine 0 '' jobs:1
    redis INCRBY "$counter" 172800000000 >/dev/null
    expect 0 "$tidelock" run jobs:1 -- true # locks can be acquired all the same
    examine 1 '' jobs:1
    found fence warning "$counter is 4[78] h ahead of the server's clock .*don't delete the counter"
    redis INCRBY "$counter" 8640000000000 >/dev/null
    examine 1 '' jobs:1
    found fence warning "$counter is 10[12] days ahead"
    examine 0 '' # it is of the slot of jobs:1 alone
    for wrong in 9007199254740991 x -7; do
        redis SET "$counter" $wrong >/dev/null
        expect_line 70 "$counter" "$tidelock" run jobs:1 -- true
        examine 2 '' jobs:1
        found fence danger "$counter (is at 2\^53|holds no number)"
    done
    redis DEL "$counter" >/dev/null
    redis RPUSH "$counter" x >/dev/null
    examine 2 '' jobs:1
    found fence danger "$counter holds no number"
    redis DEL "$counter" >/dev/null
    examine 0 '' jobs:1

    # BLESS keeps it from eviction; that is offered only where a counter can be evicted, and the server knows BLESS.
    set_to maxmemory 200mb
    set_to maxmemory-policy allkeys-lru
    examine 2 '' jobs:1
    not_found fence note
    proxy blessed:
    examine 2 "$through" jobs:1
    found fence note "may delete the fencing counter $counter \| BLESS SET $counter NO-EVICT, .*noeviction"
    found eviction danger 'is allkeys-lru'
    examine 2 "$through"
    found fence note 'tidelock doctor KEY. names the counter'
    proxy blessed:NO-EVICT
    examine 2 "$through" jobs:1
    not_found fence note
    set_to maxmemory-policy volatile-lru
    proxy blessed:
    examine 2 "$through" jobs:1
    not_found fence note
}

# ---- a server that doesn't tell its version ------------------------------------------------------------
unnamed() {
    start_server --appendonly yes --rename-command INFO ''
    "$tidelock" doctor --json >"$out" 2>"$err"
    if redis HELLO | grep -qx redis; then grep -q '"version":"[0-9]' "$out" || fail "HELLO is not asked: $(cat "$out")"; fi
    ! grep -q 'take \\"rename-command WAITAOF' "$out" || fail "WAITAOF is called renamed: $(cat "$out")"
    grep -q 'has no INFO: it is renamed' "$out" || fail "INFO is not called renamed: $(cat "$out")"
    stop_server
    start_server --appendonly yes --rename-command INFO '' --rename-command HELLO '' --rename-command WAIT ''
    "$tidelock" doctor --json >"$out" 2>"$err"
    grep -q 'has no WAIT: it is older than Redis 3.0, or the command is renamed' "$out" || fail "of WAIT: $(cat "$out")"
    grep -q 'has no INFO: it is renamed' "$out" || fail "INFO is not called renamed: $(cat "$out")"
    ! grep -q 'take \\"rename-command WAIT' "$out" || fail "WAIT is called renamed: $(cat "$out")"
}

# ---- all at once --------------------------------------------------------------------------------------
begin() { # part
    work=$work/$1 server_pid=
    mkdir "$work"
    out=$work/out err=$work/err socket=$work/redis.sock
    export TIDELOCK_URL=local:$work/tidelock
    trap clean_up EXIT
    "$1"
}
pids=()
for part in settings own_words copies promises permissions commands counter unnamed; do
    (begin "$part") &
    pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
