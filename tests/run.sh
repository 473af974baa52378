#!/bin/bash
# Run the test files given, one line each, and end with "N passed, N failed, N skipped".
#
#   BUILD=build tests/run.sh tests/unit/test_a.c tests/cli/test_b.sh tests/fuzz/fuzz_c.c ...
#
# A .c file is run as $BUILD/tests/unit/test_a; a .sh file as it is, with BUILD and TIDELOCK set;
# a fuzz target replays its corpus. Exit 77 is "skipped". Each is meant to end within 120 s, or
# within N s with a line "timeout: N" among the file's first 15 (three times that under a sanitizer,
# ten times under valgrind). For the simulator's tests that is a limit on the time of the processor. The
# others wait, and a busy machine makes them slow: they are ended after five times as long.
# VALGRIND=1 runs the programs in valgrind, but not those that they start.
#
# A file that skipped all counts as skipped, and so does each test that was skipped in a file which otherwise passed, be it a
# program or a script (part_skipped in tests/cli/lib.sh); the end lists them all with their reasons.
#
# REDIS_SERVER=PATH runs that program wherever a test starts redis-server: it comes first on the PATH by this name. ETCD=PATH
# is the same for etcd, with the etcdctl that lies beside it, if one does. CLUSTER_SERVER=PATH is used by tests that ask for it alone.
set -u
BUILD=${BUILD:-build} SAN=${SAN:-} JOBS=${JOBS:-1} VALGRIND=${VALGRIND:-}
export BUILD SAN TIDELOCK=$BUILD/tidelock
(($# > 0)) || { echo "no test has this name: ONLY takes folders of tests/ and how files in them begin, as in ONLY=\"unit cli/test_run\""; exit 1; }
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# A child may start threads though one of an earlier test was still ending at the fork.
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:die_after_fork=0}
logs=${LOGS:-$BUILD/log}
mkdir -p "$logs"
rm -rf "$logs"/*

stands_for() { # name, program
    mkdir -p "$logs/server"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$2" >"$logs/server/$1"
    chmod 755 "$logs/server/$1"
}
for asked in REDIS_SERVER ETCD CLUSTER_SERVER; do
    if [[ -z ${!asked:-} ]]; then
        unset "$asked" # so that a test sees whether another was asked for
        continue
    fi
    program=$(realpath -se -- "${!asked}" 2>/dev/null) && what=$("$program" --version 2>/dev/null) ||
        { echo "$asked: '${!asked}' is no server that runs here"; exit 1; }
    case $asked in
    REDIS_SERVER) stands_for redis-server "$program" ;;
    CLUSTER_SERVER) CLUSTER_SERVER=$program ;;
    ETCD)
        stands_for etcd "$program"
        if [[ -x ${program%/*}/etcdctl ]]; then stands_for etcdctl "${program%/*}/etcdctl"; fi
        ;;
    esac
    echo "server: ${what%%$'\n'*}"
done
if [[ -d $logs/server ]]; then PATH=$(realpath "$logs/server"):$PATH; fi

# What a program is started by. ThreadSanitizer of older compilers cannot live with much address
# randomisation.
by=()
if [[ $SAN == *thread* ]] && setarch "$(uname -m)" -R true 2>/dev/null; then by=(setarch "$(uname -m)" -R); fi
if [[ $VALGRIND == 1 ]]; then
    by=(valgrind -q --fair-sched=yes --error-exitcode=99 --leak-check=full --show-leak-kinds=definite
        --errors-for-leak-kinds=definite)
fi

name_of() { local n=${1#tests/}; echo "${n%.*}"; }

patience=5

limit_of() {
    local n
    n=$(sed -n '1,15s/.*timeout: *\([0-9][0-9]*\).*/\1/p' "$1" | head -n 1)
    n=${n:-120}
    [[ -z $SAN ]] || n=$((n * 3))
    [[ $VALGRIND != 1 ]] || n=$((n * 10))
    echo "$n"
}

# The simulator waits for nothing: its limit counts the time of the processor, and another ends what hangs all the same.
computes() { # source file
    local limit program=("${by[@]}" "$BUILD/tests/$(name_of "$1")")
    limit=$(limit_of "$1")
    if [[ $1 == *.sh ]]; then program=("./$1"); fi
    (ulimit -t "$limit" && exec timeout -k 5 $((limit * 6)) "${program[@]}")
}

