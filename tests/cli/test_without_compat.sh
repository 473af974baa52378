#!/bin/bash
# A checkout whose folder compat/ was deleted builds, and neither library, tool, help, completion nor man pages know
# anything of the migration: what is listed here.
# Only in make check-all: it builds everything once more.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi

copy=$work/copy
mkdir "$copy"
(cd "$here" && find . -path ./build -prune -o -path ./.git -prune -o -path ./compat -prune -o -type f -print0 | xargs -0 cp --parents -t "$copy") ||
    fail "the tree can't be copied"
quiet=(env -u BUILD -u COMPAT -u ONLY -u MAKEFLAGS -u SAN make -s -C "$copy" -j2 TLS=0 CFLAGS=-O0)
"${quiet[@]}" lib tool >"$out" 2>&1 || fail "it doesn't build: $(tail -n 5 "$out")"
built=$copy/build/notls
without=$built/tidelock
[[ -x $without ]] || fail "no tool was built"

# ---- what the objects are called, and what they define and say ---------------------------------------
absent() { # what, pattern; text on stdin, by no pipe, as that would end a subshell alone
    ! grep -E "$2" >"$work/found" || depth=1 fail "$1 of a build without compat: $(head -n 5 "$work/found" | tr '\n' ' ')"
}
objects() { ar t "$built/libtidelock.a" && find "$built/obj/tools" -name '*.o' -printf '%f\n'; }
defined() { nm "$built/libtidelock.a" "$without" 2>/dev/null | awk '$2 ~ /[TtDdRrBb]/ { print $3 }'; }
said() { strings -n 4 "$built/libtidelock.so" "$without" | grep -v '^tl_[a-z]'; }
(($(defined | wc -l) > 1000 && $(said | wc -l) > 1000)) || fail "there is nothing to look at"
absent 'object' '^(dialect|phase|stamp|protocol_auto|upkeep|watching|distribute|legacy|migrate|skew_(passive|listen|legacy|monitor|stamp|publish))' < <(objects)
absent 'symbol' '(^|_)(lease|phase|namespace|attend|dialect_(find|at)|stamp_(look|rules|try)|migrate|passive|monitor|skew_publish)' < <(defined | grep -vE '^(tl__(etcd|leases)_.*|lease_of|choose_lease|tells_leases|lists_no_leases)$') # whose leases are others
absent 'text' '(--(protocol|namespace|clock-guard|dialect|legacy-|max-skew|passive|pool-wait|publish)|MONITOR|migrat|a legacy client)' < <(said)
absent 'symbol' '^(tl__(watching|keeper_watch.*|keeper_look.*)|go_by_events|hear_events|on_changed)$' < <(defined)
absent 'text' '(tidelock:phase|SETNX|GETSET|^TRACKING|__keyspace)' < <(said)

# ---- what its user meets -------------------------------------------------------------------------------
tidelock=$without
expect 0 "$tidelock" help
absent 'help' 'migrate|dialects' <"$out"
for c in run lock unlock extend check inspect break skew doctor; do
    expect 0 "$tidelock" $c --help-all
    absent "$c --help-all" '(--(protocol|namespace|clock-guard|dialect|legacy|max-skew|strict|passive|keys|publish)|with legacy clients)' <"$out"
done
expect_line 64 'unknown command migrate' "$tidelock" migrate status
expect_line 64 'no such command' "$tidelock" help dialects
expect_line 64 'no such command' "$tidelock" help migrate
for o in '--protocol bridge' '--namespace n' '--clock-guard off' '--dialect java' '--legacy-ttl 60s' '--max-skew 1s' '--legacy-lag 1s' --strict; do
    # shellcheck disable=SC2086 # words
    expect_line 64 "unknown option ${o%% *}; see: tidelock check --help-all" "$tidelock" check $o k
done
for o in --passive '--publish n' '--keys x' '--pool-wait 1s' '--dialect java' '--legacy-ttl auto'; do
    # shellcheck disable=SC2086 # words
    expect_line 64 "unknown option ${o%% *}; see: tidelock skew --help-all" "$tidelock" skew $o
done
expect_line 64 'unknown option --protocol' "$tidelock" doctor --protocol bridge

# It locks, on a server that others use too.
start_server
expect 0 "$tidelock" run k -- true
expect 0 "$tidelock" inspect

# ---- what is installed -----------------------------------------------------------------------------------
root=$work/root
"${quiet[@]}" install DESTDIR="$root" PREFIX=/usr >"$out" 2>&1 || fail "it isn't installed: $(tail -n 5 "$out")"
absent 'installed file' '(legacy|migrat|MIGRATION|RUNBOOK|distribute)' < <(find "$root" -printf '%f\n')
absent 'completion' '(--(protocol|dialect|legacy-|max-skew|passive|publish)|migrate )' <"$root/usr/share/bash-completion/completions/tidelock"
exit 0
