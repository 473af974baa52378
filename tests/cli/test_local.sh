#!/bin/bash
# timeout: 180
# The command finds or starts a private server, and local looks after it. Which server that is when no URL
# is given is the matter of test_local_default.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
socket=$work/tidelock/redis.sock
server() { local_servers | head -n 1; }
# A process that ends closes its files before it leaves its directory: so wait for both.
none_runs() { [[ -z $(local_servers) ]]; }
it_alone_runs() { [[ $(local_servers) == "$pid" ]]; }

# ---- status and stop without a server start none ----------------------------------------------
expect 1 "$tidelock" local status
grep -qx "not running" "$out" || fail "status says: $(cat "$out")"
expect 1 "$tidelock" local status --json
json_has "$out" state stopped
json_has "$out" pid None
json_has "$out" socket "$socket"
expect 0 "$tidelock" local stop
expect 0 "$tidelock" local stop --force
none_runs || fail "a server was started by looking for one"

# ---- usage ------------------------------------------------------------------------------------
expect_line 64 'status, stop or demo' "$tidelock" local restart
expect_line 64 'status\|stop\|demo is missing' "$tidelock" local
expect_line 64 'too many arguments' "$tidelock" local status stop
expect_line 64 'force' "$tidelock" local status --force
expect_line 64 'json' "$tidelock" local stop --json
expect_line 64 'must begin with local:' "$tidelock" --url redis://h local status
expect_line 64 'only a directory' "$tidelock" --url local:here local status
expect_line 64 'only a directory' "$tidelock" --url local:here run k -- true
TIDELOCK_URL='' expect_line 78 'TIDELOCK_URL is empty: give it the server.s URL, or unset it' "$tidelock" run k -- true
TIDELOCK_URL='' expect 1 "$tidelock" --url "local:$work/tidelock" local status
(unset TIDELOCK_URL && expect_line 64 '[-]-url is empty: give' "$tidelock" --url '' run k -- true) || exit
TIDELOCK_URL=local:here expect_line 78 'only a directory' "$tidelock" local status
TIDELOCK_URL=local:here expect_line 78 'TIDELOCK_URL.*only a directory' "$tidelock" run k -- true

# ---- a command under a lock -----------------------------------------------------------------
expect 0 "$tidelock" run -w 1m job -- echo done
[[ $(cat "$out") == "done" ]] || fail "the command printed: $(cat "$out")"
pid=$(server)
[[ -n $pid ]] || fail "no server runs"
expect 0 "$tidelock" run --url "local:$work/tidelock/" job -- true
until_true 30 it_alone_runs || fail "there are other servers than $pid: $(local_servers)"
[[ $(stat -c %a "$work/tidelock") == 700 && $(stat -c %a "$socket") == 700 ]] || fail "others may enter"

expect 0 "$tidelock" local status
head -n 1 "$out" | grep -qx running || fail "status says: $(cat "$out")"
for line in "socket   $socket" "pid      $pid" "locks    0" "data     $work/tidelock"; do
    grep -qx "$line" "$out" || fail "status lacks '$line': $(cat "$out")"
done
expect 0 "$tidelock" local status --format json
json_has "$out" state running
json_has "$out" pid "$pid"
json_has "$out" socket "$socket"
json_has "$out" data "$work/tidelock"
json_has "$out" version "$(redis INFO server | sed -n 's/^redis_version:\([^[:space:]]*\).*/\1/p')"
json_has "$out" keys "$(redis DBSIZE)"
json_has "$out" locks 0

# ---- a directory that is moved away gets no second server beside the first -------------------------
mv "$work/tidelock" "$work/away"
ln -s "$work" "$work/link"
for dir in "$work/tidelock" "$work/link/tidelock"; do
    expect_line 69 "the private server of $dir runs, but not there" "$tidelock" --url "local:$dir" run -n job -- true
    until_true 30 it_alone_runs || fail "there are other servers than $pid: $(local_servers)"
    rmdir "$work/tidelock" 2>/dev/null || rm -r "$work/tidelock"
done
expect_line 69 'runs, but not there' "$tidelock" local status
expect 0 "$tidelock" --url "local:$work/away" run -n job -- true
mv "$work/away" "$work/tidelock"
expect 0 "$tidelock" run -n job -- true
until_true 30 it_alone_runs || fail "there are other servers than $pid: $(local_servers)"

