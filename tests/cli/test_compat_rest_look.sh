#!/bin/bash
# A stamp that rests: clients of stamps and clients with tokens are shown the same rest, and may end it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

rest() { expect 0 "$tidelock" lock --protocol bridge --rest 10m job; }
for protocol in "--protocol bridge" ""; do
    rest
    # shellcheck disable=SC2086
    expect 1 "$tidelock" check $protocol job
    grep -qE '^resting until [0-9:]{8} \(in (9|10) min\), last held by tidelock on .* \(pid [0-9]+\)$' "$out" || fail "check $protocol: $(cat "$out")"
    # shellcheck disable=SC2086
    expect 1 "$tidelock" check --json $protocol job
    json_has "$out" state resting
    json_has "$out" protocol bridge
    json_has "$out" oddity None
    # shellcheck disable=SC2086
    expect 0 "$tidelock" inspect $protocol
    grep -qE '^job +bridge +java\?? .* resting +(59|60)[0-9] s ' "$out" || fail "inspect $protocol: $(cat "$out")"
    # shellcheck disable=SC2086
    expect_line 0 'job: removed; it was resting until' "$tidelock" break --yes $protocol job
    assert_free job
    expect 0 "$tidelock" check job
done

# A legacy client that has taken the key over holds it: nothing rests any longer.
rest
redis SET job "$(($(now_ms) + 60000))" >/dev/null
expect 1 "$tidelock" check --json --protocol bridge job
json_has "$out" state held
json_has "$out" rested_ms None
