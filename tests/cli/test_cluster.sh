#!/bin/bash
# URLs that name nodes of a cluster: each command of the tool works through a real one, over all of its masters, or says in a
# line why it doesn't; and what is wrong with one is told.
# timeout: 120
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
url=redis+cluster://127.0.0.1:1,127.0.0.1:2

# Nobody is there; a seed that is no cluster's node; what would overlook a node.
for c in skew "agent --once" "agent --forget h"; do
    # shellcheck disable=SC2086
    expect_line 69 'none of the 2 nodes in the URL leads to a cluster: connect 127.0.0.1:1: connection refused' "$tidelock" --url $url $c
done
expect 3 "$tidelock" --url $url skew --format nagios # a monitor is told in its own way
grep -q '^SKEW UNKNOWN - none of the 2 nodes' "$out" || fail "nagios: $(cat "$out")"
start_server
open_port
expect_line 69 "127.0.0.1:$port is no node of a cluster: give its URL as redis://" "$tidelock" --url redis+cluster://127.0.0.1:"$port" skew
expect_line 64 'skew: --passive hears one server' "$tidelock" --url $url skew --passive
expect_line 64 'skew: --publish' "$tidelock" --url $url skew --publish ns
for c in status "init --keys x --phase 1 --yes" "advance --yes" "rollback --yes" sweep clients acl; do
    # shellcheck disable=SC2086
    expect_line 64 'migrate: no client follows a phase in a cluster. Stop the legacy clients' "$tidelock" --url $url migrate $c
done
TIDELOCK_URL=$url expect_line 78 'no client follows a phase in a cluster' "$tidelock" migrate status
