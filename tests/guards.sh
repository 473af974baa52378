#!/bin/bash
# Remove each guard of tests/guards.txt, one at a time, and show that what its row names fails without it.
# `make mutations` runs this; the last line is "N passed, N failed".
#
#   tests/guards.sh [NAME...]      these guards only
#   SAMPLE=20                      so many that a unit test misses, by that alone; only their files are compiled
#   SEARCH=1                       write down the seeds that were found, and a row for each guard that has none
#
# $BUILD/guarded has the libraries in which the environment's TL_WITHOUT=NAME removes a guard (src/ground/guard.h).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} JOBS=${JOBS:-$(nproc)} table=tests/guards.txt
built=$BUILD/guarded
all=1
if [[ -n ${SAMPLE:-} ]]; then built=$BUILD/guarded/sample all=0; fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

rows() { sed '/^[[:space:]]*\(#.*\)\{0,1\}$/d' "$table"; }

# Where each guard stands: its name and its file.
places() {
    grep -rnoE '(^|[^A-Za-z_])GUARD\([a-z0-9_]+\)' --include='*.[ch]' src compat tools tests/sim |
        sed -n '/^src\/ground\/guard.h:/d; s/^\([^:]*\):[0-9]*:.*GUARD(\(.*\))$/\2 \1/p'
    grep -rnE '^[[:space:]]*-- without [a-z0-9_]+:' --include='*.lua' src compat |
        sed 's/^\([^:]*\):[0-9]*:[[:space:]]*-- without \([a-z0-9_]*\):.*/\2 \1/'
}

# A run only computes. So what counts is the time of the processor: a busy machine changes nothing. The limit is soft, so
# that 152 tells of it: a hard one kills, as whoever runs out of memory is killed too.
within_limit() { (ulimit -S -t "${LIMIT:-300}" && exec timeout 3600 "$@"); }

simulate() { SHRINK=0 SCENARIO=$scenario RUNS=$runs SEED=$first within_limit "$built/sim" 2>/dev/null; }

# What the shipped code says of the seed that a row has found. A scenario that doesn't show has to be seen in as many seeds.
unchanged() {
    local seed=${found#seed } first=$first runs=$runs
    if [[ $found != *' does not show: '* ]]; then first=${seed%%:*} runs=1; fi
    simulate | grep -am1 '^seed'
}

# Look for a seed in which the code without the guard fails, and the shipped code doesn't in the same way: then `found`.
search() {
    local status=0 out
    out=$(TL_WITHOUT=$name simulate) || status=$?
    found=$(grep -am1 '^seed' <<<"$out")
    if ((status == 1)) && [[ -n $found && $(unchanged) == "$found" ]]; then status=0; fi
    return $status
}

by_simulator() { # scenario, or any; seeds, or seeds@first
    local scenario=${1#any} seeds=${2%@*} first=${2#*@} runs=20 status=0 found=
    [[ $first == "$seeds" ]] || search || status=$?
    if ((status == 0)); then
        [[ $first == "$seeds" ]] || : >"$dir/$name.moved"
        first=1 runs=$seeds
        search || status=$?
    fi
    case $status in
    0) said="not found in $seeds seeds" && return 1 ;;
    1) said=${found:-'the simulator says nothing of a seed'} && [[ -n $found ]] ;;
    136 | 138 | 139) said="it crashes" ;;
    152) said="not found in ${LIMIT:-300} s of processor time" && return 1 ;;
    *) said="ended by $status" && return 1 ;;
    esac
}

by_play() { # play, in a crowd?
    TL_WITHOUT=$name PLAY=$1 CROWD=$2 ALL=1 within_limit "$built/tests/sim/test_threads" >"$dir/$name.said" 2>&1
    case $? in
    0) said="not found by the play $1" && return 1 ;;
    124 | 152) said="$1: it never ends" ;;
    *) said=$(grep -am1 'ERROR: ' "$dir/$name.said" || echo "$1: it crashes") ;;
    esac
    ! grep -q "there is no test" "$dir/$name.said" || { said="there is no play $1" && return 1; }
}

by_test() { # unit/test_x
    local program=$built/tests/$1
    if [[ ! -x $program ]]; then said="there is no test $1" && return 1; fi
    # Into a file: of a pipe the end is not seen while a process that it has left behind holds it.
    TL_WITHOUT=$name ALL=$all LIMIT=60 within_limit timeout 300 "$program" >"$dir/$name.said" 2>&1
    case $? in
    0 | 77) said="$1 passes without it" && return 1 ;;
    124 | 152) said="$1: it never ends" ;;
    *) said="$1: $(sed -n 's/^\[  FAILED  \] \([a-z_0-9]\{2,\}\).*/\1/p' "$dir/$name.said" | head -n 1)" ;;
    esac
}

try() { # name, found by
    local name=$1 way what more said found
    while read -r way what more; do
        found= said=
        case $way in
        sim) by_simulator "$what" "$more" ;;
        play) by_play "$what" 0 ;;
        crowd) by_play "$what" 1 ;;
        *) by_test "$way" ;;
        esac || { echo "FAIL  $name: $said" && return 1; }
        echo "ok    $name: $said"
        if [[ $way == sim ]]; then echo "$name $what $more ${said%%:*}" >"$dir/$name.seed"; fi
    done < <(sed 's/, */\n/g' <<<"$2")
}

