#!/bin/bash
# bench: what it tells with each kind of URL, that it ends in its time, and that it leaves no key behind but the counter
# of fencing numbers, which every lock of that slot has in common.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
has() { # Python expression of j
    "$python" -c 'import json, sys; j = json.loads(open(sys.argv[1]).read()); sys.exit(not eval(sys.argv[2]))' "$out" "$1" 2>/dev/null ||
        depth=1 fail "not $1: $(cat "$out")"
}
measured() {
    has 'j["pairs_per_second"] > 0 and all(j[k]["count"] > 0 and 0 < j[k]["p50"] <= j[k]["p99"] for k in
        ("round_trip_us", "pair_us", "renewal_us", "hand_off_us"))'
    has 'j["client_us_per_pair"] >= 0 and j["waiting_us_per_pair"] > 0'
    [[ ! -s $err ]] || depth=1 fail "it says something"
}
left() { redis KEYS '*' | grep -v '^tidelock:fence:' | sort | tr '\n' ' '; }

# ---- usage -------------------------------------------------------------------------------------
expect_line 64 'seconds' "$tidelock" bench --seconds 0
expect_line 64 'seconds' "$tidelock" bench --seconds 601
expect_line 64 'too many' "$tidelock" bench k
expect_line 69 '^tidelock: bench: .*no such file' "$tidelock" --url "unix://$work/none" bench
expect_line 69 '^tidelock: bench: .*refused' "$tidelock" --url redis://127.0.0.1:1 bench

# ---- one server ----------------------------------------------------------------------------------
start_server
redis SET mine kept >/dev/null
begun=$(now_ms)
expect 0 "$tidelock" bench --seconds 2
took=$(($(now_ms) - begun))
((took >= 1500 && took < 60000 * slow)) || fail "it took $took ms instead of 2 s"
[[ $(wc -l <"$out") == 6 && ! -s $err ]] || fail "it says: $(cat "$out")"
for what in 'round trip' pair renewal hand-off; do
    grep -qE "^$what +[0-9.]+ us  \(99 % within [0-9.]+ us, [0-9]+ times\)$" "$out" || fail "no $what: $(cat "$out")"
done
grep -qE '^pairs +[0-9]+ a second, [0-9.]+ of what a bare hiredis loop does \([0-9]+\)$' "$out" || fail "no pairs: $(cat "$out")"
grep -qE '^The limit is .*\.$' "$out" || fail "no limit: $(cat "$out")"
[[ $(left) == 'mine ' ]] || fail "it leaves: $(left)"
if [[ -w /dev/full ]]; then
    for o in '' --json; do
        # shellcheck disable=SC2086
        "$tidelock" bench --seconds 1 $o >/dev/full 2>"$err"
        [[ $? == 70 && $(<"$err") == "tidelock: bench: standard output: No space left on device" ]] || fail "$o into a full device: $(cat "$err")"
    done
fi
expect 0 "$tidelock" bench --seconds 1 --json
measured
has 'abs(j["share_of_bare"] - j["pairs_per_second"] / j["bare_pairs_per_second"]) < 1e-6'
has 'j["server_us_per_pair"] > 0 and j["limit"] in ("client", "server", "network")'

# By TCP, with a password and a database.
open_port
redis CONFIG SET requirepass secret >/dev/null
expect 0 "$tidelock" --url "redis://:secret@127.0.0.1:$port/3" bench --seconds 1 --format json
measured
has 'j["share_of_bare"] > 0'
if grep -q secret "$out" "$err"; then fail "a secret is shown"; fi
redis -a secret CONFIG SET requirepass '' >/dev/null
[[ $(redis DBSIZE) == 2 && $(redis -n 3 KEYS '*' | grep -vc '^tidelock:fence:') == 0 ]] || fail "it leaves: $(redis -n 3 KEYS '*')"

# Ended half-way, it gives back what it holds.
for after in 0.3 1.5 2.8 3.6; do # in the middle of each measurement
    for try in {1..20}; do       # until it is told before it is over
        { "$tidelock" bench --seconds 4 & } >"$out" 2>"$err"
        pid=$!
        nap $after || :
        kill -TERM $pid
        wait_for $pid 10 2>/dev/null
        [[ $status == 0 && -s $out && $try -lt 20 ]] || break
    done
    [[ $status == 143 && ! -s $out && ! -s $err ]] || fail "status $status after TERM: $(cat "$out")"
    [[ $(left) == 'mine ' ]] || fail "after TERM it leaves: $(left)"
done
[[ $(redis GET mine) == kept ]] || fail "it touched another's key"

# Nor does a server that doesn't answer hold it up for long, and the signal is what ended it.
measures() { redis INFO commandstats | grep -qE '^cmdstat_time:calls=[0-9]{3}'; }
for try in {1..20}; do # until it is told before it has found that out by itself, after 2 s
    redis CONFIG RESETSTAT >/dev/null
    { "$tidelock" bench --seconds 600 & } >"$out" 2>"$err"
    pid=$!
    until_true 20 measures || fail "it asks for nothing"
    stop_server STOP
    nap 0.3 || :
    kill -TERM $pid
    wait_for $pid 20 2>/dev/null
    kill -CONT "$server_pid"
    [[ $status == 69 && $try -lt 20 ]] || break
done
[[ $status == 143 && ! -s $out && ! -s $err ]] || fail "status $status after TERM, without an answer: $(cat "$out" "$err")"

# Who may not run scripts hears that in a line.
redis ACL SETUSER poor on '>pw' '~*' '&*' +@all -@scripting >/dev/null
if [[ $(redis ACL WHOAMI) == default ]]; then
    expect_line 77 'permission' "$tidelock" --url "redis://poor:pw@127.0.0.1:$port" bench --seconds 1
fi
stop_server

# The members of an etcd on a busy machine elect another leader now and then, in the middle of it.
benched() {
    "$tidelock" --url "$url" bench --seconds 2 --json >"$out" 2>"$err" </dev/null
    local got=$?
    [[ $kind != etcd || $got != 69 ]]
}

# ---- the other kinds -----------------------------------------------------------------------------------
expect 0 "$tidelock" --url "local:$work/private" bench --seconds 1 --json
measured
has 'j["share_of_bare"] > 0'
TIDELOCK_URL=local:$work/private "$tidelock" local stop >/dev/null 2>&1
for kind in sentinel cluster quorum etcd; do
    if [[ $kind == etcd ]] && ! command -v etcd >/dev/null; then part_skipped etcd "there is no etcd (Debian: etcd-server)" && continue; fi
    url=$(demo $kind 2>"$err") || fail "no $kind: $(cat "$err")"
    keep_masters "$url"
    until_true 40 benched || fail "$kind"
    measured
    if [[ $kind == sentinel ]]; then
        has 'j["share_of_bare"] > 0'
    else
        has 'j["share_of_bare"] is None and j["bare_pairs_per_second"] is None and j["limit"] in ("client", "waiting")'
    fi
    demo stop >/dev/null 2>&1
done
