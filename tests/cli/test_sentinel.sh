#!/bin/bash
# URLs that name Sentinels: what is wrong with one is told in a line, commands that ask one server refuse it, and the
# Sentinels' login reaches nobody else.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
url=redis+sentinel://127.0.0.1:1,127.0.0.1:2/m

expect_line 64 'the name of the master is missing' "$tidelock" run --url redis+sentinel://h k -- true
expect_line 64 'the port must be' "$tidelock" run --url redis+sentinel://h,i:x/m k -- true
expect_line 64 'only with a URL that begins with rediss://' "$tidelock" run --tls-name x --url $url k -- true

# Nobody is there: it says of whom, and how many answer.
expect_line 69 'm: no majority of the Sentinels: 0 of 2 answer .connect 127.0.0.1:' "$tidelock" --url $url extend k t --ttl 1s
TIDELOCK_URL=$url expect_line 69 'no majority of the Sentinels' "$tidelock" extend k t --ttl 1s

# What asks one server.
for c in doctor skew "agent --once" "migrate status"; do
    # shellcheck disable=SC2086
    expect_line 64 'names no server, and one is to be asked here' "$tidelock" --url $url $c
done

# A login of Sentinels is none of another URL's business, nor of the command that is run.
start_server
TIDELOCK_SENTINEL_USER=u TIDELOCK_SENTINEL_PASSWORD=hunter2 expect 0 "$tidelock" run k -- \
    sh -c "! env | grep -q TIDELOCK_SENTINEL"
if grep -q hunter2 "$out" "$err"; then fail "a secret is shown"; fi
