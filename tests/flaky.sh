#!/bin/bash
# Run tests again and again, beside busy processes if wanted, and tell which of them fail now and then: a table of the files by
# the time that they took, with their failures. Logs of failures stay in $BUILD/flaky.
#
#   BUILD=build RUNS=20 LOAD=8 tests/flaky.sh tests/unit/test_a.c tests/cli/test_b.sh ...     as make check-flaky does
set -u
BUILD=${BUILD:-build} RUNS=${RUNS:-10} LOAD=${LOAD:-0}
for n in "$RUNS" "$LOAD"; do
    [[ $n =~ ^[0-9]+$ ]] || { echo "RUNS and LOAD are numbers, not '$n'"; exit 2; }
done
kept=$BUILD/flaky
rm -rf "$kept"
mkdir -p "$kept"
set -m # each in a group of its own
busy=()
trap '((${#busy[@]} == 0)) || kill -- "${busy[@]/#/-}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
for ((i = 0; i < LOAD; i++)); do
    chrt -o 0 sh -c 'while :; do :; done' &
    busy+=("$!")
done
set +m

failed=0
for ((run = 1; run <= RUNS; run++)); do
    began=$SECONDS
    LOGS=$kept/run tests/run.sh "$@" >"$kept/$run.log" 2>&1 || failed=$((failed + 1))
    printf 'run %3d of %d: %s in %d s\n' "$run" "$RUNS" "$(tail -n 1 "$kept/$run.log")" $((SECONDS - began))
    sed -n '/^failed: /,$p' "$kept/$run.log" | sed '$d; s/^/    /'
    for done in "$kept"/run/*.done; do
        name=$(basename "$done" .done)
        read -r status took <"$done"
        echo "$name $status $took" >>"$kept/times"
        case $status in 0 | 77) ;; *) cp "$kept/run/$name.log" "$kept/$name.$run.log" ;; esac
    done
done

echo
printf '%-46s %9s %9s %9s %7s\n' file shortest middle longest failed
sort -k1,1 -k3,3n "$kept/times" | awk '
    function tell() { if (n) printf "%-46s %9.2f %9.2f %9.2f %7s\n", name, t[1], t[int((n + 1) / 2)], t[n], bad ? bad : "" }
    $1 != name { tell(); name = $1; n = bad = 0 }
    { t[++n] = $3; bad += $2 != 0 && $2 != 77 }
    END { tell() }' | sort -k3,3rn | sed 's/\./\//'
echo "$((RUNS - failed)) runs without a failure, $failed with (logs: $kept)"
((failed == 0))
