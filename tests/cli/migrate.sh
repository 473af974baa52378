# shellcheck shell=bash disable=SC2154
# What the tests of migrate share: playing clients by their records. Source it behind lib.sh.
register='tidelock:phase:{default}'
mkdir "$work/bin" # so that it can be waited for like any command
# What goes away by itself is waited for only where a test says so.
cat >"$work/bin/migrate" <<WRAPPER
#!/bin/sh
case "\$*" in
*"--wait "*) ;;
"advance"* | "rollback"*) set -- "\$@" --wait 0s ;;
esac
exec "$tidelock" migrate "\$@"
WRAPPER
chmod +x "$work/bin/migrate"
PATH=$work/bin:$PATH
server_us() { redis EVAL "local t = redis.call('TIME') return t[1] .. string.sub(1000000 + t[2], 2)" 0; }
server_ms() { echo $(($(server_us) / 1000)); }

# A client's record: id, epoch, phase, how long from now it lives at least (s; negative: it is gone), service.
# It has a lease of 1 s, so that nobody waits long for it.
client() {
    redis HSET "$register:clients" "$1" \
        "$2 $3 1000 $(($(server_us) + ($4 - 3) * 1000000)) 0.1.0 db1 4711 ${5:-nightly}" >/dev/null
}
no_clients() { redis DEL "$register:clients" >/dev/null; }
stamp() { redis SET "$1" $(($(server_ms) + $2)) >/dev/null; } # key, ends in ms
in_phase() { # phase epoch
    [[ $(redis HMGET "$register" phase epoch | tr '\n' ' ') == "$1 $2 " ]] ||
        depth=1 fail "register: $(redis HGETALL "$register" | tr '\n' ' ') instead of phase $1, epoch $2"
}
# As if the last change were long ago, so that nobody waits for its lease.
long_ago() { redis HSET "$register" since 1 >/dev/null; }
# From phase 0 to 3 and back, without anybody about.
set_phase() { redis HSET "$register" phase "$1" epoch "$2" since "${3:-1}" >/dev/null; }

# Refused in lines that each say what, who and what to do; the pattern is that of one of them.
expect_refused() { # pattern command...
    local pattern=$1
    shift
    depth=1 expect_from 77 "$@"
    [[ ! -s $out ]] || depth=1 fail "stdout is not empty: $(cat "$out")"
    ! grep -vE '^tidelock: migrate ([a-z]+: )?refused: .' "$err" >/dev/null || depth=1 fail "a line says something else"
    grep -qE -- "$pattern" "$err" || depth=1 fail "no line has '$pattern'"
}

# A step in the background is past its first look at everything: it waits, or watches. First: CONFIG RESETSTAT.
is_waiting() {
    local calls
    calls=$(redis INFO commandstats | sed -n 's/^cmdstat_eval:calls=\([0-9]*\).*/\1/p')
    ((${calls:-0} >= 2))
}

# A step behind a proxy that lets something happen in the middle of it: see migrate_proxy.py.
through() { # how, command...
    local status=0
    { "$python" "$here/tests/cli/migrate_proxy.py" "$socket" "$work/proxy.sock" "$1" & } 2>"$work/proxy.err"
    proxy=$!
    until_true 10 test -S "$work/proxy.sock" || depth=1 fail "no proxy: $(cat "$work/proxy.err")"
    shift
    case $1 in advance | rollback | init) set -- "$@" --yes ;; esac
    timeout $run_limit migrate "$@" --url "unix://$work/proxy.sock" >"$out" 2>"$err" </dev/null || status=$?
    kill $proxy
    wait $proxy 2>/dev/null
    rm "$work/proxy.sock"
    return $status
}
