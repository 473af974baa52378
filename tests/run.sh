#!/bin/bash
# Run the test files given, one line each, and end with "N passed, N failed, N skipped".
#
#   BUILD=build tests/run.sh tests/unit/test_a.c tests/cli/test_b.sh tests/fuzz/fuzz_c.c ...
#
# A .c file is run as $BUILD/tests/unit/test_a; a .sh file as it is, with BUILD and TIDELOCK set;
# a fuzz target replays its corpus. Exit 77 is "skipped". Each runs under a time limit of 120 s,
# or of N s with a line "timeout: N" among the file's first 15 (three times that under a sanitizer,
# ten times under valgrind); of the simulator's tests it is the time of the processor. VALGRIND=1 runs the programs in valgrind, but not those that they start.
# Folders that share nothing run JOBS at once, the others one file at a time.
#
# A file that skipped all counts as skipped, and so does each test that was skipped in a file which otherwise passed, be it a
# program or a script (part_skipped in tests/cli/lib.sh); the end lists them all with their reasons.
#
# REDIS_SERVER=PATH runs that program wherever a test starts redis-server: it comes first on the PATH by this name. ETCD=PATH
# is the same for etcd, with the etcdctl that lies beside it, if one does.
set -u
BUILD=${BUILD:-build} SAN=${SAN:-} JOBS=${JOBS:-1} VALGRIND=${VALGRIND:-}
export BUILD SAN TIDELOCK=$BUILD/tidelock
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
for asked in REDIS_SERVER ETCD; do
    if [[ -z ${!asked:-} ]]; then
        unset "$asked" # so that a test sees whether another was asked for
        continue
    fi
    program=$(realpath -se -- "${!asked}" 2>/dev/null) && what=$("$program" --version 2>/dev/null) ||
        { echo "$asked: '${!asked}' is no server that runs here"; exit 1; }
    case $asked in
    REDIS_SERVER) stands_for redis-server "$program" ;;
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

run_one() { # source file; leaves its exit status and its time in $logs
    local name log status start end
    name=$(name_of "$1") log=$logs/${name//\//.}
    start=$(date +%s%N)
    case $1 in
    tests/sim/*) computes "$1" ;;
    *.sh) timeout -k 5 "$(limit_of "$1")" "./$1" ;;
    tests/fuzz/*)
        find "tests/fuzz/corpus/${name#fuzz/fuzz_}" -type f -print0 2>/dev/null | sort -z |
            timeout -k 5 "$(limit_of "$1")" xargs -0 "${by[@]}" "$BUILD/tests/$name"
        ;;
    *) timeout -k 5 "$(limit_of "$1")" "${by[@]}" "$BUILD/tests/$name" ;;
    esac >"$log.log" 2>&1 </dev/null
    status=$?
    end=$(date +%s%N)
    printf '%s %d.%02d\n' $status $(((end - start) / 1000000000)) $(((end - start) / 10000000 % 100)) >"$log.done"
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

passed=0 failed=0 skips=()
report() { # source file
    local name log status took
    name=$(name_of "$1") log=$logs/${name//\//.}
    read -r status took <"$log.done"
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
        printf 'ok    %-44s %6s s%s\n' "$name" "$took" "$( ((${#parts[@]} == 0)) || echo ", ${#parts[@]} skipped")"
        ;;
    77)
        skips+=("$name: $(sed -n '$s/^SKIP: //; $p' "$log.log")")
        printf 'skip  %-44s %s\n' "$name" "$(sed -n '$s/^SKIP: //; $p' "$log.log")"
        ;;
    *)
        failed=$((failed + 1))
        case $status in 124 | 137 | 152) took="$took s (time limit)" ;; *) took="$took s (status $status)" ;; esac
        printf 'FAIL  %-44s %6s\n' "$name" "$took"
        what_failed <"$log.log" | tail -n 200 | sed 's/^/      | /'
        ;;
    esac
}

# unit first; then what else is pure; then, four times as many at a time, what mostly waits: the tool's, the
# promises and the faults, each with a server of its own and generous bounds; then, one at a time, the
# rest. The simulator computes for long: what waits goes on beside it. Of each kind what may take longest begins
# first, or it would be all that goes on in the end.
pure=() long=() waiting=() faults=() alone=()
mapfile -t sorted < <(for t in "$@"; do echo "$(limit_of "$t") $t"; done | sort -s -k1,1rn | cut -d' ' -f2-)
for t in "${sorted[@]}"; do case $t in tests/unit/*) pure+=("$t") ;; esac; done
for t in "${sorted[@]}"; do
    case $t in
    tests/unit/*) ;;
    tests/wire/* | tests/fuzz/* | tests/lint/* | tests/bench/*) pure+=("$t") ;;
    tests/sim/*) long+=("$t") ;;
    tests/cli/*) waiting+=("$t") ;;
    tests/conform/* | tests/chaos/*) faults+=("$t") ;;
    *) alone+=("$t") ;;
    esac
done

run_group() ( # how many at a time, source files...
    most=$1 running=0
    shift
    for t in "$@"; do
        if ((running >= most)); then wait -n; running=$((running - 1)); fi
        run_one "$t" &
        running=$((running + 1))
    done
    wait
)
report_group() { for t in "$@"; do report "$t"; done; }

run_group "$JOBS" "${pure[@]}"
report_group "${pure[@]}"
(renice -n 10 -p "$BASHPID" >/dev/null; run_group "$JOBS" "${long[@]}") &
run_group $((JOBS * 4)) "${waiting[@]}" "${faults[@]}"
report_group "${waiting[@]}" "${faults[@]}"
wait
report_group "${long[@]}"
run_group 1 "${alone[@]}"
report_group "${alone[@]}"

if ((${#skips[@]} > 0)); then
    echo "skipped:"
    printf '  %s\n' "${skips[@]}"
fi
echo "$passed passed, $failed failed, ${#skips[@]} skipped"
((failed == 0 && passed > 0))
