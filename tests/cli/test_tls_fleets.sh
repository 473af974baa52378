#!/bin/bash
# rediss+sentinel:// and rediss+cluster://: each certificate must be for the host as it is announced, a name or an address, or for
# --tls-name; Sentinels and master have logins of their own. What is wrong is told in one whole line, by its status.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if "$tidelock" --url rediss://127.0.0.1:1 check k 2>&1 | grep -q 'not in this build'; then
    echo "this library is built without TLS" && exit 77
fi
command -v openssl >/dev/null || { echo "openssl is not installed (Debian: openssl)" && exit 77; }
needs_redis 7.0 "names that a cluster's nodes announce"
unset TIDELOCK_URL
cd "$work" || exit 1

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
signed() { # name, whom it is for
    openssl req "${new_key[@]}" -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" &&
        openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile <(echo "subjectAltName=$2") -out "$1.pem"
}
{
    openssl req -x509 "${new_key[@]}" -keyout ca.key -out ca.pem -subj /CN=ca -days 30 &&
        signed name DNS:localhost && signed address IP:127.0.0.1
} >openssl.log 2>&1 || fail "openssl: $(tail -n 3 openssl.log)"
export TIDELOCK_TLS_CA=$work/ca.pem

# A server that speaks TLS alone: its port comes into $port.
start_tls() { # directory, certificate, more options...
    local dir=$1 certificate=$2
    shift 2
    mkdir -p "$dir"
    claim_port
    port=$claimed
    printf '%s\n' "port 0" "tls-port $port" "bind 127.0.0.1" "dir $work/$dir" "tls-cert-file $work/$certificate.pem" \
        "tls-key-file $work/$certificate.key" "tls-ca-cert-file $work/ca.pem" "tls-auth-clients no" "tls-replication yes" \
        "$@" >"$dir/redis.conf"
    if [[ $dir == sentinel* ]]; then redis-server "$work/$dir/redis.conf" --sentinel >>"$dir/log" 2>&1 & else redis-server "$work/$dir/redis.conf" >>"$dir/log" 2>&1 & fi
    disown
    until_true 30 answers "$port" || depth=1 fail "no server: $(tail -n 3 "$dir/log")"
}
cli() { redis-cli --tls --cacert "$work/ca.pem" --insecure -p "$@" 2>/dev/null; } # port words...
answers() { [[ $(cli "$1" PING) =~ PONG|NOAUTH ]]; }
whole=', tls_server_name\)\)?$' # to its end

# ---- Sentinels --------------------------------------------------------------------------------------
sentinel_with() { # certificate, host of the master, its port, more options...
    local certificate=$1 host=$2 of=$3
    shift 3
    start_tls sentinel-"$certificate"-"$host" "$certificate" "requirepass spw" "$@" "sentinel monitor m $host $of 1" \
        "sentinel auth-pass m mpw"
}
start_tls by-name name "requirepass mpw" "masterauth mpw"
named=$port
start_tls by-address address "requirepass mpw" "masterauth mpw"
addressed=$port
sentinel_with name localhost "$named" "sentinel resolve-hostnames yes" "sentinel announce-hostnames yes"
a=$port
sentinel_with name 127.0.0.1 "$addressed"
b=$port
start_tls by-name-too name "requirepass mpw" "masterauth mpw" # two Sentinels of one master would hear of each other
other=$port
sentinel_with address 127.0.0.1 "$other"
c=$port
runs() { # URL options...
    depth=1 expect 0 "$tidelock" --url "$@" run -w 50s k -- true
}
export TIDELOCK_SENTINEL_PASSWORD=spw
runs rediss+sentinel://:mpw@localhost:"$a"/m
runs rediss+sentinel://:mpw@localhost:"$b"/m
mismatch='certificate is not accepted: (hostname|IP address) mismatch'
refused() { # pattern, URL options...
    local pattern=$1
    shift
    for c in "run -w 20s k -- true" "check k" inspect "unlock k t" skew; do
        # shellcheck disable=SC2086
        depth=1 expect_line 77 "$pattern" "$tidelock" --url "$@" $c
    done
}
of_c=rediss+sentinel://:mpw@127.0.0.1:$c/m
refused "127.0.0.1:$a: TLS.*$mismatch.*$whole" rediss+sentinel://:mpw@127.0.0.1:"$a"/m # the Sentinel's
refused "connect 127.0.0.1:$other: TLS.*$mismatch.*$whole" "$of_c"                     # the master's, as announced
runs rediss+sentinel://:mpw@127.0.0.1:"$a"/m --tls-name localhost                      # of both
refused "$mismatch" rediss+sentinel://:mpw@localhost:"$a"/m --tls-name redis.example
expect_from 2 "$tidelock" --url rediss+sentinel://:mpw@127.0.0.1:"$a"/m doctor
grep -A2 'sentinels: a Sentinel refuses the login' "$out" | grep -q 'fix: each certificate must be for the host' || fail "doctor: $(cat "$out")"

# Each side's login is its own.
unset TIDELOCK_SENTINEL_PASSWORD
refused "no majority .*localhost:$a: the Sentinel asks for a password" rediss+sentinel://:mpw@localhost:"$a"/m
export TIDELOCK_SENTINEL_PASSWORD=mpw
refused "no majority .*localhost:$a: login refused: WRONGPASS" rediss+sentinel://:mpw@localhost:"$a"/m
export TIDELOCK_SENTINEL_PASSWORD=spw
refused "localhost:$named: login refused: WRONGPASS" rediss+sentinel://:spw@localhost:"$a"/m
refused "localhost:$named: the server asks for a password" rediss+sentinel://localhost:"$a"/m
unset TIDELOCK_SENTINEL_PASSWORD

# ---- a cluster, of one node --------------------------------------------------------------------------
node_with() { # certificate, more options...
    local certificate=$1
    shift
    start_tls node-"$certificate-$#" "$certificate" "requirepass pw" "cluster-enabled yes" "tls-cluster yes" "$@"
    [[ $(cli "$port" -a pw CLUSTER ADDSLOTSRANGE 0 16383) == OK ]] || fail "no slots"
    ok() { cli "$port" -a pw CLUSTER INFO | grep -q 'cluster_state:ok'; }
    until_true 20 ok || fail "no cluster"
}
node_with name "cluster-announce-hostname localhost" "cluster-preferred-endpoint-type hostname"
runs rediss+cluster://:pw@localhost:"$port"
refused "$mismatch.*$whole" rediss+cluster://:pw@127.0.0.1:"$port"
runs rediss+cluster://:pw@127.0.0.1:"$port" --tls-name localhost
refused "localhost:$port: login refused: WRONGPASS" rediss+cluster://:no@localhost:"$port"
refused "localhost:$port: the server asks for a password" rediss+cluster://localhost:"$port"
node_with address
runs rediss+cluster://:pw@127.0.0.1:"$port"
