#!/bin/bash
# A sample of the guards of the shipped code that are removed and then missed: mutations.sh has the list. All: make mutations.
#
# timeout: 300
if [[ -n ${SAN:-} ]]; then
    echo "removes guards from the plain build only"
    exit 77
fi
EVERY=6 exec "$(dirname "$0")/mutations.sh"
