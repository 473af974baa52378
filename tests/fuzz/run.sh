#!/bin/bash
# Run fuzz targets, JOBS at once, each FUZZ_SECONDS long; one line each, and a total. What was learnt
# stays in $BUILD/fuzz/NAME and is begun with next time; what breaks a property is kept in $BUILD/fuzz.
#
#   BUILD=build/clang-san-... FUZZ_SECONDS=60 JOBS=2 tests/fuzz/run.sh $BUILD/tests/fuzz/fuzz_reply ...
set -u
BUILD=${BUILD:-build} FUZZ_SECONDS=${FUZZ_SECONDS:-60} JOBS=${JOBS:-1}
dir=$BUILD/fuzz

run_one() { # target
    local name=${1##*/fuzz_} options
    mkdir -p "$dir/$name"
    read -ra options <<<"$(sed -n 's/^ \* fuzz: *//p' "tests/fuzz/fuzz_$name.c")" # of its own
    "$1" "${options[@]}" -max_total_time="$FUZZ_SECONDS" -timeout=60 -print_final_stats=1 -artifact_prefix="$dir/$name-" \
        "$dir/$name" "tests/fuzz/corpus/$name" >"$dir/$name.log" 2>&1 </dev/null
    echo $? >"$dir/$name.done"
}

passed=0 failed=0 total=0
report() { # target
    local name=${1##*/fuzz_} log status runs rate
    log=$dir/$name.log
    read -r status <"$dir/$name.done"
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    total=$((total + ${runs:-0}))
    if ((status == 0)); then
        passed=$((passed + 1))
        printf 'ok    fuzz %-12s %12d executions %8d/s\n' "$name" "$runs" "$rate"
    else
        failed=$((failed + 1))
        printf 'FAIL  fuzz %-12s (status %d)\n' "$name" "$status"
        tail -n 60 "$log" | sed 's/^/      | /'
    fi
}

mkdir -p "$dir"
rm -f "$dir"/*.done
running=0
for t in "$@"; do
    if ((running >= JOBS)); then wait -n; running=$((running - 1)); fi
    run_one "$t" &
    running=$((running + 1))
done
wait
for t in "$@"; do report "$t"; done
echo "$passed passed, $failed failed, $total executions"
((failed == 0 && passed > 0))
