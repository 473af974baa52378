#!/bin/bash
# timeout: 900
# Ten hosts whose clocks are up to 2 s ahead or behind start a job of 50 ms every 5 s by run --once-per: one of them runs it in each
# period. Ten others stand by (-w), and some hosts that have begun are killed with KILL: another one runs it within the lifetime.
# For three periods, and with ALL=1 for 50.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
faketime=
for f in /usr/lib/faketime/libfaketime.so.1 /usr/lib/*-linux-gnu*/faketime/libfaketime.so.1; do
    if [[ -e $f ]]; then faketime=$f; fi
done
[[ -n $faketime ]] || { echo "libfaketime is not installed (Debian: libfaketime)" && exit 77; }
# A sanitizer wants to be first in a process, and so does libfaketime.
if [[ -n ${SAN:-} ]]; then echo "libfaketime and sanitizers don't go together" && exit 77; fi
start_server
periods=3 killed_of=3 # of so many runs one is killed
if [[ ${ALL:-} == 1 ]]; then periods=50 killed_of=5; fi

# A host starts the job at each full period, by its own clock. It notes each start: fleet, period, host, from and until (us, by the
# true clock), the status. The run itself says in JSON for how long it has waited.
cat >"$work/host.py" <<'PY'
import ctypes, os, select, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
fleet, host, ahead, first, periods, tidelock = sys.argv[1:7]
json = os.open(os.environ["JSON"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for period in range(int(periods)):
    pause = float(first) + 5 * period - time.time()
    select.select([], [], [], pause if pause > 0 else 0) # libfaketime breaks time.sleep
    begin = time.time()
    words = [tidelock, "run", "--name", "host" + host, "--json-fd", str(json)] + sys.argv[7:]
    words += [fleet, "--", "sh", "-c", os.environ["JOB"], "sh", str(period), host]
    status = subprocess.run(words, stdin=subprocess.DEVNULL, pass_fds=[json]).returncode
    us = [int((t - float(ahead)) * 1000000) for t in (begin, time.time())]
    os.write(1, ("%s %d %s %d %d %d\n" % (fleet, period, host, *us, status)).encode())
PY
first=$(($(date +%s) + 8))
fleet() { # name, the clocks of its hosts, the job, options of run...
    local i=0 ahead
    for ahead in $2; do
        env JOB="$3" JSON="$work/json" LD_PRELOAD="$faketime" FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME="$ahead" \
            "$python" "$work/host.py" "$1" "$i" "$ahead" "$first" "$periods" "$tidelock" "${@:4}" >>"$work/starts" 2>>"$work/said" &
        i=$((i + 1)) # not in the line above, which is another process
    done
}
# A run notes period, host and fence when it begins and when it is done. The fence is the server's time (us) of the acquire.
note='echo "$1 $2 $TIDELOCK_FENCE" >>'
# D is longer than the starts are apart. That it isn't shorter than the period less that is made good by the others of the next period.
fleet plain '-2.0 -1.6 -1.1 -0.7 -0.2 +0.2 +0.7 +1.1 +1.6 +2.0' "$note$work/plain.begun; sleep 0.05; $note$work/plain.done" \
    --once-per 4500ms
# tidelock is the parent of the job's parent, the supervisor.
kill="[ \$((\$(wc -l <$work/deadly.begun) % $killed_of)) != 0 ] || { kill -KILL \$(cut -d' ' -f4 /proc/\$PPID/stat); exec sleep 60; }"
fleet deadly '-1.8 -1.4 -1.0 -0.6 -0.2 +0.2 +0.6 +1.0 +1.4 +1.8' "$note$work/deadly.begun; $kill; sleep 0.05; $note$work/deadly.done" \
    --once-per 4s -w 1m -t 2s
for host in $(jobs -p); do
    if [[ $host != "$server_pid" ]]; then wait_for "$host" $((periods * 5 + 90)); fi
done

# Who starts late, on a busy machine, may find the lock free again, or a rest that began late. So that there is one run in each
# period depends on the machine. That none begins before a rest has ended, and none is refused without one, does not.
cat >"$work/judge.py" <<'PY'
import json, sys
work, periods = sys.argv[1], int(sys.argv[2])
TTL, slack = 2000000, 1000000
starts = [l.split() for l in open(work + "/starts")]
assert len(starts) == 2 * 10 * periods, "%d starts" % len(starts)
late = []
for fleet, D in ("plain", 4500000), ("deadly", 4000000):
    begun, done = ([tuple(map(int, l.split())) for l in open("%s/%s.%s" % (work, fleet, what))] for what in ("begun", "done"))
    of = [tuple(map(int, s[1:])) for s in starts if s[0] == fleet]
    assert begun == sorted(begun, key=lambda run: run[2]), "%s: fences fall" % fleet
    for run, after in zip(begun, begun[1:]):
        gap = after[2] - run[2]
        killed = any(s[:2] == run[:2] and s[4] == -9 for s in of)
        least = D if run in done else TTL if killed else 0 # or it was lost, and released
        assert gap >= least - 1000, "%s: %s begins %d us after %s" % (fleet, after, gap, run)
        over = run[2] + TTL
        if killed and any(s[1] != run[1] and s[2] < over < s[3] for s in of): # another stands by
            assert after[1] != run[1], "%s: the host that was killed runs again: %s" % (fleet, after)
            assert gap <= TTL + 3 * slack, "%s: %d us after %s was killed another takes over" % (fleet, gap, run)
    for period, host, begin, end, status in of:
        if status == 75: # for a rest, or for somebody at work
            assert any(r[2] <= end and begin <= r[2] + D + slack for r in begun), "%s: host %d is refused in period %d" % (fleet, host, period)
        elif status == 74:
            late.append("host %d loses the lock in period %d" % (host, period))
        else:
            assert status == 0 or fleet == "deadly" and status == -9, "%s: status %d of host %d in period %d" % (fleet, status, host, period)
    for told in map(json.loads, open(work + "/json")): # it may have waited for a failure, not for a rest to end
        if told["key"] == fleet and told["exit_status"] == 0:
            asked = told["fence"] - told["waited_ms"] * 1000
            assert not any(asked + slack <= r[2] < told["fence"] for r in done), "%s: it has waited for a rest: %s" % (fleet, told)
    kills = sum(s[4] == -9 for s in of)
    assert len(begun) == len(done) + kills or late, "%s: %d begun, %d done, %d killed" % (fleet, len(begun), len(done), kills)
    assert fleet == "plain" or kills or late, "nobody was killed"
    if sorted(run[0] for run in done) != list(range(periods)):
        late.append("%s: run in periods %s" % (fleet, " ".join(str(run[0]) for run in done)))
    print("%s: %d done in %d periods, %d killed" % (fleet, len(done), periods, kills), file=sys.stderr)
print("\n".join(late))
PY
"$python" "$work/judge.py" "$work" "$periods" >"$out" 2>"$err" || {
    cat "$work/said"
    fail "not once"
}
if [[ -n ${VERBOSE:-} ]]; then cat "$err"; fi
if grep -q . "$out"; then part_skipped "one run in each period" "the machine was too slow: $(paste -sd, "$out")"; fi
exit 0
