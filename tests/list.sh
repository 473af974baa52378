#!/bin/bash
# Print what the tests promise: the head of each file and the names of its tests.
#
#   tests/list.sh [NAME...]    folders of tests/, or how files in them begin, as ONLY has them: chaos cli/test_run (all without)
set -u
cd "$(dirname "$0")" || exit 1

for file in */test_*.c */test_*.sh fuzz/fuzz_*.[ch] soak/soak_*.c; do
    if (($#)); then
        for name; do [[ $file != "$name"* ]] || break; done
        [[ $file == "$name"* ]] || continue
    fi
    echo "== $file"
    case $file in
    *.sh) sed -n '2,${/^# shellcheck/d; /^#/!q; s/^# \{0,1\}/  /p}' "$file" ;;
    *)
        sed '/^[^ *\/]/,$d; s/^\(\/\*\| \*\/\| \*\) \{0,1\}/  /; /^ *$/d' "$file"
        sed -n 's/^\(TEST\|TEST_ON\|TEST_WITH\|TEST_IN\|CONFORM\)(\([a-z0-9_]*\).*/    \2/p' "$file"
        ;;
    esac
done
