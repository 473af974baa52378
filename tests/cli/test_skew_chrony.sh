#!/bin/bash
# timeout: 180
# skew beside real chronyd hosts: each on an address of its own, port 123, in a network of our own where the
# machine allows that, else on other ports of the loopback. None may touch a clock (-x), and all are fed by
# a chronyd that is told an offset. The programs are those that are installed here, else of the unpacked package. Time is served 250 ms off, and nobody is SAFE for what a daemon says.
# shellcheck source-path=SCRIPTDIR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ -z ${TIDELOCK_TEST_NET:-} ]]; then
    "$here/tools/need.sh" chrony >/dev/null 2>&1 || { echo "chronyd can not be unpacked (Debian: chrony)" && exit 77; }
    export TIDELOCK_TEST_NET=shared
    for how in -n -Urn; do
        if unshare $how true 2>/dev/null; then TIDELOCK_TEST_NET=own exec unshare $how "$0" "$@"; fi
    done
fi
source "$(dirname "$0")/lib.sh"
chrony=$here/build/chrony libs=
if [[ -x /usr/sbin/chronyd && -x /usr/bin/chronyc ]]; then
    chrony=
else
    libs=$(dirname "$(find "$chrony" -name 'lib*.so*' -print -quit)" 2>/dev/null)
fi
in_chrony() { env ${libs:+LD_LIBRARY_PATH="$libs"} "$@"; }
# A copy, which a rule about the installed one's path (AppArmor's) does not keep from reading what is here.
cp "$chrony/usr/sbin/chronyd" "$work/chronyd" && in_chrony "$work/chronyd" --version >/dev/null 2>&1 ||
    { echo "chronyd does not run here" && exit 77; }

if [[ $TIDELOCK_TEST_NET == own ]]; then # bring the loopback up, without any package for it
    "$python" - <<'PY' || { echo "no network of our own, and not asked for the shared one" && exit 77; }
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"lo", 0x49))  # SIOCSIFFLAGS: up, running, loopback
PY
fi
start_server
chmod 700 "$work"

# ---- hosts -----------------------------------------------------------------------------------------
# Where there is no network of our own: the same addresses, on a port that is free on all of them.
port=123
if [[ $TIDELOCK_TEST_NET == shared ]]; then
    port=$("$python" - <<'PY'
import random, socket
while True:
    port = random.randrange(20000, 30000)
    try:
        for n in range(2, 12):
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.77.0.%d" % n, port))
        break
    except OSError:
        pass
print(port)
PY
)
fi
at() { if ((port == 123)); then echo "127.77.0.$1"; else echo "127.77.0.$1:$port"; fi; }
named() { echo "127.77.0.$1:$port"; }

host() { # number, lines of its configuration on stdin
    local n=$1
    {
        cat
        echo "port $port
bindaddress 127.77.0.$n
bindacqaddress 127.77.0.$n
cmdport 0
bindcmdaddress $work/host$n.sock
pidfile $work/host$n.pid
allow 127.0.0.0/8
corrtimeratio 1
maxslewrate 200000"
    } >"$work/host$n.conf"
    { (exec env ${libs:+LD_LIBRARY_PATH="$libs"} "$work/chronyd" -x -U -u "$(id -un)" -d -f "$work/host$n.conf") & } \
        >"$work/host$n.log" 2>&1
    pid_of[n]=$!
}
declare -a pid_of
tracking() { in_chrony "$chrony/usr/bin/chronyc" -n -c -h "$work/host$1.sock" tracking 2>/dev/null; }
# Within a millisecond of what it is to be: system time is what has to be added to the clock.
settled() { tracking "$1" | awk -F, -v want="$2" '{ d = $5 - want; if ($14 == "Normal" && $12 > 0 && d < 0.001 && d > -0.001) ok = 1 } END { exit !ok }'; }
answers() { [[ -n $(tracking "$1") ]]; }

