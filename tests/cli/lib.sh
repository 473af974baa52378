# shellcheck shell=bash
# What the tests of the command share: a private server, runs with their status and output, and
# waits that have a bound. Source it first. A test is silent unless it fails.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tidelock=${TIDELOCK:-$here/${BUILD:-build}/tidelock}
[[ $tidelock == /* ]] || tidelock=$here/$tidelock
python=$(PATH=/usr/bin:/bin:$PATH command -v python3)
tmp=${TMPDIR:-/tmp}
((${#tmp} < 70)) || tmp=/tmp # the path of a socket is short
work=$(mktemp -d "$tmp/tidelock-test.XXXXXX")
out=$work/out err=$work/err
server_pid=
unset TIDELOCK_PASSWORD TIDELOCK_HELD
export TIDELOCK_URL=local:$work/tidelock # whoever forgets the URL meets a server of the test's own

# Sanitizers make everything slower: limits on time grow with this.
slow=1
if [[ -n ${SAN:-} ]]; then slow=4; fi

clean_up() {
    local pid
    exec 2>/dev/null
    if [[ -n $server_pid ]]; then kill -KILL "$server_pid" 2>/dev/null; fi
    for pid in $(local_servers); do kill -KILL "$pid" 2>/dev/null; done
    for pid in $(jobs -p); do
        kill -CONT "$pid" 2>/dev/null
        kill -KILL "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

fail() {
    echo "$(basename "$0"): line ${BASH_LINENO[${depth:-0}]}: $*"
    if [[ -s $err ]]; then sed 's/^/  stderr: /' "$err"; fi
    exit 1
}

# Else a function that doesn't exist would assert nothing.
command_not_found_handle() {
    echo "$(basename "$0"): line ${BASH_LINENO[0]}: no command '$1'"
    kill -TERM $$
    return 127
}

# What can't be shown here, while the rest of the file can: counted as a skip of its own.
part_skipped() { # what why
    printf 'SKIP: %s\n[  SKIPPED ] %s\n' "$2" "$1"
}

# Skip all that follows unless redis-server is of this version of Redis. (Valkey is of 7.2.)
needs_redis() { # version why
    local version
    version=$(redis-server --version | sed -n 's/^Redis .*v=\([0-9.]*\).*/\1/p')
    [[ $(printf '%s\n' "$1" "${version:-7.2}" | sort -V | head -n 1) == "$1" ]] || { echo "Redis $version lacks $2: Redis $1" && exit 77; }
}

# ---- server -----------------------------------------------------------------------------------
socket=$work/redis.sock
redis() { redis-cli -s "$socket" "$@" 2>/dev/null; }

start_server() { # more options of redis-server
    redis-server --port 0 --unixsocket "$socket" --dir "$work" --save '' --appendonly no \
        --loglevel warning "$@" >>"$work/server.log" 2>&1 &
    server_pid=$!
    disown
    until_true 30 server_answers || {
        cat "$work/server.log"
        fail "redis-server did not start"
    }
    export TIDELOCK_URL=unix://$socket
}
# Whatever it wants of its clients, it is at work: neither loading nor in a script.
server_answers() {
    local said
    said=$(redis PING)
    [[ -n $said && $said != LOADING* && $said != BUSY* ]]
}

# A port of 127.0.0.1 that is this test's until it ends, into $claimed; tests/lib/ports.h tells why and how. 10000 above it, where
# the bus of a cluster's node may be, nothing listens either.
claim_port() {
    local dir=/tmp/tidelock-ports-$UID descriptor
    mkdir -p "$dir"
    for _ in {1..1000}; do
        claimed=$((12800 + (RANDOM * 32768 + RANDOM) % 7200))
        exec {descriptor}>"$dir/$claimed"
        if flock -n "$descriptor" && nothing_listens "$claimed" && nothing_listens $((claimed + 10000)); then return; fi
        exec {descriptor}>&-
    done
    depth=1 fail "no port is free"
}
nothing_listens() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The server of start_server listens on a port of 127.0.0.1 too, which comes into $port.
open_port() {
    claim_port
    port=$claimed
    [[ $(redis CONFIG SET port "$port") == OK ]] || depth=1 fail "the server can't listen on port $port"
}

stop_server() { # a signal, KILL unless told otherwise
    kill "-${1:-KILL}" "$server_pid"
    if [[ ${1:-KILL} == KILL ]]; then
        until_true 10 gone "$server_pid"
        server_pid=
    fi
}

# The servers of local: in our directory, whoever started them.
local_servers() {
    find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$work/*" 2>/dev/null | cut -d/ -f3
}

# The servers of a demo, by their ports. Nobody takes over because the machine is busy.
ports_of() { grep -oE '127\.0\.0\.1:[0-9]+' <<<"$1" | cut -d: -f2; } # URL
keep_masters() {                                                       # URL of a cluster's nodes or of Sentinels, whose set is "demo"
    local p
    for p in $(ports_of "$1"); do
        case $1 in
            redis+cluster:*) redis-cli -p "$p" CONFIG SET cluster-node-timeout 60000 ;;
            redis+sentinel:*) redis-cli -p "$p" SENTINEL SET demo down-after-milliseconds 60000 ;;
        esac
    done >/dev/null 2>&1
}

# ---- time -------------------------------------------------------------------------------------
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# A pause without a process: nothing ever comes on this descriptor.
exec {nothing}<> <(:)
nap() { read -rt "$1" -u "$nothing" _; }

# Until the command succeeds, which is looked at less and less often; fails after so many seconds, and no sooner than a minute:
# only what never comes may be waited for so long, however busy the machine is.
until_true() { # seconds command...
    local end=$((SECONDS + ($1 > 60 ? $1 : 60) * slow + 1)) hundredths=1
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        nap "0.0$hundredths" || :
        ((hundredths >= 5)) || hundredths=$((hundredths + 1))
    done
}

# What was started in the background, with its status in $status.
wait_for() { # pid seconds
    until_true "$2" gone "$1" || depth=1 fail "process $1 still runs after $2 s"
    wait "$1"
    status=$?
}
# With all its threads: until the last has ended, a server's socket is there.
gone() {
    local threads=("/proc/$1/task/"*)
    ! kill -0 "$1" 2>/dev/null || { ((${#threads[@]} == 1)) && grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
}

has_file() { [[ -s $1 ]]; }
wait_file() { until_true "${2:-10}" has_file "$1" || depth=1 fail "nothing came into ${1##*/}"; }
# A lock is free when its key is gone.
is_free() { [[ $(redis EXISTS "$1") == 0 ]]; }
is_held() { [[ $(redis EXISTS "$1") == 1 ]]; }
assert_free() { is_free "$1" || depth=1 fail "$1 is still held"; }
assert_held() { is_held "$1" || depth=1 fail "$1 is not held"; }

# ---- runs -------------------------------------------------------------------------------------
# Run and compare the exit status; output in $out and $err. Only what hangs takes two minutes.
run_limit=$((120 * slow))
expect() { # status command...
    local want=$1 got
    shift
    timeout -k 5 $run_limit "$@" >"$out" 2>"$err" </dev/null
    got=$?
    [[ $got == "$want" ]] || depth=1 fail "status $got instead of $want: ${*:0:8}"
}

# A refusal is one line on stderr that begins with the tool's name, and nothing on stdout.
expect_line() { # status pattern command...
    local want=$1 pattern=$2 lines
    shift 2
    depth=1 expect_from "$want" "$@"
    lines=$(wc -l <"$err")
    [[ $lines == 1 ]] || depth=1 fail "$lines lines instead of one: ${*:0:8}"
    [[ ! -s $out ]] || depth=1 fail "stdout is not empty: ${*:0:8}"
    grep -qE "^tidelock: " "$err" || depth=1 fail "the line does not say who speaks: ${*:0:8}"
    grep -qE -- "$pattern" "$err" || depth=1 fail "the line lacks '$pattern': ${*:0:8}"
}
expect_from() {
    local want=$1 got
    shift
    timeout -k 5 $run_limit "$@" >"$out" 2>"$err" </dev/null
    got=$?
    [[ $got == "$want" ]] || depth=2 fail "status $got instead of $want: ${*:0:8}; it printed: $(head -c 600 "$out")"
}

# The line of JSON in a file has a member with this value, as Python shows it.
json_has() { # file member value
    local got
    got=$("$python" -c 'import json, sys; print(json.loads(open(sys.argv[1]).read())[sys.argv[2]])' "$1" "$2" 2>&1) ||
        depth=1 fail "no JSON with $2: $(head -c 300 "$1")"
    [[ $got == "$3" ]] || depth=1 fail "$2 is $got instead of $3"
}
