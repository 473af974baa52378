#!/bin/bash
# make check-all: what must be green before a change lands, step by step with its time: make check, each guard that is removed, and
# some tests under the sanitizers. LONG=1 adds what takes hours on two slow processors: lint with all paths, fuzzers, models, the
# whole simulation, valgrind, the other compiler, and all that the sanitizers can run. The tests mostly wait, so
# what only computes (the builds of later steps, lint, fuzzers, models) goes on beside them, where the processor is idle; its
# output comes last.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
unset MAKEFLAGS MAKELEVEL MFLAGS # each step is a make of its own

long=${LONG:-}

began=$SECONDS beside=
dir=$(mktemp -d)
guards=
trap '[[ -z $beside ]] || kill -- "-$beside" 2>/dev/null || :; [[ -z $guards ]] || kill "$guards" 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

# A step that says "N passed, N failed, N skipped" counts as it says; any other counts as one.
step() { # label, command...
    local label=$1 log=$dir/$BASHPID.log start=$SECONDS status=0 counts p f s
    shift
    echo "==== $label: $*"
    "$@" 2>&1 | tee "$log" || status=$?
    counts=$(sed -n 's/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed, \([0-9][0-9]*\) skipped.*/\1 \2 \3/p; t
        s/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed.*/\1 \2/p' "$log" | tail -n 1)
    read -r p f s <<<"${counts:-$((status == 0)) $((status != 0))}"
    if ((status != 0 && f == 0)); then f=1; fi
    echo "$p $f ${s:-0} $label" >>"$dir/counts"
    echo "==== $label: $( ((f == 0)) && echo ok || echo FAILED) in $((SECONDS - start)) s"
    echo
}

# Whatever has threads; the services of legacy/ are shown with the plain build.
threaded="conform chaos unit/test_conn unit/test_wakeup unit/test_fake_tcp unit/test_gate unit/test_tls unit/test_local
    cli/test_run"
# In valgrind a program has one processor and takes thirty times as long, so these alone: many threads, the queue,
# callbacks, renewals, and replies and connections that are lost. Not: the promises with each row of protocols, whose
# processes start for longer than all the rest takes; what is timed against a server that is stopped, restarted or
# replaced; chaos/test_fork, as a child that ends without freeing its parent's memory counts as a leak; the two
# test_local, since valgrind ends with a program that can't be executed.
many="unit/test_conn unit/test_wakeup unit/test_fake_tcp unit/test_gate unit/test_tls conform/test_queue conform/test_async
    conform/test_many conform/test_simple chaos/test_threads chaos/test_loops chaos/test_queue_down
    chaos/test_lost_take chaos/test_lost_answer chaos/test_cut chaos/test_login_cut chaos/test_disturb chaos/test_scarce
    chaos/test_names chaos/test_permissions chaos/test_refusals chaos/test_compat_watch"
quick="-O1 -g" # to build
under_memory="unit wire worlds fuzz conform chaos cli/test_lock"
variants=(thread memory clang small)
if [[ -z $long ]]; then
    threaded="unit/test_conn unit/test_wakeup unit/test_gate conform/test_queue conform/test_async conform/test_many
        chaos/test_threads chaos/test_loops"
    under_memory="unit wire worlds"
    variants=(thread memory)
fi
thread=(SAN=thread CFLAGS="$quick" ONLY="$threaded")
memory=(SAN=address,undefined CFLAGS="$quick" ONLY="$under_memory")
clang=(CC=clang CFLAGS="$quick" ONLY="unit wire")
small=(COMPAT=0 TLS=0 CFLAGS="$quick" ONLY="unit wire conform/test_acquire")

# First what both would install and make.
step 'what is needed' env CC=clang SAN=fuzzer tools/need.sh build check ${long:+lint model valgrind}
# What no test runs is built all the same.
mapfile -t soaks < <(printf '%s\n' tests/soak/soak_*.c | sed 's,^,build/,; s,\.c$,,')
step 'build' make -j"$(nproc)" all progs build/bench build/sim "${soaks[@]}"

build_rest() {
    for variant in "${variants[@]}"; do
        declare -n with=$variant
        make -j"$(nproc)" "${with[@]}" all progs || return
    done
}
set -m # a group of its own, so that it can be ended as a whole
(
    chrt -i -p 0 "$BASHPID" >/dev/null
    step 'builds of later steps' build_rest
    touch "$dir/built"
    [[ $long ]] || exit 0
    step 'simulation' make check ONLY='sim/test_sim' ALL=1 LOGS=build/log-sim
    step 'lint' make lint DEEP=1
    step 'fuzzers' make fuzz FUZZ_SECONDS=6
    # The newest, if they are quick; all of them (make model) take longer than everything else here.
    step 'models' make model MODELS='^phase-(no-[lnc]|no-wait$|from|refused|tool|client)|^pair-(turned|left)$|^pairn-native-left|^fenceincr(-no|-at|-from)|^line-(no-|grant|unbound|lapse)|^reign-|^sentinel-|^quorum-'
) >"$dir/beside" 2>&1 &
beside=$!
set +m

step 'check' make check
step 'demo' make demo
if [[ $long ]]; then step 'threads, valgrind' make check VALGRIND=1 ONLY="$many"; fi
# What isn't built yet has all of the processor now.
while [[ ! -e $dir/built ]] && kill -0 "$beside" 2>/dev/null; do sleep 0.2; done
step 'threads, thread sanitizer' make check "${thread[@]}"
step 'address and undefined sanitizers' make check "${memory[@]}"
# What make check leaves out, and what it takes a sample of; one of these computes alone for long, so guards are removed beside.
mapfile -t later < <(grep -lm1 'Only in make check-all' tests/*/test_* | sed 's,^tests/,,; s,\.[a-z]*$,,')
step 'guards' make mutations >"$dir/guards" 2>&1 &
guards=$!
step 'what make check leaves out' make check ALL=1 \
    ONLY="${later[*]} sim/test_threads unit/test_compat_stamp_explore unit/test_skew_track cli/test_cxx cli/test_metrics cli/test_monitoring
        ${long:+cli/test_run_once_hosts}"
wait "$guards" || echo "0 1 0 guards" >>"$dir/counts"
guards=
cat "$dir/guards"
if [[ $long ]]; then
    step 'clang' make check "${clang[@]}"
    step 'without compat and TLS' make check "${small[@]}"
fi

wait "$beside" || echo "0 1 0 what went on beside" >>"$dir/counts"
beside=
cat "$dir/beside"

passed=0 failed=0 skipped=0
while read -r p f s label; do
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    ((f == 0)) || echo "failed: $label"
done <"$dir/counts"
echo "in all: $((SECONDS - began)) s"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