# What a guard without a row is missed by: a unit test, or the simulator in any seeds.
find_any() { # name
    local name=$1 said program
    for program in "$built"/tests/unit/test_*; do
        [[ -x $program && $program != *.[do] ]] || continue
        if by_test "unit/${program##*/}"; then echo "$name | ? | unit/${program##*/}" && return; fi
    done
    if by_simulator any 3000; then echo "$name | ? | sim any 3000@$(sed 's/^seed \([0-9]*\).*/\1/' <<<"$said")" && return; fi
    echo "$name is missed by nothing: give it a row" >&2
    return 1
}

# ---- the rows ---------------------------------------------------------------------------------
places | cut -d' ' -f1 | sort -u >"$dir/marked"
rows | sed 's/ *|.*//' | sort >"$dir/named"
status=0 want=()
while read -r name; do echo "FAIL  $name: has two rows" && status=1; done < <(uniq -d "$dir/named")
while read -r name; do echo "FAIL  $name: has a row, and stands nowhere in the code" && status=1; done < <(comm -13 "$dir/marked" <(sort -u "$dir/named"))
while read -r name; do echo "FAIL  $name: its row doesn't say what it keeps" && status=1; done < <(rows | sed -n 's/ *| *? *|.*//p')
for name; do
    grep -qx "$name" "$dir/named" || { echo "no guard has the name '$name': $table has them all" && exit 1; }
done
mapfile -t unnamed < <(comm -23 "$dir/marked" <(sort -u "$dir/named"))
if [[ -z ${SEARCH:-} ]]; then
    for name in "${unnamed[@]}"; do echo "FAIL  $name: stands in $(places | sed -n "s/^$name //p" | head -n 1), and has no row" && status=1; done
fi

# Every so many-th of the rows that a unit test finds, without their other ways.
sample() {
    rows | awk -F '|' -v n="$SAMPLE" '{ ways = ""; for (i = split($3, w, ","); i > 0; i--) if (w[i] ~ /unit\//) ways = w[i] }
        ways != "" { row[count++] = $1 "|" $2 "|" ways }
        END { for (i = 0; i < n && i < count; i++) print row[int(i * count / n)] }'
}

chosen=() files=(src/ground/guard.c)
while IFS='|' read -r name _ found_by; do
    name=${name// /}
    if (($#)) && [[ " $* " != *" $name "* ]]; then continue; fi
    if [[ -n ${SAMPLE:-} ]]; then mapfile -t -O "${#files[@]}" files < <(places | sed -n "s/^$name //p"); fi
    chosen+=("$name|$found_by")
    for what in ${found_by//,/ }; do
        case $what in
        sim) want+=("$built/sim") ;;
        play | crowd) want+=("$built/tests/sim/test_threads") ;;
        */*) want+=("$built/tests/$what") ;;
        esac
    done
done < <(if [[ -n ${SAMPLE:-} ]]; then sample; else rows; fi)
if [[ -n ${SEARCH:-} ]] && ((${#unnamed[@]})); then
    want+=("$built/sim")
    for what in tests/unit/test_*.c; do want+=("$built/${what%.c}"); done
fi
mapfile -t want < <(printf '%s\n' "${want[@]}" | sort -u)
mapfile -t files < <(printf '%s\n' "${files[@]}" | sed 's,.*\.lua$,src/wire/script.c,' | sort -u)
MAKEFLAGS= make --no-print-directory -j"$JOBS" CC="${CC:-cc}" GUARDED_SRC="${files[*]}" "${want[@]}" >"$dir/make" 2>&1 || { tail -n 20 "$dir/make" && exit 1; }

running=0
for each in "${chosen[@]}"; do
    if ((running >= JOBS)); then wait -n; running=$((running - 1)); fi
    try "${each%%|*}" "$(sed 's/^ *//; s/ *$//' <<<"${each#*|}")" >"$dir/${each%%|*}.out" 2>&1 &
    running=$((running + 1))
done
wait
cat "$dir"/*.out | sort -s -r -k1,1 # failures come last, where they are seen

if [[ -n ${SEARCH:-} ]]; then
    cat "$dir"/*.seed 2>/dev/null | while read -r name scenario seeds _ seed; do
        [[ $seed =~ ^[0-9]+$ ]] || continue # it crashes
        now=${seeds%@*}
        ((seed < 20)) || now+=@$seed
        sed -i "s/^\($name *|.*sim $scenario \)$seeds\>/\1$now/" "$table"
    done
    for name in "${unnamed[@]}"; do find_any "$name" >>"$table" || status=1; done
fi
passed=$(cat "$dir"/*.out | grep -c '^ok') failed=$(cat "$dir"/*.out | grep -c '^FAIL')
moved=$(find "$dir" -name '*.moved' | wc -l)
((moved == 0)) || echo "the seeds of $moved rows show nothing any more, and it took long to find others: SEARCH=1 notes them"
echo "$passed passed, $((failed + status)) failed"
((failed + status == 0))
