#!/bin/bash
# rediss:// against a real server: whose certificate is believed, our own, and what is said when one is
# missing or no good.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
plain=unix:///nowhere
# What would protect nothing is refused, with TLS in the build or without.
for o in --tls-ca --tls-cert --tls-key --tls-name; do
    expect_line 64 "$o: only with a URL that begins with rediss://" "$tidelock" --url "$plain" "$o" x check k
done
if "$tidelock" --url rediss://127.0.0.1:1 check k 2>&1 | grep -q 'not in this build'; then
    expect_line 64 'rediss: .TLS. is not in this build.*libssl-dev' "$tidelock" --url rediss://127.0.0.1 check k
    exit 0
fi
command -v openssl >/dev/null || { echo "openssl is not installed (Debian: openssl)" && exit 77; }

# ---- certificates: an authority's, for the server and for a client; and one of nobody's ---------
cd "$work" || exit 1
new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
self_signed() { openssl req -x509 "${new_key[@]}" -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 30; }
signed() { # name, extension
    openssl req "${new_key[@]}" -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" &&
        openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile <(echo "$2") -out "$1.pem"
}
{
    self_signed ca && self_signed nobody &&
        signed server 'subjectAltName=DNS:redis.example,IP:127.0.0.1' &&
        signed named 'subjectAltName=DNS:redis.example' &&
        signed client 'extendedKeyUsage=clientAuth' &&
        openssl ec -in client.key -aes128 -passout pass:hunter2 -out locked.key
} >openssl.log 2>&1 || fail "openssl: $(tail -n 3 openssl.log)"

start_server --tls-cert-file server.pem --tls-key-file server.key --tls-ca-cert-file ca.pem --tls-auth-clients no
open_tls_port() {
    claim_port
    port=$claimed
    [[ $(redis CONFIG SET tls-port "$port") == OK ]] || depth=1 fail "no port for TLS: is the server built with it?"
}
open_tls_port
unset TIDELOCK_URL
url=rediss://127.0.0.1:$port

# ---- a port without TLS ----------------------------------------------------------------------
open_port
"$tidelock" --url "rediss://127.0.0.1:$port" check k >"$out" 2>"$err" && fail "a server without TLS is spoken to"
grep -q 'TLS.* (a port without TLS? begin the URL with redis:// or etcd://)$' "$err" || fail "it doesn't say that the port is without TLS"
port=${url##*:}

# ---- the server's ----------------------------------------------------------------------------
expect 0 "$tidelock" --url "$url" --tls-ca ca.pem run k -- true
expect 0 "$tidelock" run --url "$url" --tls-ca ca.pem k -- true # after the command, too
TIDELOCK_TLS_CA=ca.pem expect 0 "$tidelock" --url "$url" run k -- true
TIDELOCK_TLS_CA=ca.pem TIDELOCK_URL=$url expect 0 "$tidelock" run k -- true
TIDELOCK_TLS_CA=nobody.pem expect 0 "$tidelock" --url "$url" --tls-ca ca.pem run k -- true # what is typed counts
TIDELOCK_TLS_CA=none.pem expect 0 "$tidelock" --url "unix://$socket" run k -- true         # not of this URL
expect_line 77 'certificate is not accepted: .*--tls-ca' "$tidelock" --url "$url" -- run -w 10s k -- true
expect_line 77 'certificate is not accepted' "$tidelock" --url "$url" --tls-ca nobody.pem run -w 10s k -- true
redis CONFIG SET tls-cert-file named.pem tls-key-file named.key >/dev/null
expect_line 77 'IP address mismatch .*--tls-name' "$tidelock" --url "$url" --tls-ca ca.pem check k
expect 0 "$tidelock" --url "$url" --tls-ca ca.pem --tls-name redis.example run k -- true
TIDELOCK_TLS_NAME=redis.example expect 0 "$tidelock" --url "$url" --tls-ca ca.pem run k -- true
redis CONFIG SET tls-cert-file server.pem tls-key-file server.key >/dev/null

# ---- ours ------------------------------------------------------------------------------------
for version in TLSv1.2 TLSv1.3; do
    redis CONFIG SET tls-auth-clients yes tls-protocols $version >/dev/null
    # At once, not at the limit of the wait.
    for c in "run -w 1h k -- true" "run --forever k -- true" "lock -w 1h k" "check k" inspect; do
        # shellcheck disable=SC2086
        expect_line 77 'the server asks for a client certificate: give --tls-cert and --tls-key' \
            "$tidelock" --url "$url" --tls-ca ca.pem $c
    done
    for c in doctor skew 'migrate status'; do
        # shellcheck disable=SC2086
        expect_from 77 "$tidelock" --url "$url" --tls-ca ca.pem $c
        grep -q 'asks for a client certificate' "$err" "$out" || fail "$c does not say it"
    done
    for c in "run k -- true" "lock $version --ttl 1m" "check $version" "inspect" "migrate status"; do
        # shellcheck disable=SC2086
        "$tidelock" --url "$url" --tls-ca ca.pem --tls-cert client.pem --tls-key client.key $c >"$out" 2>"$err" ||
            [[ $c == check* || $c == migrate* ]] || fail "$version: $c"
        ! grep -q TLS "$err" || fail "$version: $c"
    done
    TIDELOCK_TLS_CERT=client.pem TIDELOCK_TLS_KEY=client.key expect 0 "$tidelock" --url "$url" --tls-ca ca.pem run k -- true
    expect_line 77 'does not accept the certificate in nobody.pem' \
        "$tidelock" --url "$url" --tls-ca ca.pem --tls-cert nobody.pem --tls-key nobody.key run -w 1h k -- true
done

# ---- what is no good -------------------------------------------------------------------------
ours=("$tidelock" --url "$url" --tls-ca ca.pem)
expect_line 64 '--tls-cert .*requires --tls-key' "${ours[@]}" --tls-cert client.pem check k
expect_line 64 '--tls-key .*requires --tls-cert' "${ours[@]}" --tls-key client.key check k
TIDELOCK_TLS_CERT=client.pem expect_line 78 'TIDELOCK_TLS_CERT.*requires --tls-key' "${ours[@]}" check k
expect_line 78 '--tls-ca none.pem: No such file' "$tidelock" --url "$url" --tls-ca none.pem check k
expect_line 78 '--tls-key none.key: No such file' "${ours[@]}" --tls-cert client.pem --tls-key none.key check k
expect_line 64 'no authorities in openssl.log' "$tidelock" --url "$url" --tls-ca openssl.log check k
expect_line 64 'no certificate in client.key' "${ours[@]}" --tls-cert client.key --tls-key client.key check k
expect_line 64 'no key for the certificate in nobody.key' "${ours[@]}" --tls-cert client.pem --tls-key nobody.key check k
expect_line 64 'the key in locked.key has a passphrase' "${ours[@]}" --tls-cert client.pem --tls-key locked.key check k
expect_line 78 'tls_server_name' "${ours[@]}" --tls-name 'a b' check k
