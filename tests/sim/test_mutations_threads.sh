#!/bin/bash
# A sample of the guards of the client that are removed and then missed by a play: mutations_threads.sh has the list. All: make mutations.
#
# timeout: 900
if [[ -n ${SAN:-} ]]; then
    echo "removes guards from the plain build only"
    exit 77
fi
EVERY=8 exec "$(dirname "$0")/mutations_threads.sh"
