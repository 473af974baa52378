#!/bin/bash
# What becomes of a rest, by the table RESTS of tidelock-promises(7): a restart with and without the data, keys that are deleted.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --appendonly yes --appendfsync always

rests() { # key
    "$tidelock" check --json "$1" >"$out"
    grep -q '"state":"resting"' "$out"
}
end_of() { sed 's/.*"rest_until":"\([^"]*\)".*/\1/' "$out"; }
restart() { # options of the server
    stop_server
    start_server "$@"
}

# With its data: it ends when it would have ended, and nobody acquires it before.
expect 0 "$tidelock" lock --rest 1h nightly
rests nightly || fail "it doesn't rest: $(cat "$out")"
before=$(end_of)
restart --appendonly yes --appendfsync always
rests nightly || fail "after a restart with its data: $(cat "$out")"
(($(date -d "$(end_of)" +%s) - $(date -d "$before" +%s) <= 1)) || fail "it ends at $(end_of), and not $before"
expect 75 "$tidelock" lock nightly

# The key deleted: it stays for clients of tidelock, and not for those that use SET NX.
redis DEL nightly >/dev/null
rests nightly || fail "after DEL of its key: $(cat "$out")"
expect 75 "$tidelock" lock nightly
[[ $(redis SET nightly theirs NX PX 60000) == OK ]] || fail "SET NX finds it taken"
redis DEL nightly 'tidelock:{nightly}' >/dev/null
expect 0 "$tidelock" lock --rest 1h nightly

# The sidecar deleted, or evicted: the key is enough.
redis DEL 'tidelock:{nightly}' >/dev/null
rests nightly || fail "without its sidecar: $(cat "$out")"
expect 75 "$tidelock" lock nightly

# All keys deleted, or a restart without the data: it has ended, also with --quiet, which only delays the next.
redis FLUSHALL >/dev/null
expect 0 "$tidelock" check nightly
expect 0 "$tidelock" lock --rest 1h nightly
restart --appendonly no
expect 0 "$tidelock" check nightly
expect 0 "$tidelock" lock --quiet 11s -t 10s -w 40s --rest 1h nightly
