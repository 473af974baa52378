#!/bin/bash
# run, the everyday: exit statuses, what the command sees, and the JSON line.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# ---- exit statuses ----------------------------------------------------------------------------
expect 0 "$tidelock" run k -- true
assert_free k
expect 1 "$tidelock" run k -- false
assert_free k
for n in 2 42 74 255; do expect $n "$tidelock" run k -- sh -c "exit $n"; done
for s in TERM:143 KILL:137 INT:130 ABRT:134; do
    expect ${s#*:} "$tidelock" run k -- sh -c "ulimit -c 0; kill -${s%:*} \$\$"
    assert_free k
done
expect_line 127 'no-such-command.*No such file' "$tidelock" run k -- no-such-command
assert_free k
expect_line 127 'No such file' "$tidelock" run k -- "$work/no-such-file"
if ! type -P cd >/dev/null; then # some systems have a program of that name
    expect_line 127 "^tidelock: cd: No such file or directory; it is a shell builtin: sh -c 'cd /'\$" "$tidelock" run k -- cd /
fi
expect_line 127 "; if it is a shell command: sh -c 'sleep 5'\$" "$tidelock" run k -- 'sleep 5'
expect_line 127 'no-such-command: No such file or directory$' "$tidelock" run k -- no-such-command
echo 'echo hello' >"$work/plain"
expect_line 126 'Permission denied' "$tidelock" run k -- "$work/plain"
expect_line 126 'Permission denied' "$tidelock" run k -- "$work"
assert_free k
# Nothing is said when all is well.
expect 0 "$tidelock" run k -- true
[[ ! -s $out && ! -s $err ]] || fail "a quiet run says something"
expect 0 "$tidelock" run -v k -- true
grep -qE '^tidelock: k: acquired \(fence [0-9]+\) after ' "$err" || fail "-v does not say that the lock is had"
grep -q '^tidelock: k: released' "$err" || fail "-v does not say that the lock is released"

# ---- what the command sees --------------------------------------------------------------------
expect 0 "$tidelock" run -t 70s 'jobs:nightly' -- sh -c 'env; redis-cli -s "$1" GET jobs:nightly' sh "$socket"
for line in TIDELOCK_KEY=jobs:nightly TIDELOCK_TTL_MS=70000; do
    grep -qx "$line" "$out" || fail "the command does not see $line"
done
token=$(sed -n 's/^TIDELOCK_TOKEN=//p' "$out")
[[ -n $token && $(tail -n 1 "$out") == "$token" ]] || fail "TIDELOCK_TOKEN is not what the key holds"
fence=$(sed -n 's/^TIDELOCK_FENCE=//p' "$out")
expect 0 "$tidelock" run 'jobs:nightly' -- printenv TIDELOCK_FENCE
(($(cat "$out") > fence && fence > 0)) || fail "fences do not grow: $fence, then $(cat "$out")"
# Of a run within a run the command sees the inner lock, once.
expect 0 "$tidelock" run outer -- "$tidelock" run inner -- env
[[ $(grep -c ^TIDELOCK_KEY= "$out") == 1 ]] || fail "TIDELOCK_KEY is there twice"
grep -qx TIDELOCK_KEY=inner "$out" || fail "the inner key is not seen"
# stdin, stdout and stderr are the command's own.
[[ $(echo hello | "$tidelock" run k -- cat) == hello ]] || fail "stdin does not arrive"
# No descriptor of ours is passed on; those of the caller are.
list_descriptors() { # command...
    "$@" sh -c 'for f in /proc/self/fd/*; do echo "${f##*/} $(readlink "$f")"; done' 2>&1 5>"$work/five" </dev/null |
        grep -v '^[0-9]* *$\|/proc/' | sort
}
list_descriptors env >"$work/before"
list_descriptors "$tidelock" run k -- | sed 's/pipe:.*/pipe/' >"$out"
sed -i 's/pipe:.*/pipe/' "$work/before"
cmp -s "$out" "$work/before" || fail "descriptors in the command: $(diff "$work/before" "$out")"
grep -q "^5 $work/five" "$out" || fail "a descriptor of the caller is gone"
# Signal mask and dispositions are as they were. (32 and 33 belong to the C library's threads.)
signals_of() { # command...
    expect 0 "$@" grep -E '^Sig(Blk|Ign)' /proc/self/status
    while read -r name mask; do printf '%s %x\n' "$name" $((16#$mask & 16#fffffffe7fffffff)); done <"$out"
}
ours=$(signals_of "$tidelock" run k --) || fail "$ours"
plain=$(signals_of env) || fail "$plain"
[[ $ours == "$plain" ]] || fail "signals differ in the command: $ours instead of $plain"
expect 0 env --ignore-signal=PIPE --ignore-signal=CHLD "$tidelock" run k -- grep ^SigIgn /proc/self/status
[[ $(cut -f 2 "$out") == *11000 ]] || fail "ignored signals are not restored: $(cat "$out")"
# It is in our process group and session, as without us; --new-session gives it one of its own, without a terminal.
ids() { # command...: whether group and session are those of the one who asks
    expect 0 "$@" sh -c 'ps -o pgid=,sid= -p $$'
    read -r pgid sid <"$out"
}
ids env
plain="$pgid $sid"
expect 0 sh -c 'ps -o pgid= -p $$; exec "$@"' sh "$tidelock" run k -- sh -c 'ps -o pgid= -p $$'
[[ $(uniq "$out" | wc -l) == 1 ]] || fail "the command is in another process group: $(cat "$out")"
ids "$tidelock" run k --
[[ $sid == "${plain#* }" ]] || fail "the command is in another session"
expect 0 "$tidelock" run --new-session k -- sh -c 'ps -o pgid=,sid= -p $$; echo $$; ! (: >/dev/tty) 2>/dev/null'
read -r pgid sid <"$out"
[[ $pgid == "$sid" && $sid == $(tail -n 1 "$out") ]] || fail "--new-session: $(cat "$out")"
# Closed standard descriptors do not upset anything.
"$tidelock" run k -- true <&- >&- 2>&- || fail "closed descriptors: status $?"
# The command finds them closed, and nothing of ours in their place.
"$tidelock" run k -- sh -c 'for f in 0 1 2; do [ ! -e /proc/$$/fd/$f ] || exit 9; done' <&- >&- 2>&- ||
    fail "closed descriptors are open in the command: status $?"

# ---- JSON -------------------------------------------------------------------------------------
json=$work/json
expect 5 "$tidelock" run -t 90s --json-fd 3 'a"b\c' -- sh -c 'echo out; echo "$TIDELOCK_TOKEN" >"$1"; exit 5' sh "$work/token" 3>"$json"
[[ $(cat "$out") == out && $(wc -l <"$json") == 1 ]] || fail "JSON and output mix"
"$python" -m json.tool <"$json" >/dev/null || fail "not JSON: $(cat "$json")"
json_has "$json" key 'a"b\c'
json_has "$json" protocol token
json_has "$json" state free
json_has "$json" token "$(cat "$work/token")"
json_has "$json" exit_status 5
json_has "$json" waiters None
json_has "$json" signal None
expect 137 "$tidelock" run --json --json-fd 3 k -- sh -c 'kill -9 $$' 3>"$json"
json_has "$json" signal 9
expect 0 "$tidelock" run --json-fd 3 $'k\xff\n\xc3\xa9' -- true 3>"$json"
json_has "$json" key $'k\xc3\xbf\n\xc3\xa9'
expect 0 "$tidelock" run --json-fd 3 k -- sh -c '! true >&3' 3>"$json"
expect 0 "$tidelock" run --json-fd 1 k -- true
json_has "$out" key k
if [[ -w /dev/full ]]; then
    expect 3 "$tidelock" run --json-fd 3 k -- sh -c 'exit 3' 3>/dev/full
    grep -q 'json-fd' "$err" || fail "JSON that could not be written is not reported"
fi
expect 127 "$tidelock" run --json-fd 3 k -- no-such-command 3>"$json"
json_has "$json" exit_status 127
