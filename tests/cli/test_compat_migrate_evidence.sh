#!/bin/bash
# timeout: 180
# migrate advance: which evidence of legacy clients it has without MONITOR, and what it says where one can't be had.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
says() { grep -qE -- "$1" "$out" || depth=1 fail "no '$1': $(cat "$out")"; }
needs_redis 6.2 "counts of what was refused"
start_server
expect 0 migrate init --keys 'jobs:*' --lease 1s --phase 1 --yes
epoch=1
watch() { # options; starts it, and waits until it is at it
    set_phase 1 $((epoch += 10))
    redis CONFIG RESETSTAT >/dev/null
    { migrate advance --yes --monitor 0s "$@" & } >"$work/watch" 2>&1
    watch=$!
    until_true 20 is_waiting || fail "it does not watch: $(cat "$work/watch")"
}
refuses() { # pattern; at once, rather than after 5 min
    wait_for $watch 30
    [[ $status == 77 ]] || depth=1 fail "$status instead of 77: $(cat "$work/watch")"
    grep -qE -- "$1" "$work/watch" || depth=1 fail "no '$1': $(cat "$work/watch")"
    in_phase 1 $epoch
}
shows() { # pattern... in the output of advance or status
    local pattern
    for pattern; do grep -qE -- "^  $pattern" "$out" || depth=1 fail "no '$pattern': $(cat "$out")"; done
}
advances() { # options
    set_phase 1 $((epoch += 10))
    depth=1 expect 0 migrate advance --yes --watch 300ms --monitor 0s "$@"
    in_phase 2 $((epoch + 1))
}

