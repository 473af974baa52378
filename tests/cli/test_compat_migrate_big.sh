#!/bin/bash
# migrate beside many keys: MONITOR is read while the keys are scanned, so that the server buffers little for it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server --client-output-buffer-limit 'normal 1mb 0 0'

# The scan's own commands are 20 MB of MONITOR. The server closes a connection for which it has to keep more than 1 MB.
redis EVAL 'for i = 1, 20000 do redis.call("SET", "jobs:" .. string.rep("x", 450) .. i, "text") end' 0 >/dev/null
expect 0 migrate init --keys 'jobs:*' --phase 1 --lease 1s --yes
redis ACL SETUSER default -info +info\|replication >/dev/null # the server counts nothing: MONITOR must be read throughout
expect 0 migrate advance --yes --watch 1s
in_phase 2 2