# ---- the starter's end is not the server's ----------------------------------------------------
# A session of its own, whose processes are all killed, as when a terminal is closed.
"$tidelock" local stop
setsid "$tidelock" run long -- sleep 1000 &
pgid=$!
until_true 10 eval '"$tidelock" check long >/dev/null; [[ $? == 1 ]]' || fail "the lock is not held"
pid=$(server)
kill -INT -- "-$pgid"
kill -HUP -- "-$pgid"
wait_for "$pgid" 10
[[ $(server) == "$pid" ]] || fail "the server ended with its starter"

# ---- stop refuses while locks are held --------------------------------------------------------
names=(a 'b{tag}' 'c}d' 'x:tidelock' 'tidelock:{y}')
for k in "${names[@]}"; do
    expect 0 "$tidelock" lock -t 10m "$k"
    read -r token _ <"$out"
    echo "$token" >"$work/token.$k"
done
redis SET plain another >/dev/null
expect 0 "$tidelock" local status --json
json_has "$out" locks 6
expect_line 77 '6 locks are held \(.* by .*, \.\.\.\)' "$tidelock" local stop
for k in "${names[@]:1}"; do expect 0 "$tidelock" unlock "$k" "$(cat "$work/token.$k")"; done
redis DEL plain >/dev/null
expect_line 77 '1 lock is held \(a by tidelock on .*\(pid [0-9]+\)\); --force' "$tidelock" local stop
[[ $(server) == "$pid" ]] || fail "a refused stop ended the server"
expect 0 "$tidelock" local stop --force
until_true 30 none_runs || fail "a server runs after stop --force"
expect 1 "$tidelock" local status
expect 1 "$tidelock" check a # the server starts again, and knows the lock
expect 0 "$tidelock" unlock a "$(cat "$work/token.a")"
expect 0 "$tidelock" local stop
until_true 30 none_runs || fail "a server runs after stop"

# ---- crashes ----------------------------------------------------------------------------------
expect 0 "$tidelock" lock -t 10m crash
read -r token _ <"$out"
pid=$(server)
kill -KILL "$pid"
until_true 30 gone "$pid" || fail "the server outlives a KILL" # until then it may accept a connection
expect 75 "$tidelock" run -n crash -- true
expect 0 "$tidelock" unlock crash "$token"

# ---- a server that does not answer ------------------------------------------------------------
pid=$(server)
kill -STOP "$pid"
expect_line 69 "pid $pid.*stop --force" "$tidelock" local status
expect_line 69 "pid $pid.*stop --force" "$tidelock" local stop
expect 0 "$tidelock" local stop --force
until_true 30 none_runs || fail "the frozen server still runs"

# ---- a lock that rests: nobody holds it, and the server keeps it -----------------------------------
expect 0 "$tidelock" lock --rest 10m k
expect 0 "$tidelock" local status --json
json_has "$out" locks 0
expect 0 "$tidelock" local stop
expect 75 "$tidelock" lock k
expect 0 "$tidelock" break --yes k

# ---- another directory, another server --------------------------------------------------------
expect 0 "$tidelock" lock -w 1m -t 10m k
expect 0 "$tidelock" --url "local:$work/other/" lock -w 1m -t 10m k
expect 0 "$tidelock" --url "local:$work/other" local stop --force
[[ -S $socket ]] || fail "the wrong server was stopped"
TIDELOCK_PASSWORD=x expect_line 77 'local: a password is given, but the server asks for none' "$tidelock" run k -- true
expect 0 "$tidelock" local stop --force

# ---- what can't be used -----------------------------------------------------------------------
mkdir "$work/empty" "$work/open" "$work/open/tidelock"
chmod 755 "$work/open/tidelock"
expect_line 69 'no redis-server in PATH: install it' env PATH="$work/empty" "$tidelock" check k
expect_line 77 'others may enter it' "$tidelock" --url "local:$work/open/tidelock" run k -- true
expect_line 77 'others may enter it' "$tidelock" --url "local:$work/open/tidelock" local status
rmdir "$work/open/tidelock"
ln -s "$work" "$work/open/tidelock"
expect_line 77 'a symbolic link or no directory' "$tidelock" --url "local:$work/open/tidelock" lock k
long=/$(printf 'x%.0s' {1..100})
expect_line 64 'longer than 96 bytes' "$tidelock" --url "local:$long" check k
printf '#!/bin/sh\necho "cannot start: no luck" >&2\nexit 1\n' >"$work/empty/redis-server"
chmod 755 "$work/empty/redis-server"
expect_line 69 'ended at once: cannot start: no luck' env PATH="$work/empty" "$tidelock" lock k
until_true 30 none_runs || fail "a server is left behind"