run_one() { # source file; leaves in $logs its exit status, its time, and that of the processor
    local name log status start end cpu
    name=$(name_of "$1") log=$logs/${name//\//.}
    start=$(date +%s%N)
    case $1 in
    tests/sim/*) computes "$1" ;;
    *.sh) timeout -k 5 $(($(limit_of "$1") * patience)) "./$1" ;;
    tests/fuzz/*)
        find "tests/fuzz/corpus/${name#fuzz/fuzz_}" -type f -print0 2>/dev/null | sort -z |
            timeout -k 5 $(($(limit_of "$1") * patience)) xargs -0 "${by[@]}" "$BUILD/tests/$name"
        ;;
    *) timeout -k 5 $(($(limit_of "$1") * patience)) "${by[@]}" "$BUILD/tests/$name" ;;
    esac >"$log.log" 2>&1 </dev/null
    status=$?
    end=$(date +%s%N)
    # What the shell's children have taken, as "0m1.234s 0m0.567s" in the second line.
    times >"$log.times" # in this shell: another has no children
    cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, "[ms]"); s += t[1] * 60 + t[2] } printf "%.2f", s }' "$log.times")
    rm -f "$log.times"
    printf '%s %d.%02d %s\n' $status $(((end - start) / 1000000000)) $(((end - start) / 10000000 % 100)) "$cpu" >"$log.done"
}

# A log without the tests that passed and said nothing: of hundreds, they hide the one that failed.
what_failed() {
    awk '/^\[ RUN  / { begun = $0 "\n"; next }
        /^\[       OK \]/ || /^\[  SKIPPED \]/ || /^\[ NO PROMISE \]/ { begun = ""; next }
        { printf "%s%s\n", begun, $0; begun = "" }
        END { printf "%s", begun }'
}

# The tests that a program skipped, a line each: cmocka names them at its end, and the reason, if it was told, is the last
# that was said of this kind while the test ran.
parts_skipped() { # name of the file
    awk -v file="$1" '/^\[ RUN  / { why = "" }
        /^SKIP: / { why = substr($0, 7) }
        /^\[  SKIPPED \] [^ 0-9]/ && !seen[$0]++ { sub(/^\[  SKIPPED \] /, ""); print file ": " $0 (why == "" ? "" : ": " why); why = "" }'
}

passed=0 failed=0 skips=() failures=()
report() { # source file
    local name log status took cpu
    name=$(name_of "$1") log=$logs/${name//\//.}
    read -r status took cpu <"$log.done"
    case $status in
    0)
        local parts
        mapfile -t parts < <(parts_skipped "$name" <"$log.log")
        skips+=("${parts[@]}")
        if [[ $1 != *.sh ]] && ((${#parts[@]} > 0)) && ! grep -q '^\[       OK \]' "$log.log"; then
            printf 'skip  %-44s %s\n' "$name" "all of its tests"
            return
        fi
        passed=$((passed + 1))
        printf 'ok    %-44s %6s s, processor %6s s%s\n' "$name" "$took" "${cpu:-?}" "$( ((${#parts[@]} == 0)) || echo ", ${#parts[@]} skipped")"
        ;;
    77)
        skips+=("$name: $(sed -n '$s/^SKIP: //; $p' "$log.log")")
        printf 'skip  %-44s %s\n' "$name" "$(sed -n '$s/^SKIP: //; $p' "$log.log")"
        ;;
    *)
        failed=$((failed + 1)) failures+=("$name")
        case $status in 124 | 137 | 152) took="$took s (time limit)" ;; *) took="$took s (status $status)" ;; esac
        printf 'FAIL  %-44s %6s\n' "$name" "$took"
        what_failed <"$log.log" | tail -n 200 | sed 's/^/      | /'
        ;;
    esac
}

# What is wrong, in few lines: of a program each test that failed, what it expected and where; else the end of what was said.
in_short() { # name of the file
    local log=$logs/${1//\//.}.log
    { awk '/^\[ RUN  / { test = $NF; why = "" }
        /^ERROR: / || /^\[  ERROR   \] --- [^[]/ {
            sub(/^ERROR: |^\[  ERROR   \] --- /, "")
            why = why (why == "" ? "" : "; ") $0
        }
        match($0, /\[   LINE   \] --- [^ ]*:/) { where = substr($0, RSTART + 17, RLENGTH - 18) }
        /^\[       OK \]|^\[  SKIPPED \]/ { test = "" }
        /^\[  FAILED  \] / && test != "" { print test ": " why " (" where ")"; test = "" }' "$log"
        grep -v '^\[\|^ *$\|FAILED TEST' "$log" | tail -n 3; } | head -n 3 | cut -c1-300
}

# ---- which goes when --------------------------------------------------------------------------
# unit first, with what else is pure: the quickest to tell of a fault. Then, side by side, the simulator, which computes for
# long, and what mostly waits: the tool's, the promises and the faults, many at once, each with a server of its own and generous
# bounds; and, one at a time, the rest. Of each kind what may take longest begins first, or it would be all that goes on in the
# end.
pure=() long=() waiting=() alone=()
mapfile -t sorted < <(for t in "$@"; do echo "$(limit_of "$t") $t"; done | sort -s -k1,1rn | cut -d' ' -f2-)
for t in "${sorted[@]}"; do case $t in tests/unit/*) pure+=("$t") ;; esac; done
for t in "${sorted[@]}"; do
    case $t in
    tests/unit/*) ;;
    tests/wire/* | tests/fuzz/* | tests/lint/* | tests/bench/*) pure+=("$t") ;;
    tests/sim/*) long+=("$t") ;;
    tests/cli/* | tests/conform/* | tests/chaos/*) waiting+=("$t") ;;
    *) alone+=("$t") ;;
    esac
done

declare -A most=([pure]=$JOBS [long]=$JOBS [waiting]=$((JOBS * 3)) [alone]=1) busy=() lane_of=() pid_of=() began_at=()
total=$# over=0 told_at=$SECONDS tick=

begin() { # lane, source file
    run_one "$2" &
    pid_of[$2]=$! lane_of[$2]=$1 began_at[$2]=$SECONDS
    busy[$1]=$((${busy[$1]:-0} + 1))
}

fill() { # lane
    local -n files=$1
    while ((${#files[@]} > 0 && ${busy[$1]:-0} < most[$1])); do
        begin "$1" "${files[0]}"
        files=("${files[@]:1}")
    done
}

# Report what has ended; what was killed with its shell counts as killed.
sweep() {
    local t log
    for t in "${!pid_of[@]}"; do
        log=$(name_of "$t") log=$logs/${log//\//.}
        if [[ ! -s $log.done ]]; then
            if kill -0 "${pid_of[$t]}" 2>/dev/null; then continue; fi
            [[ -s $log.done ]] || echo "137 $((SECONDS - began_at[$t])).00" >"$log.done"
        fi
        report "$t"
        over=$((over + 1)) busy[${lane_of[$t]}]=$((${busy[${lane_of[$t]}]} - 1))
        unset "pid_of[$t]"
    done
}

# How far it is, now and then, and what it waits for.
tell_progress() {
    ((SECONDS - told_at >= 20)) || return
    told_at=$SECONDS
    for t in "${!pid_of[@]}"; do echo "$((SECONDS - began_at[$t])) $(name_of "$t")"; done | sort -rn | head -n 3 |
        awk -v head="      $over of $total done, $failed failed; the longest that go on:" \
            '{ s = s (NR > 1 ? "," : "") " " $2 " " $1 " s" } END { print head s }'
}

run_lanes() { # their names
    local lane
    while :; do
        for lane in "$@"; do fill "$lane"; done
        ((${#pid_of[@]} > 0)) || break
        if [[ -z $tick ]] || ! kill -0 "$tick" 2>/dev/null; then sleep 5 >/dev/null 2>&1 & tick=$!; fi
        wait -n # a test's end, or the tick, so that progress is told meanwhile
        sweep
        tell_progress
    done
}

run_lanes pure
run_lanes waiting long alone
kill "$tick" 2>/dev/null

if ((${#skips[@]} > 0)); then
    echo "skipped:"
    printf '  %s\n' "${skips[@]}" | sort
fi
for name in "${failures[@]}"; do
    echo "failed: $name; alone: make check${SAN:+ SAN=$SAN}${VALGRIND:+ VALGRIND=$VALGRIND} ONLY=$name"
    in_short "$name" | sed 's/^/  /'
done
echo "$passed passed, $failed failed, ${#skips[@]} skipped"
((failed == 0 && passed > 0))
