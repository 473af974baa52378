# shellcheck shell=bash
# For peers at an etcd: a member of one's own, who stands at a lock, and the contest there, whose counter is in a file.
# shellcheck disable=SC2154
ETCD_TIDELOCKS=3 ETCD_TURNS=10
file=$work/counter

ctl() { etcdctl --endpoints "127.0.0.1:$port" "$@" 2>/dev/null; }
etcd_answers() { ctl endpoint health >/dev/null; }
start_etcd() {
    local i peer
    for ((i = 0; i < 20; i++)); do
        port=$((20000 + RANDOM % 10000)) peer=$((30000 + RANDOM % 2000))
        { ETCD_UNSUPPORTED_ARCH=arm64 "${dies_with_us[@]}" etcd --name m0 --data-dir "$work/etcd$i" --logger zap \
            --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
            --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
            --initial-cluster "m0=http://127.0.0.1:$peer" & } >"$work/etcd.log" 2>&1
        server_pid=$!
        disown
        until_true 20 etcd_answers_or_gone
        if ! gone "$server_pid" && etcd_answers; then
            export TIDELOCK_URL=etcd://127.0.0.1:$port
            return
        fi
    done
    fail "etcd did not start: $(tail -n 3 "$work/etcd.log")"
}
etcd_answers_or_gone() { gone "$server_pid" || etcd_answers; }

# The keys below the lock's, the holder's first.
contenders() { ctl get --prefix "$1/" --keys-only --sort-by=CREATE --order=ASCEND | grep .; }
stand_there() { [[ $(contenders "$1" | wc -l) == "$2" ]]; }

etcd_tidelock_counts() { # key
    local i
    for ((i = 0; i < ETCD_TURNS; i++)); do
        timeout --foreground -k 5 $CONTEST_S "$tidelock" run -w ${CONTEST_S}s "$1" -- "$interop/section_file.sh" "$file" || return
    done
}
etcd_peer_counts() { # key program
    local said
    said=$(timeout --foreground -k 5 $CONTEST_S "$2" "$port" <<<"count $1 60000 $ETCD_TURNS $file" | tail -n 1)
    [[ $said == "ok $ETCD_TURNS" ]] || { echo "${2##*/} ended or was too slow, having said: $said" && return 1; }
}
etcd_contest() { # key program...
    local key=$1 turns=$((ETCD_TIDELOCKS * ETCD_TURNS)) pids=() broken=0 i pid program
    shift
    echo 0 >"$file"
    for ((i = 0; i < ETCD_TIDELOCKS; i++)); do
        etcd_tidelock_counts "$key" >/dev/null &
        pids+=($!)
    done
    for program; do
        for ((i = 0; i < EACH_PEER; i++)); do
            etcd_peer_counts "$key" "$program" &
            pids+=($!)
        done
        turns=$((turns + EACH_PEER * ETCD_TURNS))
    done
    for pid in "${pids[@]}"; do wait "$pid" || broken=1; done
    ((!broken)) || fail "not everyone had its turns"
    [[ ! -e $file.overlaps ]] || fail "two held the lock at once"
    [[ $(<"$file") == "$turns" ]] || fail "the counter is $(<"$file") after $turns turns"
}