# ---- what the server refuses ---------------------------------------------------------------------------
# A forgotten service that is denied SETNX can't lock, and is counted nowhere else: it is named.
redis ACL SETUSER app on nopass '~*' '&*' +@all -setnx -getset >/dev/null
open_port
denied() { redis-cli -p "$port" --user app --pass x "$@" >/dev/null 2>&1; }
watch --watch 5m
denied SETNX jobs:x 1
refuses 'the server refused SETNX or GETSET 1 time meanwhile: a client still locks as legacy clients do: user app, .* ago: 127\.0\.0\.1:[0-9]+ as user app, last command setnx: end it'
expect 0 migrate status
shows 'acl +SETNX and GETSET are denied to 1 of 2 users of 1 server$' 'acl_log +SETNX or GETSET was denied once: user app, ' 'counts .*, and they were refused once$'
expect 0 migrate status --json
jq -e '.evidence | .refused_calls == 1 and .denials == 1 and .denied_users == 1 and .users == 2' <"$out" >/dev/null || fail "status --json: $(cat "$out")"
jq -e '[.evidence.sources[].name] == ["acl", "counts", "events", "acl_log", "clients", "monitor"]' <"$out" >/dev/null || fail "sources: $(cat "$out")"
# One before the watch doesn't count, with its entry in the log; and one of other commands neither.
advances
shows 'acl_log +no denied SETNX or GETSET meanwhile$' 'counts +no SETNX or GETSET ran in .*, and none was refused$'
# Without the log the count alone tells.
redis ACL LOG RESET >/dev/null
watch --watch 5m
redis CONFIG SET maxmemory 1 >/dev/null
redis SETNX jobs:x 1 >/dev/null # the memory is full
redis CONFIG SET maxmemory 0 >/dev/null
refuses 'refused SETNX or GETSET 1 time meanwhile.*: (unknown|.*, last command setnx): end it'
# Denied to all: that lasts longer than any watch.
redis ACL SETUSER default -setnx -getset >/dev/null
advances
shows 'acl +SETNX and GETSET are denied to every user of 1 server: none can lock by them as long as that stays, however long it was idle$'
expect 0 migrate status --history
grep -q '0 refused; denied to 2 of 2 users' "$out" || fail "history: $(tail -n 2 "$out")"
# A user that is off is one of them: its connections that are open go on, and Redis lets them lock.
redis ACL SETUSER gone on nopass '~*' +@all >/dev/null
exec 9<>"/dev/tcp/127.0.0.1/$port"
printf 'AUTH gone x\r\n' >&9 && read -r answer <&9 && [[ $answer == +OK* ]] || fail "AUTH: $answer"
redis ACL SETUSER gone off >/dev/null
printf 'SETNX elsewhere 1\r\n' >&9 && read -r answer <&9 && [[ $answer == :1* ]] || fail "SETNX of a user that is off: $answer"
exec 9>&-
redis DEL elsewhere >/dev/null
advances
shows 'acl +SETNX and GETSET are denied to 2 of 3 users of 1 server$'
expect 0 migrate acl
says '^ACL SETUSER gone -setnx -getset$'
redis ACL DELUSER gone >/dev/null
# A selector isn't changed by -setnx: it is made again. What else it allows, and the way back, are as before.
if redis INFO server | grep -qE '^redis_version:([7-9]|[1-9][0-9])'; then
    redis ACL SETUSER app '(~jobs:* +get +setnx)' '(~cron:* -@all +@read)' >/dev/null
    app() { redis-cli -p "$port" --user app --pass x "$@" 2>/dev/null; }
    app SETNX jobs:selected 1 >/dev/null
    [[ $(redis GETDEL jobs:selected) == 1 ]] || fail "the selector allows nothing"
    advances
    shows 'acl +SETNX and GETSET are denied to 1 of 2 users of 1 server$'
    expect 0 migrate acl
    says '^# The selectors of app may allow them too, and -setnx doesn.t change a selector\.$'
    says '^ACL SETUSER app -setnx -getset clearselectors \(~jobs:\* .*\+setnx.* -setnx -getset\) \(~cron:\* .*-setnx -getset\)$'
    way_back=$(sed -n 's/^# Its way back: //p' "$out")
    [[ $way_back == 'ACL SETUSER app clearselectors ('* ]] || fail "it gives back what the user never had: $way_back"
    grep '^ACL SETUSER app ' "$out" | redis >"$work/given"
    grep -qx OK "$work/given" || fail "redis-cli: $(cat "$work/given")"
    app SETNX jobs:selected 1 | grep -q NOPERM || fail "it still locks"
    [[ $(app GET jobs:selected) == '' && $(app GET cron:a) == '' ]] || fail "it has lost more: $(app GET cron:a)"
    expect 0 migrate acl
    says '^# app is denied them already$'
    advances
    shows 'acl +SETNX and GETSET are denied to every user of 1 server'
    redis <<<"$way_back" | grep -qx OK || fail "the way back: $way_back"
    app SETNX jobs:selected 1 >/dev/null
    [[ $(redis GETDEL jobs:selected) == 1 ]] || fail "the way back doesn't lead back"
    # A pattern that redis-cli would read otherwise is left to the administrator.
    redis ACL SETUSER app '(~jobs:a\b* +setnx)' >/dev/null
    expect 0 migrate acl
    says '^# See ACL GETUSER: clear them \(clearselectors\)'
    redis ACL SETUSER app clearselectors >/dev/null
fi
redis ACL SETUSER default +@all >/dev/null

# ---- counts that were reset ----------------------------------------------------------------------------
watch --watch 5m
redis CONFIG RESETSTAT >/dev/null
refuses "the server's counts of commands were reset meanwhile, and MONITOR was not read throughout"

# ---- keyspace events -----------------------------------------------------------------------------------
advances
shows 'events +not known: notify-keyspace-events lacks K, \$ or g: it is empty$'
[[ $(redis CONFIG GET notify-keyspace-events | tail -n 1) == '' ]] || fail "it has changed the setting"
redis CONFIG SET notify-keyspace-events 'K$gx' >/dev/null
# A copy that acquires by SET is in no count; the key is named, though its lock is gone before a scan.
watch --watch 5m
printf '%s\n' MULTI 'SET jobs:quick 1763700060000' 'DEL jobs:quick' EXEC | redis >/dev/null
refuses 'SETNX, GETSET or SET of a legacy client on jobs:quick: '
# What tidelock writes, by all of its ways, is no legacy client's; nor is what others write elsewhere.
set_phase 1 $((epoch += 10))
{ migrate advance --yes --watch 3s --monitor 0s & } >"$out" 2>"$err"
watch=$!
for ((i = 0; i < 1000; i++)); do
    gone $watch && break
    "$tidelock" run --protocol auto --namespace 'jobs:*=default' jobs:mine -- true || fail "no lock"
    "$tidelock" run jobs:token -- true || fail "no lock"
    redis SET elsewhere 1 >/dev/null
