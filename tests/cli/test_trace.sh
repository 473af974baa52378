#!/bin/bash
# What goes on with a lock, a line for each step: run -vv, TIDELOCK_TRACE. It tells no secret.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
redis CONFIG SET requirepass 'pass-phrase' >/dev/null
export TIDELOCK_PASSWORD=pass-phrase
trace=$work/trace

expect 0 "$tidelock" run -vv jobs -- sh -c 'echo "$TIDELOCK_TOKEN"'
token=$(cat "$out")
for words in 'acquire jobs: begins; reaches for the server, within [0-9]* ms' 'acquire jobs: the server is reached; sends acquire, within 2000 ms' \
    'acquire jobs: reply after [0-9.]* ms: .*; OK, for [0-9]* ms, fence [0-9]*' 'renew jobs: begins; waits for at most [0-9]* ms' \
    'release jobs: begins; sends release, within 2000 ms' 'release jobs: reply after [0-9.]* ms: 1; TL_OK'; do
    grep -q "^tidelock: .*: $words$" "$err" || fail "-vv: no line says '$words': $(cat "$err")"
done
[[ -n $token ]] || fail "no token"
! grep -q -e "$token" -e pass-phrase "$err" || fail "-vv tells a secret"

# -v says less, and no option nothing.
expect 0 "$tidelock" run -v jobs -- true
! grep -q 'within' "$err" || fail "-v says what -vv says"
expect 0 "$tidelock" run jobs -- true
[[ ! -s $err ]] || fail "a trace that nobody asked for: $(cat "$err")"

# In a file, of whichever command; who waits is told why.
export TIDELOCK_TRACE=$trace
TIDELOCK_TRACE='' expect 0 "$tidelock" run jobs -- true
[[ ! -e $trace ]] || fail "an empty name made a file"
expect 0 "$tidelock" lock -t 10m jobs
read -r other _ <"$out"
expect 75 "$tidelock" run -w 2s jobs -- true
expect 0 "$tidelock" unlock jobs "$other"
[[ $(stat -c %a "$trace") == 600 ]] || fail "others may read the trace"
for words in 'reply after .*; subscribes, waits for at most [0-9]* ms: another holds it' 'TL_ETIMEDOUT, and goes on to undo .*: another holds it'; do
    grep -q "^[0-9T:.-]*Z [0-9]* .*: acquire jobs: .*$words$" "$trace" || fail "no line says '$words': $(cat "$trace")"
done
! grep -q -e "$other" -e pass-phrase "$trace" || fail "the trace tells a secret"
TIDELOCK_TRACE=$work/none/trace expect_line 78 'run: TIDELOCK_TRACE: .*/none/trace: No such file or directory' "$tidelock" run jobs -- true

mkfifo "$work/pipe"
TIDELOCK_TRACE=$work/pipe expect_line 78 'run: TIDELOCK_TRACE: .*/pipe: nobody reads it' "$tidelock" run jobs -- true

# As "-" it is standard error, and no file.
cd "$work" || exit 1
TIDELOCK_TRACE=- expect 0 "$tidelock" lock -t 1s dashed
grep -q '^tidelock: .*: acquire dashed: .*sends acquire' "$err" || fail "-: nothing is told on stderr: $(cat "$err")"
[[ ! -e $work/- ]] || fail "there is a file called -"
