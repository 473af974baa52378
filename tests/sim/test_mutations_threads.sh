#!/bin/bash
# A guard of the client that is removed is missed by a play: mutations_threads.sh has the list.
#
# timeout: 900
if [[ -n ${SAN:-} ]]; then
    echo "removes guards from the plain build only"
    exit 77
fi
exec "$(dirname "$0")/mutations_threads.sh"
