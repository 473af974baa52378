#!/bin/bash
# What a server lacks, by its age or because it was renamed: each command says in one line what is missing, from
# which version on it is there, what works without, and what the server is. That is a refusal, not an outage.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
this='; this one is Redis [0-9.]+$'
stamps='; protocol timestamp works there' looks='; protocol timestamp can look there'
if [[ ${COMPAT:-1} == 0 ]]; then stamps='' looks=''; fi
missing() { [[ -n $1 ]] || fail "no pattern"; depth=2 expect_line 77 "$1" "$tidelock" "${@:2}"; }

# Before 2.6: neither EVAL nor TIME.
start_server --rename-command EVAL '' --rename-command EVALSHA '' --rename-command TIME ''
eval_for() { echo "the server has no ${eval:-EVALSHA}, which $1: Redis 2.6 or newer, not renamed${2:-}$this"; }
missing "$(eval_for 'tokens need' "$stamps")" run -n k -- touch "$work/ran"
missing "$(eval_for 'tokens need' "$stamps")" run k -- touch "$work/ran"
missing "$(eval_for 'tokens need' "$stamps")" run --forever k -- touch "$work/ran"
[[ ! -e $work/ran ]] || fail "the command ran without a lock"
missing "$(eval_for 'tokens need' "$stamps")" lock k
missing "$(eval_for 'tokens need' "$stamps")" lock -w 10s k
missing "$(eval_for 'tokens need' "$stamps")" extend k token --ttl 10s
missing "$(eval_for 'tokens need' "$stamps")" unlock k token
missing "$(eval_for 'looking at a lock needs' "$looks")" check k
missing "$(eval_for 'looking at a lock needs' "$looks")" break -y k
missing "$(eval_for 'listing keys needs')" inspect
if [[ ${COMPAT:-1} != 0 ]]; then
    for protocol in bridge auto; do
        missing "$(eval_for 'the bridge needs' "$stamps")" lock --protocol $protocol k
        missing "$(eval_for 'the bridge needs' "$stamps")" run --protocol $protocol k -- true
        missing "$(eval_for 'looking at a lock needs' "$looks")" check --protocol $protocol k
    done
    expect 0 "$tidelock" lock -t 110s --protocol timestamp k
    expect 1 "$tidelock" check --protocol timestamp k
    missing "$(eval_for 'removing a lock needs')" break -y --protocol timestamp k
    assert_held k
fi
expect 77 "$tidelock" run --json-fd 3 k -- true 3>"$work/json"
json_has "$work/json" state refused
time="the server has no TIME, which measuring clocks needs: Redis 2.6 or newer, not renamed$this"
missing "$time" skew
missing "$time" agent
missing "$time" agent --once
if [[ ${COMPAT:-1} != 0 ]]; then
    for word in status clients 'advance -y' 'rollback -y'; do
        # shellcheck disable=SC2086 # words
        missing "$(eval=EVAL eval_for 'phases need' "$stamps")" migrate $word
    done
    expect 0 "$tidelock" migrate acl # which needs nothing
fi
stop_server

# One of the two renamed: it is the one that is named, and the doctor has the same to say.
for eval in EVALSHA EVAL; do
    start_server --rename-command $eval ''
    missing "$(eval_for 'tokens need' "$stamps")" lock k
    missing "$(eval_for 'tokens need' "$stamps")" run k -- touch "$work/ran"
    missing "$(eval_for 'looking at a lock needs' "$looks")" check k
    missing "$(eval_for 'listing keys needs')" inspect
    expect 2 "$tidelock" doctor
    grep -q "has no $eval: it is renamed" "$out" || fail "the doctor doesn't find $eval: $(cat "$out")"
    if [[ ${COMPAT:-1} != 0 ]]; then
        expect 0 "$tidelock" lock -t 110s --protocol timestamp k
        expect 1 "$tidelock" check --protocol timestamp k
        expect 1 "$tidelock" doctor --protocol timestamp
        ! grep -q "has no $eval" "$out" || fail "the doctor wants $eval for what does without: $(cat "$out")"
    fi
    stop_server
done
unset eval
[[ ! -e $work/ran ]] || fail "the command ran without a lock"

# Before 2.8: no SCAN.
start_server --rename-command SCAN ''
scan="the server has no SCAN, which listing keys needs: Redis 2.8 or newer, not renamed$this"
missing "$scan" inspect
if [[ ${COMPAT:-1} != 0 ]]; then missing "$scan" migrate -y init --phase 1 --keys '*'; fi
expect 0 "$tidelock" lock k
stop_server

# A command that only a script uses: the server doesn't say which.
start_server --rename-command PTTL ''
missing "a script needs a command that the server lacks, or has renamed: .tidelock doctor. finds out which$this" check k
expect 2 "$tidelock" doctor
grep -q 'has no PTTL' "$out" || fail "the doctor doesn't find it: $(cat "$out")"
