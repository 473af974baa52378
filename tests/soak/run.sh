#!/bin/bash
# make soak: these programs, one after the other. A run of half an hour or longer, and one that fails, has its row in tests/README.md.
#
#   SOAK_SECONDS=1800 SEED=1 tests/soak/run.sh build/tests/soak/soak_etcd ...
set -u
cd "$(dirname "$0")/../.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

for program; do
    began=$SECONDS
    "$program" 2>&1 | tee "$log"
    if ((PIPESTATUS[0] == 0)); then
        said=$(sed -n 's/^in all: //p' "$log")
        ((SECONDS - began >= 1800)) || continue
    else
        status=1 said="failed: $(sed -n 's/.*LINE.*--- \(.*:[0-9]*\): error.*/\1/p' "$log" | head -n 1)"
    fi
    tests/record.sh "${PAGE:-tests/README.md}" runs "| \`make soak SOAK=${program##*soak_}\` | $((SECONDS - began)) s: $said | $(date -u +%F) |"
done
exit $status
