#!/bin/bash
# A clock that is further off than --clock-skew-max: a warning, a refusal, or nothing, as --clock-guard says;
# and so what `tidelock skew --publish` has found of a namespace's clocks.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
"$tidelock" run --help-all | grep -q -e --protocol || { echo "this build has no compat" && exit 77; }
faketime=
for f in /usr/lib/faketime/libfaketime.so.1 /usr/lib/*-linux-gnu*/faketime/libfaketime.so.1; do
    if [[ -e $f ]]; then faketime=$f; fi
done
[[ -n $faketime ]] || { echo "libfaketime is not installed (Debian: libfaketime)" && exit 77; }
# A sanitizer wants to be first in a process, and so does libfaketime.
[[ -z ${SAN:-} ]] || { echo "not under a sanitizer" && exit 77; }
start_server
shifted=(env LD_PRELOAD="$faketime" FAKETIME_DONT_FAKE_MONOTONIC=1)

# So far off that it is known to be, however long an answer takes. Not auto: its client says good-bye to the server with
# the help of a timer, which libfaketime sets wrong.
for protocol in bridge timestamp; do
    expect 0 "${shifted[@]}" FAKETIME=+40s "$tidelock" run --protocol $protocol job -- true
    grep -q 'warning: this host.s clock is at least [0-9]* ms ahead of the server.s; clock_skew_max is 1000 ms' "$err" ||
        fail "no warning: $(cat "$err")"
    [[ $(wc -l <"$err") == 1 ]] || fail "more than a line: $(cat "$err")"
    expect_line 77 'at least [0-9]* ms behind the server.s' \
        "${shifted[@]}" FAKETIME=-40s "$tidelock" run --protocol $protocol --clock-guard refuse job -- false
    expect 77 "${shifted[@]}" FAKETIME=+40s "$tidelock" lock --protocol $protocol --clock-guard refuse job
    assert_free job
    expect 0 "${shifted[@]}" FAKETIME=+40s "$tidelock" run --protocol $protocol --clock-guard off job -- true
    [[ ! -s $err ]] || fail "$(cat "$err")"
    expect 0 "${shifted[@]}" FAKETIME=+2s "$tidelock" run --protocol $protocol --clock-guard refuse --clock-skew-max 4s job -- true
done
expect 0 "${shifted[@]}" FAKETIME=+40s "$tidelock" run job -- true
[[ ! -s $err ]] || fail "a token needs no clock: $(cat "$err")"

# What has been published counts where stamps are written, and while it is fresh.
ns='{default}' soon=$(($(now_ms) * 1000 + 3600000000))
redis HSET "tidelock:skew:$ns" verdict UNSAFE worst_ms 1350 until $soon >/dev/null
expect_line 77 'clocks of namespace default are up to 1350 ms apart' \
    "$tidelock" run --protocol auto --clock-guard refuse job -- false
expect 0 "$tidelock" run --protocol bridge --clock-guard refuse job -- true
redis HSET "tidelock:phase:$ns" phase 2 epoch 1 lease_ms 30000 since 1 keys job >/dev/null
expect 0 "$tidelock" run --protocol auto --clock-guard refuse job -- true
redis HSET "tidelock:phase:$ns" phase 1 epoch 2 >/dev/null
redis HSET "tidelock:skew:$ns" until 1 >/dev/null
expect 0 "$tidelock" run --protocol auto --clock-guard refuse job -- true
redis HSET "tidelock:skew:$ns" until $soon verdict WARN >/dev/null
expect 0 "$tidelock" run --protocol auto --clock-guard refuse job -- true
[[ ! -s $err ]] || fail "$(cat "$err")"

# What can't be read is advice still: it stops those alone who asked to be stopped. An UNSAFE stays one, by whatever number.
unreadable() { # the warning
    expect 0 "$tidelock" run --protocol auto --clock-guard off job -- true
    [[ ! -s $err ]] || depth=1 fail "$(cat "$err")"
    expect 0 "$tidelock" run --protocol auto job -- true
    grep -q "warning: .*$1" "$err" || depth=1 fail "no warning: $(cat "$err")"
    expect_line 77 "$1" "$tidelock" run --protocol auto --clock-guard refuse job -- false
}
for worst_ms in inf nan '' abc; do
    redis HSET "tidelock:skew:$ns" until 99999999999999999 verdict UNSAFE worst_ms "$worst_ms" >/dev/null
    unreadable 'clocks of namespace default are too far apart: UNSAFE'
done
redis HSET "tidelock:skew:$ns" until abc worst_ms 5 >/dev/null
unreadable 'up to 5 ms apart'
for make in 'SET x' 'RPUSH x' 'SADD x'; do
    redis DEL "tidelock:skew:$ns" >/dev/null
    redis "${make% x}" "tidelock:skew:$ns" x >/dev/null
    unreadable "can.t be read: delete the key tidelock:skew:{default}"
done
redis DEL "tidelock:skew:$ns" >/dev/null

# The register itself is no advice: what it says is read by one strict rule, by clients and by the command.
for field in 'phase 2.9' 'phase 0x1' 'epoch 1e3' 'lease_ms -0' 'since x' 'keys '; do
    redis HSET "tidelock:phase:$ns" phase 1 epoch 2 lease_ms 30000 since 1 keys job "${field% *}" "${field#* }" >/dev/null
    expect 70 "$tidelock" run --protocol auto job -- false
    grep -q 'its register can.t be read' "$err" || fail "$field: $(cat "$err")"
    expect 77 "$tidelock" migrate advance --yes
    grep -q 'can.t be read' "$err" || fail "$field: $(cat "$err")"
done
expect 64 "$tidelock" run --protocol auto --clock-guard maybe job -- true
expect 64 "$tidelock" run --protocol bridge --namespace x job -- true
expect 64 "$tidelock" run --protocol auto --namespace 'a b' job -- true
expect_line 64 "'x' is named twice" "$tidelock" run --protocol auto --namespace 'cron:*=x,jobs:*=x' jobs:1 -- true
