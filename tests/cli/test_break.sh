#!/bin/bash
# break: removes the lock that was shown, and no other; asks first, and leaves a trace.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

expect_line 64 'no terminal.*--yes' "$tidelock" break k
expect_line 1 'nobody holds it' "$tidelock" break --yes k
for kind in "SADD set x" "HSET hash f v"; do
    # shellcheck disable=SC2086
    redis $kind >/dev/null
    read -r _ key _ <<<"$kind"
    expect_line 64 'holds a (set|hash), not a lock: it is never removed' "$tidelock" break --yes "$key"
    assert_held "$key"
done

# A lock of tidelock's: its holder finds it lost, and the next fence is larger.
{ "$tidelock" run -v -t 10s k -- sleep 1000 & } 2>"$work/run"
run=$!
is_known() { [[ $(redis HGET 'tidelock:{k}' token) ]]; } # from its first renewal on
until_true 10 is_known || fail "no lock"
expect_line 0 'k: removed; it was held by sleep on .* \(pid [0-9]+\)' "$tidelock" break -y k
[[ $(redis HGET 'tidelock:{k}' broken) =~ ^$(uname -n)\ [0-9]+\ tidelock$ ]] || fail "broken: $(redis HGET 'tidelock:{k}' broken)"
fence=$(redis HGET 'tidelock:{k}' fence)
expect 0 "$tidelock" lock -t 10m k
read -r token fence2 <"$out"
((fence2 > fence)) || fail "the fence does not grow: $fence, $fence2"
wait_for $run 40
[[ $status == 74 ]] || fail "the command under a broken lock ends with $status"
expect 0 "$tidelock" unlock k "$token"

# One whose key was deleted, and which binds all the same.
expect 0 "$tidelock" lock -t 10m k
redis DEL k >/dev/null
expect 75 "$tidelock" lock k
expect 0 "$tidelock" break --yes k
expect 0 "$tidelock" lock -t 10m k
expect 0 "$tidelock" break --yes k
assert_free k

# Others': a token, a stamp, binary text.
redis SET other 01234567-89ab-4def-8123-456789abcdef >/dev/null
expect_line 0 'known only by its token .*or another library' "$tidelock" break --yes other
assert_free other
! grep -q 4def "$err" || fail "a token is shown"
redis SET other "$(printf '%040x' 7)" >/dev/null
expect 0 "$tidelock" break --yes other
assert_free other

# What looks like no lock is shown and left alone, unless it is forced.
for value in "hello world" 42 1.5 abc-def "$(printf 'caf\xc3\xa9 \001 %0100d' 7)" "" null \
    01234567-89ab-4def-8123-456789abcde 01234567-89ab-4def-8123-456789abcdeg; do
    printf %s "$value" | redis -x SET other >/dev/null
    expect_line 64 'other: not removed, since it looks like no lock: ".*", never expires; --force' \
        "$tidelock" break --yes other
    assert_held other
done
redis SET other 'hello world' PX 600000 >/dev/null
expect_line 64 'no lock: "hello world", expires in [0-9]' "$tidelock" break --yes other
expect_line 64 'no terminal.*--yes' "$tidelock" break --force other
expect_line 0 'other: removed; it was "hello world"' "$tidelock" break --yes --force other
assert_free other
redis SADD set y >/dev/null
expect_line 64 'set holds a set, not a lock: it is never removed$' "$tidelock" break --yes --force set
assert_held set
if [[ ${COMPAT:-1} != 0 ]]; then
    redis SET old $(($(now_ms) + 600000)) >/dev/null
    expect_line 0 'legacy client' "$tidelock" break --yes --protocol bridge old
    assert_free old
    redis SET old $(($(now_ms) - 9000000)) >/dev/null
    expect 0 "$tidelock" break --yes old
    assert_free old
    expect_line 64 'strict: its commands can.t compare what was seen' "$tidelock" break --yes --protocol timestamp --strict old
fi

# On a terminal it asks; what came meanwhile is not removed.
cat >"$work/ask.py" <<'PY'
import os, pty, subprocess, sys
tool, socket, answer, change, *more = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.execv(tool, [tool, "break", "k", *more])
seen = b""
while b"[y/N]" not in seen:
    seen += os.read(fd, 1000)
if change:
    subprocess.run(["redis-cli", "-s", socket, "SET", "k", change], stdout=subprocess.DEVNULL, check=True)
os.write(fd, answer.encode() + b"\n")
while True:
    try:
        tail = os.read(fd, 1000)
    except OSError:
        break
    if not tail:
        break
    seen += tail
sys.stdout.write(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
ask=("$python" "$work/ask.py" "$tidelock" "$socket") # answer, and what another takes before it
expect 0 "$tidelock" lock -t 10m k
expect 1 "${ask[@]}" n ''
grep -q 'not removed' "$out" || fail "no: $(cat "$out")"
assert_held k
expect 1 "${ask[@]}" '' ''
assert_held k
expect 2 "${ask[@]}" y another
grep -q 'the holder changed meanwhile' "$out" || fail "another: $(cat "$out")"
[[ $(redis GET k) == another ]] || fail "another's lock was removed"
redis DEL k 'tidelock:{k}' >/dev/null
expect 0 "$tidelock" lock -t 10m k
expect 0 "${ask[@]}" y ''
assert_free k
redis SET k 'hello world' >/dev/null
expect 64 "$python" -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
    "$tidelock" break k
assert_held k
expect 0 "${ask[@]}" y '' --force
grep -q 'k is "hello world", never expires' "$out" || fail "what is removed is not shown: $(cat "$out")"
assert_free k

stop_server
expect_line 69 . "$tidelock" break --yes k
