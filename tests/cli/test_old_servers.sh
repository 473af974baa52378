#!/bin/bash
# What a server lacks, by its age or because it was renamed: each command says in one line what is missing, from
# which version on it is there, what works without, and what the server is. That is a refusal, not an outage.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
this='; this one is Redis [0-9.]+$'
stamps='; protocol timestamp works there' looks='; protocol timestamp can look there'
if [[ ${COMPAT:-1} == 0 ]]; then stamps='' looks=''; fi
missing() { [[ -n $1 ]] || fail "no pattern"; depth=2 expect_line 77 "$1" "$tidelock" "${@:2}"; }

# Neither EVAL nor TIME, as before 2.6; but this server is newer, so they are renamed.
start_server --rename-command EVAL '' --rename-command EVALSHA '' --rename-command TIME ''
eval_for() { echo "the server has no ${eval:-EVALSHA}, which $1: it is renamed or forbidden there${2:-}$this"; }
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
    expect 0 "$tidelock" break -y --protocol timestamp k # by WATCH
    assert_free k
fi
expect 77 "$tidelock" run --json-fd 3 k -- true 3>"$work/json"
json_has "$work/json" state refused
time="the server has no TIME, which measuring clocks needs: it is renamed or forbidden there$this"
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
    grep -q "has no $eval: it is renamed or forbidden" "$out" || fail "the doctor doesn't find $eval: $(cat "$out")"
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

# A new server without its Lua module has EVAL, but runs nothing by it: it is called neither old nor renamed.
start_server
"$python" "$here/tests/cli/doctor_proxy.py" "$socket" "$work/port" no-lua: &
wait_file "$work/port"
export TIDELOCK_URL=redis://127.0.0.1:$(cat "$work/port")
lua_for() { echo "the server has no EVAL, which $1: its Lua module is not loaded .loadmodule PATH/libvalkeylua.so.${2:-}; this one is Valkey 9.1.0$"; }
missing "$(lua_for 'tokens need' "$stamps")" run k -- touch "$work/ran"
missing "$(lua_for 'tokens need' "$stamps")" lock k
missing "$(lua_for 'tokens need' "$stamps")" extend k token --ttl 10s
missing "$(lua_for 'tokens need' "$stamps")" unlock k token
missing "$(lua_for 'looking at a lock needs' "$looks")" check k
missing "$(lua_for 'looking at a lock needs' "$looks")" break -y k
missing "$(lua_for 'listing keys needs')" inspect
if [[ ${COMPAT:-1} != 0 ]]; then
    missing "$(lua_for 'the bridge needs' "$stamps")" lock --protocol bridge k
    missing "the server has no EVAL: its Lua module is not loaded" lock --protocol auto k
    missing "$(lua_for 'phases need' "$stamps")" migrate status
    # Stamps work by WATCH, with token, fence and renewal.
    expect 0 "$tidelock" lock --protocol timestamp k
    read -r token fence <"$out"
    stamp=$(redis GET k)
    [[ ${#token} == 36 && $fence -gt 0 && $stamp =~ ^[0-9]{13}$ ]] || fail "lock prints: $(cat "$out"); k holds $stamp"
    expect 75 "$tidelock" lock --protocol timestamp k
    # A look reads the stamp alone there, which may be anybody's; a value of another kind, too.
    stamp_alone='held by a client known only by its stamp (java): a legacy client, or tidelock'
    expect 1 "$tidelock" check --protocol timestamp k
    grep -qF "$stamp_alone" "$out" || fail "check says: $(cat "$out")"
    redis SET other hello >/dev/null
    expect 1 "$tidelock" check --protocol timestamp other
    grep -qF "held by a client known only by the key's value" "$out" || fail "check says: $(cat "$out")"
    expect 0 "$tidelock" extend --protocol timestamp --ttl 100s k "$token"
    (($(redis GET k) > stamp)) || fail "extending wrote no later stamp"
    expect 0 "$tidelock" unlock --protocol timestamp k "$token"
    assert_free k
    # A lock is removed by WATCH, too: its sidecar binds nobody any more, and its holder finds it lost.
    expect 0 "$tidelock" lock --protocol timestamp k
    read -r token fence <"$out"
    expect_line 0 "k: removed; it was ${stamp_alone//[()]/.}\$" "$tidelock" break -y --protocol timestamp k
    assert_free k
    [[ $(redis HGET 'tidelock:{k}' broken) =~ ^$(uname -n)\ [0-9]+\ tidelock$ && ! $(redis HGET 'tidelock:{k}' token) ]] ||
        fail "the sidecar: $(redis HGETALL 'tidelock:{k}')"
    expect_line 1 'no longer held' "$tidelock" unlock --protocol timestamp k "$token"
    redis SET k 01234567-89ab-4def-8123-456789abcdef PX 60000 >/dev/null # another library's
    expect 0 "$tidelock" break -y --protocol timestamp k
    assert_free k
    # Nothing rests there: that is said before the work, and nothing is acquired.
    for words in 'run --once-per 1h' 'run --hold-at-least 1h' 'lock --rest 1h'; do
        command=()
        if [[ $words == run* ]]; then command=(-- touch "$work/ran"); fi
        # shellcheck disable=SC2086 # words
        missing "a stamp can't rest on a server without EVAL; it is not acquired; this one is Valkey 9.1.0\$" \
            $words --protocol timestamp k "${command[@]}"
        assert_free k
    done
    expect 0 "$tidelock" run --protocol timestamp --legacy-ttl-min 12s --clock-skew-max 500ms k -- \
        sh -c 'was=$(redis-cli -s "$1" GET k); until [ "$(redis-cli -s "$1" GET k)" -gt "$was" ]; do sleep 0.05; done' sh "$socket"
    assert_free k
fi
[[ ! -e $work/ran ]] || fail "the command ran without a lock"
stop_server

# SCAN is renamed.
start_server --rename-command SCAN ''
scan="the server has no SCAN, which listing keys needs: it is renamed or forbidden there$this"
missing "$scan" inspect
if [[ ${COMPAT:-1} != 0 ]]; then missing "$scan" migrate -y init --phase 1 --keys '*'; fi
expect 0 "$tidelock" lock k
stop_server

# A command that only a script uses: the server doesn't say which.
start_server --rename-command PTTL ''
missing "a script needs a command that the server lacks, or has renamed: .tidelock doctor. finds out which$this" check k
expect 2 "$tidelock" doctor
grep -q 'has no PTTL' "$out" || fail "the doctor doesn't find it: $(cat "$out")"
