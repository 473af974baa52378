#!/bin/bash
# timeout: 180
# tools/monitoring: promtool accepts the rules, their cases and the dashboard's queries; each metric, label and value that they name
# is one that the tool prints; the checks of Nagios and the DaemonSet's agent do what they say, on a private server.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/prometheus.sh"
start_server
folder=$here/tools/monitoring
compat=
expect_in() { # statuses, as a range for a glob, command...
    local range=$1 got
    shift
    timeout -k 5 "$run_limit" "$@" >"$out" 2>"$err" </dev/null
    got=$?
    # shellcheck disable=SC2053
    [[ $got == $range ]] || depth=1 fail "status $got instead of $range: ${*:0:8}"
}
if "$tidelock" help | grep -q '^ *migrate '; then compat=1; fi

# ---- each file says what it is and how to install it ------------------------------------------------
for path in "$folder"/*; do
    case $path in
    *.json | *.md) ;; # monitoring.py has a look at the one, and the other says nothing else
    *.test.yml) head -n 3 "$path" | grep -q '^# Run: ' || fail "$path does not begin with how to run it" ;;
    *) head -n 3 "$path" | grep -q '^# Install: ' || fail "$path does not begin with how to install it" ;;
    esac
    grep -q "(${path##*/})" "$folder/README.md" || [[ $path == *README.md ]] || fail "README.md does not name ${path##*/}"
done
(($(wc -l <"$folder/README.md") <= 60)) || fail "README.md has more than 60 lines"

# ---- what the tool prints ----------------------------------------------------------------------------
for host in h1 h2; do
    expect 0 "$tidelock" agent --once --name $host --every 1m --metrics "$work/agent.prom"
done
expect_in '[0-3]' "$tidelock" skew --longest-hold 55s --metrics "$work/skew.prom"
expect 0 "$tidelock" run --metrics "$work/run.prom" k -- true
expect 74 "$tidelock" run -t 10s --metrics "$work/lost.prom" k -- sh -c "redis-cli -s '$socket' SET k thief >/dev/null; exec sleep 600"
redis DEL k >/dev/null
"${CC:-cc}" -g ${SAN:+-fsanitize=$SAN} -I"$here/include" "$here/tools/examples/metrics.c" -o "$work/metrics" -L"$here/${BUILD:-build}" -ltidelock ||
    fail "the example does not build"
LD_LIBRARY_PATH=$here/${BUILD:-build} "$work/metrics" "$TIDELOCK_URL" m >"$work/program.prom" 2>"$err" || fail "the example: $(cat "$err")"
check "$work/program.prom"
file=$work/program.prom
is tidelock_held_now 1
is tidelock_waiting_now 0
is tidelock_wait_seconds_count 1
is tidelock_hold_seconds_count 0
if [[ $compat ]]; then
    expect 0 "$tidelock" migrate init --keys 'jobs:*' --phase 1 --yes
    expect 0 "$tidelock" migrate status --metrics "$work/migrate.prom"
    cluster=$(TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
    keep_masters "$cluster"
    expect 0 "$tidelock" --url "$cluster" migrate init --keys 'jobs:*' --phase 1 --yes
    expect 0 "$tidelock" --url "$cluster" migrate status --metrics "$work/cluster.prom"
    "$python" "$here/tests/cli/monitoring.py" "$folder" "$work/queries.yml" "$work"/*.prom \
        "$here"/tests/unit/golden/skew-unsafe.prom >"$out" 2>"$err" || fail "$(cat "$out" "$err")"
else
    part_skipped names "this build prints no metrics of a migration (COMPAT=0)"
fi

# ---- promtool -----------------------------------------------------------------------------------------
if [[ $promtool ]]; then
    "$promtool" check rules "$folder/tidelock.rules.yml" >"$out" 2>&1 || fail "the rules: $(cat "$out")"
    (cd "$folder" && "$promtool" test rules tidelock.rules.test.yml) >"$out" 2>&1 || fail "the cases of the rules: $(cat "$out")"
    [[ ! $compat ]] || "$promtool" check rules "$work/queries.yml" >"$out" 2>&1 || fail "the dashboard's queries: $(cat "$out")"
fi

# ---- Nagios ---------------------------------------------------------------------------------------------
check_of() { # name of a command, its arguments; in $line
    line=$(awk -v name="$1" '$1 == "command_name" { found = $2 == name } $1 == "command_line" && found { sub(/^ *command_line */, ""); print }' "$folder/nagios.cfg")
    [[ $line ]] || fail "nagios.cfg has no command $1"
    shift
    local i=0
    for word; do line=${line//"\$ARG$((++i))\$"/$word}; done
    line=${line/#\/usr\/bin\/tidelock/$tidelock}
}
ran=0
while IFS='!' read -r name url more; do
    [[ $name == check_tidelock_migration && ! $compat ]] && continue
    check_of "$name" "unix://$socket" ${more//\!/ }
    case $name in
    check_tidelock_clocks) want='[0-2]' first='^SKEW (OK|WARNING|CRITICAL) - .*\|' ;;
    check_tidelock_server) want='[0-2]' first=. ;;
    check_tidelock_migration) want=0 first='^namespace default: phase 1' ;;
    esac
    expect_in "$want" bash -c "$line"
    head -n 1 "$out" | grep -qE "$first" || fail "$name says: $(cat "$out")"
    [[ $line != *\$ARG* ]] || fail "$name has an argument more than its service gives: $line"
    check_of "$name" "unix://$work/none" ${more//\!/ }
    [[ $name == check_tidelock_clocks ]] && want=3 || want=69
    expect "$want" bash -c "$line"
    ran=$((ran + 1)) && [[ $url ]]
done < <(sed -n 's/^ *check_command *//p' "$folder/nagios.cfg")
((ran >= 2)) || fail "nagios.cfg has $ran services"

# ---- Kubernetes ---------------------------------------------------------------------------------------------
cat >"$work/read.py" <<'EOF'
import shlex, sys, yaml
secret, agent = yaml.safe_load_all(open(sys.argv[1] + "/tidelock-agent.daemonset.yaml"))
assert (secret["kind"], agent["kind"], agent["apiVersion"]) == ("Secret", "DaemonSet", "apps/v1")
labels = agent["spec"]["template"]["metadata"]["labels"]
assert agent["spec"]["selector"]["matchLabels"].items() <= labels.items()
pod = agent["spec"]["template"]["spec"]
assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod) and pod["automountServiceAccountToken"] is False
container, = pod["containers"]
assert container["securityContext"]["allowPrivilegeEscalation"] is False and "privileged" not in container["securityContext"]
for e in container["env"]:
    ref = e["valueFrom"].get("secretKeyRef")
    assert not ref or ref["name"] == secret["metadata"]["name"] and (ref["key"] in secret["stringData"] or ref["optional"]), e
    assert ref or e["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}} and e["name"] == "NODE_NAME"
print(shlex.join(w.replace("$(NODE_NAME)", "node7") for w in container["args"]))
EOF
"$python" "$work/read.py" "$folder" >"$work/args" 2>"$err" || fail "the DaemonSet is not what it should be: $(cat "$err")"
eval "words=($(cat "$work/args"))"
expect 0 "$tidelock" "${words[@]}" --once
redis ZSCORE '{tidelock:agents}' node7 | grep -q . || fail "the DaemonSet's agent publishes nothing as node7"
