#!/bin/bash
# migrate status --metrics: the numbers of a namespace, in a file that promtool accepts.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/prometheus.sh"
source "$(dirname "$0")/migrate.sh"
start_server
file=$work/migrate.prom
of='{namespace="default"'

# ---- no register ------------------------------------------------------------------------------------
expect 0 migrate status --metrics "$file"
check "$file"
is "tidelock_migrate_registered$of}" 0
is "tidelock_migrate_phase$of}" ''
is "tidelock_migrate_clients$of,state=\"behind\"}" 0
is "tidelock_migrate_locks$of,kind=\"token\"}" ''

# ---- phase 1, with a client that is behind, and stamps --------------------------------------------------
expect 0 migrate init --keys 'jobs:*' --phase 1 --yes
set_phase 1 4 1500000000000000
client one 4 1 600
client two 3 0 600
client three 3 0 600
client four 3 0 -600
stamp jobs:a 60000
stamp jobs:b 60000
redis SET other 1 >/dev/null
expect 0 "$tidelock" lock -t 10m jobs:c
before=$(date +%s)
expect 0 migrate status --metrics "$file"
grep -q '^namespace default: phase 1' "$out" || fail "the text is still printed: $(cat "$out")"
check "$file"
is "tidelock_migrate_registered$of}" 1
is "tidelock_migrate_phase$of}" 1
is "tidelock_migrate_epoch$of}" 4
is "tidelock_migrate_since_timestamp_seconds$of}" 1500000000.000000
is "tidelock_migrate_clients$of,state=\"confirmed\"}" 1
is "tidelock_migrate_clients$of,state=\"behind\"}" 2
is "tidelock_migrate_clients$of,state=\"gone\"}" 1
is "tidelock_migrate_clients$of,state=\"ahead\"}" 0
is "tidelock_migrate_locks$of,kind=\"stray_stamp\"}" 2
is "tidelock_migrate_locks$of,kind=\"token\"}" 1
is "tidelock_migrate_locks$of,kind=\"own_stamp\"}" 0
is "tidelock_migrate_all_keys$of}" 1
between "tidelock_migrate_blockers$of,step=\"next\"}" 1 16
between "tidelock_migrate_look_timestamp_seconds$of}" "$before" "$(($(date +%s) + 1))"
between "tidelock_migrate_setnx_getset_total$of}" 0 1000000
expect 0 migrate status --json --metrics "$file"
jq -e '.phase == 1' <"$out" >/dev/null || fail "with --json: $(cat "$out")"

# ---- another namespace; what is refused -------------------------------------------------------------------
expect 0 migrate status --namespace b --metrics "$file"
is 'tidelock_migrate_registered{namespace="b"}' 0
expect_line 78 'migrate status: --metrics .*No such file or directory' migrate status --metrics "$work/none/x"
expect_line 64 'migrate clients: --metrics is for status' migrate clients --metrics "$file"
cp "$file" "$work/kept"
stop_server
expect 69 migrate status --metrics "$file"
cmp -s "$file" "$work/kept" || fail "without a server the file is replaced"
