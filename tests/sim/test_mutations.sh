#!/bin/bash
# Guards of the shipped code that are removed are missed: mutations.sh has the list.
#
# timeout: 1500
if [[ -n ${SAN:-} ]]; then
    echo "removes guards from the plain build only"
    exit 77
fi
exec "$(dirname "$0")/mutations.sh"
