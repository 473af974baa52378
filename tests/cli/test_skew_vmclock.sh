#!/bin/bash
# skew and agent on a virtual machine: the hypervisor's warnings turn SAFE into WARN, of this host and of the hosts of agents. Without
# a VMClock nothing is printed. A file stands for the device.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ -n ${SAN:-} ]]; then echo "a preloaded library and sanitizers don't go together" && exit 77; fi
start_server
"${CC:-cc}" -D_GNU_SOURCE -O1 -fPIC -shared "$here/tests/cli/vmclock_file.c" -o "$work/page.so" || fail "it isn't built"
me=$("$python" -c 'import re, socket; print(re.sub("[^A-Za-z0-9._:-]", "_", socket.gethostname())[:64])')
page=$work/page
soon=2 imminent=6 synchronized=2 freerunning=3 unreliable=4
write() { # flags status
    "$python" -c 'import struct, sys
open(sys.argv[1], "wb").write(struct.pack("<IIHBBIQQ2xBBHBB64xQ", 0x4b4c4356, 4096, 1, 0, 0, 2, 7, int(sys.argv[2]), int(sys.argv[3]), 0, 0, 0, 0, 3))' \
        "$page" "$@"
}
on_vm() { LD_PRELOAD=$work/page.so VMCLOCK_FILE=$page "$@"; }
elsewhere() { VMCLOCK_FILE=$work/none LD_PRELOAD=$work/page.so "$@"; }
export -f on_vm elsewhere
export work page
run() { # status where command...: the machine has the page (on_vm), or none (elsewhere)
    local want=$1
    shift
    depth=1 expect_from "$want" bash -c '"$@"' - "$@"
}
silent() { ! grep -q 'hypervisor' "$out" "$err" || depth=1 fail "it speaks of a hypervisor: $(cat "$out" "$err")"; }
says() { grep -qE -- "$1" "$out" || depth=1 fail "not said: $1: $(head -c 2000 "$out")"; }

run 0 elsewhere "$tidelock" agent --once --every 10m --name far
run 0 elsewhere "$tidelock" agent --once --every 10m --name further
silent

# ---- nothing to say ------------------------------------------------------------------------------------
run 0 elsewhere "$tidelock" skew --slack 20s
silent
run 0 elsewhere "$tidelock" skew --slack 20s --format prometheus
silent
write 256 $synchronized
run 0 on_vm "$tidelock" skew --slack 20s
silent

# ---- this host -----------------------------------------------------------------------------------------
warns() { # flags status word pattern
    write "$1" "$2"
    run 1 on_vm "$tidelock" skew --slack 20s
    says "^$me .* the hypervisor $4; measured now"
    says "^WARN: the hypervisor of $me $4: the clock of $me may "
    run 1 on_vm "$tidelock" skew --slack 20s --json
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
own, = [h for h in d["hosts"] if h["self"]]
assert own["status"] == sys.argv[2] and own["offset_ms"] and len(d["pairs"]) == 6 and len(d["advice"]) == 1, d' "$out" "$3" ||
        depth=1 fail "json: $(head -c 1500 "$out")"
}
warns $soon $synchronized soon 'announces a disruption within about a day'
warns 0 $unreliable unreliable 'calls its own clock unreliable'
warns 0 $freerunning freerunning 'reports that its own clock is not synchronized'
warns $imminent $synchronized imminent 'announces a disruption within about an hour'
run 1 on_vm "$tidelock" skew --slack 20s --format nagios
says "^SKEW WARNING - the hypervisor of $me announces"
run 1 on_vm "$tidelock" skew --slack 20s --format html
says "hypervisor warns"
run 1 on_vm "$tidelock" skew --slack 20s --log "$work/log" --metrics "$work/metrics"
grep -q "^tidelock_skew_hypervisor_alarm{host=\"$me\",instrument=\"server\",alarm=\"imminent\"} 1\$" "$work/metrics" ||
    fail "metrics: $(cat "$work/metrics")"
run 1 on_vm "$tidelock" skew report "$work/log"
says "the hypervisor of $me announces"
run 0 on_vm "$tidelock" skew --slack 20s --no-self # it acquires none of these locks

# ---- the hosts of agents -------------------------------------------------------------------------------
run 0 on_vm "$tidelock" agent --once --every 10m --name far
grep -q '^tidelock: agent: WARN: the hypervisor of far announces a disruption within about an hour$' "$err" || fail "the agent: $(cat "$err")"
run 1 elsewhere "$tidelock" skew --slack 20s
says '^far .* agent: the hypervisor announces'
says '^WARN: the hypervisor of far announces'
write 256 $synchronized
run 0 on_vm "$tidelock" agent --once --every 10m --name far
silent
run 0 elsewhere "$tidelock" skew --slack 20s
silent

# An agent on this host may read what skew may not.
write 0 $unreliable
run 0 on_vm "$tidelock" agent --once --every 10m
run 1 elsewhere "$tidelock" skew --slack 20s
says "^WARN: the hypervisor of $me calls its own clock unreliable"