host 2 <<<"local stratum 5"
until_true 20 answers 2 || fail "no chronyd: $(cat "$work"/host2.log)"
source_of() { echo "server 127.77.0.2 port $port minpoll -4 maxpoll -4 iburst $*"; }
host 3 < <(source_of offset 0.250)
host 4 < <(source_of offset -0.250)
host 5 < <(source_of)
host 6 <<<"server 127.77.0.11 port $port" # never heard of anybody: leap 3, stratum 0
{ "$python" -c '
import signal, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.77.0.10", int(sys.argv[1])))
print("bound", flush=True)
signal.pause()' "$port" & } >"$work/deaf" 2>/dev/null # a port that is never read
wait_file "$work/deaf"
for n in 3:0.25 4:-0.25 5:0; do
    until_true 240 settled "${n%:*}" "${n#*:}" || fail "host ${n%:*} does not settle: $(tracking "${n%:*}") $(cat "$work/host${n%:*}.log")"
done
host 7 <<<"local stratum 5"
until_true 10 answers 7 || fail "host 7: $(cat "$work/host7.log")"
until_true 10 answers 6 || fail "host 6: $(cat "$work/host6.log")"

PATH=$work/bin:$PATH
mkdir "$work/bin"
cat >"$work/bin/chronyc" <<SH
#!/bin/sh
${libs:+LD_LIBRARY_PATH=$libs }"$chrony/usr/bin/chronyc" "\$@" >"$work/said"
status=\$?
cat "$work/said"
exit \$status
SH
chmod +x "$work/bin/chronyc"

# ---- chrony ----------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --once --every 10m --name elsewhere
expect 0 "$tidelock" skew --slack 20s # so that only what is asked for besides can take SAFE away
# How far off a daemon is, and how sure of that, is for it to say (a busy machine makes it unsure); the row has
# to be what follows from its own words, and those have to be about the offset that it was fed.
chrony_row() { # number status ms words
    "$python" - "$out" "$work/said" "$@" <<'PY' || depth=1 fail "--chrony of host $1: $(cat "$work/said") $(head -c 2000 "$out")"
import json, re, sys
d = json.load(open(sys.argv[1]))
said = open(sys.argv[2]).read().split(",")
_, status, fed, words = sys.argv[3:]
h, = [h for h in d["hosts"] if h["instrument"] == "chrony"]
own, = [h for h in d["hosts"] if h["instrument"] == "server"]
assert h["name"] == own["name"] and h["status"] == status and words in h["detail"], h
o = h["offset_ms"]
if fed == "null":
    assert o is None, h
else:
    system, error = -1e3 * float(said[4]), 1e3 * (float(said[10]) / 2 + float(said[11]))
    assert abs(system - float(fed)) < min(error + 1, 50), (said, fed)
    row = re.match(r"from the true time, as chronyd believes: ([-+][\d.]+) ms, to within ([\d.]+)", h["detail"])
    at, by = map(float, row.groups())
    assert abs(at - system) < 0.002 and error <= by < error + 0.005, (h, said)
    assert o["lo"] == -o["hi"] and abs(at) + by <= o["hi"] <= abs(at) + by + 2, (h, said)
assert not [p for p in d["pairs"] if p["holder"] == p["taker"]] and len(d["pairs"]) == 2, d["pairs"]
PY
}
expect 0 "$tidelock" skew --slack 20s --json --chrony="$work/host3.sock"
chrony_row 3 ok -250 "as chronyd believes: -2"
expect 0 "$tidelock" skew --slack 20s --json --chrony="$work/host4.sock"
chrony_row 4 ok 250 "as chronyd believes: +2"
expect 0 "$tidelock" skew --slack 20s --json --chrony="$work/host5.sock"
chrony_row 5 ok 0 "as chronyd believes"
expect 1 "$tidelock" skew --no-agents --chrony="$work/host5.sock" # this host alone is not a fleet
grep -q '^WARN: only one host' "$out" || fail "chrony alone: $(cat "$out")"
expect 1 "$tidelock" skew --json --chrony="$work/host7.sock"
chrony_row 7 unsynchronised null "local"
expect 1 "$tidelock" skew --json --chrony="$work/host6.sock"
chrony_row 6 unsynchronised null "not synchronised"
expect 1 "$tidelock" skew --json --chrony="$work/nobody.sock"
chrony_row nobody silent null "chronyc fails: "

# What daemons at rest serve is known narrowly. (From the end of what they follow on they are less and less sure.)
served() { # how wide a row may be, in ms; the servers that are asked
    local most=$1
    shift
    expect 1 "$tidelock" skew --json "$@"
    "$python" - "$out" "$port" "$most" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
hosts = {h["name"]: h for h in d["hosts"] if h["instrument"] == "ntp"}
assert d["verdict"] == "WARN"
for n, truth in ((3, 250), (4, -250), (5, 0)):
    h = hosts["127.77.0.%d:%s" % (n, sys.argv[2])]
    o = h["offset_ms"]
    assert h["status"] == "ok" and o["lo"] <= truth <= o["hi"] and o["hi"] - o["lo"] < float(sys.argv[3]), h
PY
}
until_true 240 served 100 --ntp "$(at 3)" --ntp "$(at 4)" --ntp "$(at 5)" 2>"$work/wide" ||
    fail "--ntp: wider than of a daemon at rest: $(tail -n 1 "$work/wide")"

# ---- the daemon that all follow is gone: after 16 s without it what they say is no evidence, see the end ----
kill "${pid_of[2]}"
gone_stale() { ! "$tidelock" skew --slack 20s --json --chrony="$work/host3.sock" >"$out" 2>"$err"; }

# ---- NTP -------------------------------------------------------------------------------------------
args=()
for n in 3 4 5 6 7 10 11; do args+=(--ntp "$(at $n)"); done
served 10000 "${args[@]}" || fail "--ntp: $(head -c 4000 "$out")"
"$python" - "$out" "$port" <<'PY' || fail "--ntp: $(head -c 4000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
hosts = {h["name"]: h for h in d["hosts"] if h["instrument"] == "ntp"}
at = lambda n: hosts["127.77.0.%d:%s" % (n, sys.argv[2])]
assert len(hosts) == 7
for n, status, words in ((7, "unsynchronised", "local"), (6, "unsynchronised", "leap 3"), (10, "silent", "no answer in 5 s"), (11, "silent", "refused")):
    assert at(n)["offset_ms"] is None and at(n)["status"] == status and words in at(n)["detail"], at(n)
PY
for n in 3 5; do # one that is right is as little a proof as one that isn't
    expect 1 "$tidelock" skew --ntp "$(at $n)"
    grep -q "^WARN: only the time that $(named $n) serves is known" "$out" || fail "NTP alone: $(cat "$out")"
done
expect 1 "$tidelock" skew --slack 100ms --ntp "$(at 3)" # chronyd's host is right, whatever it serves
grep -q "^WARN: a theft can't be ruled out" "$out" || fail "NTP is off: $(cat "$out")"

# ---- what else may be called chronyc -----------------------------------------------------------------
fake() { printf '#!/bin/sh\n%s\n' "$1" >"$work/bin/chronyc"; }
line='7F000002,127.0.0.2,6,%s.5,0.250,0.0,0.0,0.0,0.0,0.0,0.0001,0.001,64.0,Normal'
cp "$work/bin/chronyc" "$work/chronyc"
fake "printf '$line\\n' \$((\$(date +%s) - 100)) | tee '$work/said'"
expect 0 "$tidelock" skew --slack 20s --json --chrony
chrony_row fake ok -250 "-250.000"
fake "printf '$line\\n' \$((\$(date +%s) - 600))"
expect 1 "$tidelock" skew --json --chrony
chrony_row stale stale null "for too long"
fake "echo 506 Cannot talk to daemon; exit 1"
expect 1 "$tidelock" skew --json --chrony
chrony_row failing silent null "506 Cannot talk to daemon"
fake "yes"
expect 1 "$tidelock" skew --json --chrony
chrony_row yes unreadable null "not understood"
fake "exec sleep 600 >/dev/null" # expect would end what waits for it
expect 1 "$tidelock" skew --json --chrony
chrony_row sleeping silent null "did not respond in 5 s"
rm "$work/bin/chronyc"
expect 1 env PATH="$work/bin" "$tidelock" skew --json --chrony
chrony_row none silent null "not on the PATH"
json_has "$out" advice "['check that chronyd runs here and that \"chronyc -n tracking\" responds, or leave out --chrony']"
cp "$work/chronyc" "$work/bin/chronyc"

until_true 60 gone_stale || fail "a daemon without a source is believed: $(head -c 1500 "$out")"
chrony_row 3 stale null "for too long"

# ---- the kernel ------------------------------------------------------------------------------------
expect 0 "$tidelock" skew --slack 20s --json --kernel # whatever it says changes nothing
"$python" - "$out" <<'PY' || fail "--kernel: $(head -c 1500 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
h, = [h for h in d["hosts"] if h["instrument"] == "kernel"]
assert (h["offset_ms"] is None) == (h["status"] != "ok") and len(d["pairs"]) == 2, d
PY
exit 0
