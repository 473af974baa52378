# shellcheck shell=bash
# What run.sh and the promises share: a private server with a port, and the contest, in which
# tidelock's processes and peers' processes increment a counter by GET and SET under one lock.
# shellcheck source-path=SCRIPTDIR
source "${BASH_SOURCE[0]%/*}/../cli/lib.sh"
interop=$here/tests/interop
TIDELOCKS=4 TIDELOCK_TURNS=10
EACH_PEER=2 PEER_TURNS=25
CONTEST_S=30
CONTEST_TTL_MS=90000 # longer than the contest may take: peers don't renew
protocol=()          # more options of tidelock in the contest

# Says the line of the promise that led here, however deep.
fail() {
    local i=1
    while [[ $i -lt ${#FUNCNAME[@]} && ${FUNCNAME[i]} != one_promise ]]; do i=$((i + 1)); done
    echo "line ${BASH_LINENO[i - 2]}: $*"
    if [[ -s $err ]]; then sed 's/^/  stderr: /' "$err"; fi
    exit 1
}

# ---- server -----------------------------------------------------------------------------------
port=
dies_with_us=(setpriv --pdeathsig KILL)
command -v setpriv >/dev/null || dies_with_us=()

# A port that is taken ends the server, and another is tried.
start_tcp_server() {
    local i
    for ((i = 0; i < 20; i++)); do
        port=$((20000 + RANDOM % 10000))
        { "${dies_with_us[@]}" redis-server --bind 127.0.0.1 --port $port --unixsocket "$socket" --dir "$work" \
            --save '' --appendonly no --loglevel warning & } >"$work/server.log" 2>&1
        server_pid=$!
        disown
        until_true 10 answers_or_gone
        if server_answers; then
            export TIDELOCK_URL=redis://127.0.0.1:$port
            return
        fi
    done
    fail "redis-server did not start: $(tail -n 3 "$work/server.log")"
}
answers_or_gone() { server_answers || gone "$server_pid"; }

# ---- contest ----------------------------------------------------------------------------------
tidelock_counts() { # key
    local i end=$((SECONDS + CONTEST_S))
    for ((i = 0; i < TIDELOCK_TURNS; i++)); do
        ((SECONDS < end)) || return
        timeout --foreground -k 5 $CONTEST_S "$tidelock" run "${protocol[@]}" -t ${CONTEST_TTL_MS}ms "$1" -- "$interop/section.sh" "$socket" || return
        sleep 0.$((100 + RANDOM % 100)) # else a release's announcement hands the lock from tidelock to tidelock
    done
}
peer_counts() { # key program
    local said
    said=$(timeout --foreground -k 5 $CONTEST_S "$2" "$port" <<<"count $1 $CONTEST_TTL_MS $PEER_TURNS" | tail -n 1)
    [[ $said == "ok $PEER_TURNS" ]] || { echo "${2##*/} ended or was too slow, having said: $said" && return 1; }
}

contest() { # key program...
    local key=$1 turns=$((TIDELOCKS * TIDELOCK_TURNS)) pids=() broken=0 i pid program
    shift
    for ((i = 0; i < TIDELOCKS; i++)); do
        tidelock_counts "$key" >/dev/null &
        pids+=($!)
    done
    for program; do
        for ((i = 0; i < EACH_PEER; i++)); do
            peer_counts "$key" "$program" &
            pids+=($!)
        done
        turns=$((turns + EACH_PEER * PEER_TURNS))
    done
    for pid in "${pids[@]}"; do wait "$pid" || broken=1; done
    ((!broken)) || fail "not everyone had its turns"
    [[ -z $(redis GET interop:overlaps) ]] || fail "two held the lock at once"
    [[ $(redis GET interop:counter) == "$turns" ]] || fail "the counter is $(redis GET interop:counter) after $turns turns"
    [[ $(redis GET interop:inside) == 0 ]] || fail "somebody did not leave"
}