done
wait_for $watch 30
[[ $status == 0 ]] || fail "tidelock's own writes: $status: $(cat "$err")"
shows 'events +keyspace events for .*: [1-9][0-9]* writes to keys of the namespace, 0 of them without a lifetime'
# Its own keys beside the locks have no lifetime, and are no locks.
redis HSET "$register" keys '*' >/dev/null
redis DEL elsewhere >/dev/null
set_phase 1 $((epoch += 10))
{ migrate advance --yes --watch 1s --monitor 0s & } >"$out" 2>"$err"
watch=$!
until gone $watch; do
    "$tidelock" run --protocol auto --namespace 'default' mine -- true || fail "no lock"
    "$tidelock" run other -- true || fail "no lock"
done
wait_for $watch 30
[[ $status == 0 ]] || fail "tidelock's own keys: $status: $(cat "$err")"
shows 'events +keyspace events for .*: [1-9][0-9]* writes to keys of the namespace, 0 of them without a lifetime'
redis HSET "$register" keys 'jobs:*' >/dev/null
# A subscription that is lost is a gap; it goes on.
watch --watch 5m
ended() { (($(redis CLIENT KILL TYPE pubsub) > 0)); }
until_true 20 ended || fail "it does not subscribe"
subscribed() { redis CLIENT LIST TYPE pubsub | grep -q psub=1; }
until_true 20 subscribed || fail "it does not subscribe again: $(cat "$work/watch")"
printf '%s\n' MULTI 'SETNX jobs:quick 1763700060000' 'DEL jobs:quick' EXEC | redis >/dev/null
refuses 'SETNX, GETSET or SET of a legacy client on jobs:quick: '

# ---- what may not be read ------------------------------------------------------------------------------
# Each source that is refused is said to be; what is left decides.
as() { # rules; the URL of a user that has them
    redis ACL SETUSER op on nopass '~*' '&*' +@all "$@" >/dev/null
    export TIDELOCK_PASSWORD=x TIDELOCK_URL=redis://op@127.0.0.1:$port
}
for row in 'events config its setting can.t be read: .*NOPERM' 'events psubscribe the subscription was refused: NOPERM' \
    'acl acl .*NOPERM' 'acl_log acl .*NOPERM' 'clients client the list of clients can.t be read'; do
    read -r name command why <<<"$row"
    as "-$command"
    advances
    shows "$name +not known: $why" 'counts +no SETNX or GETSET ran'
done
as -info +info\|replication -monitor
set_phase 1 $((epoch += 10))
expect_refused 'the server does not count commands, and MONITOR was not read throughout: .*MONITOR is refused: NOPERM' migrate advance --yes --watch 300ms
in_phase 1 $epoch
unset TIDELOCK_PASSWORD
export TIDELOCK_URL=unix://$socket
redis CONFIG SET notify-keyspace-events '' >/dev/null

# ---- MONITOR, the last resort --------------------------------------------------------------------------
# Without --monitor it is read when a call is counted that nobody has seen; not before.
set_phase 1 $((epoch += 10))
redis CONFIG RESETSTAT >/dev/null
{ "$tidelock" migrate advance --yes --watch 5m --wait 0s & } >"$work/watch" 2>&1
watch=$!
until_true 20 is_waiting || fail "it does not watch: $(cat "$work/watch")"
! redis CLIENT LIST | grep -q cmd=monitor || fail "MONITOR is read without need"
redis SETNX elsewhere 1 >/dev/null
until_true 20 grep -q 'migrate advance: SETNX or GETSET ran: reading MONITOR for 10 s to see on which keys' "$work/watch" || fail "doubt: $(cat "$work/watch")"
redis SETNX jobs:again x >/dev/null
refuses 'SETNX of a legacy client on jobs:again: a client of the unix socket'
