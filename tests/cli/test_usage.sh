#!/bin/bash
# Help, version, and wrong usage: one clear line each, with the documented status.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# ---- help and version -------------------------------------------------------------------------
commands="run lock unlock extend check inspect break local help"
expect 0 "$tidelock" --version
grep -qxE 'tidelock [0-9]+\.[0-9]+\.[0-9]+' "$out" || fail "version: $(cat "$out")"
expect 0 "$tidelock" help
for c in $commands; do grep -qE "^  $c " "$out" || fail "help does not name $c"; done
for n in 64 69 70 77 78; do grep -qE "(^|[ ,:])$n [a-z]" "$out" || fail "help does not say what status $n is"; done
expect 0 "$tidelock" --help
for c in $commands; do
    expect 0 "$tidelock" help "$c"
    grep -q "^usage: tidelock $c" "$out" || fail "help $c has no usage"
    [[ ! -s $err ]] || fail "help $c writes to stderr"
done
expect 0 "$tidelock" run --help-all
for o in --ttl --wait --no-wait --fair --conflict-exit-code --on-lost --max-hold --forever --json-fd --url --password-file; do
    grep -q -- "$o" "$out" || fail "run --help-all does not name $o"
done
expect_line 64 'no such command' "$tidelock" help nonsense
# A help text that did not arrive is a failure.
if [[ -w /dev/full ]]; then
    "$tidelock" help >/dev/full 2>"$err"
    [[ $? == 70 ]] || fail "help into a full device succeeds"
fi

# ---- commands and options ---------------------------------------------------------------------
expect_line 64 'no command' "$tidelock"
expect_line 64 'unknown command nonsense; see: tidelock help$' "$tidelock" nonsense
expect_line 64 'unknown option --nonsense; see: tidelock --help-all$' "$tidelock" --nonsense
# A typing error, or another tool's name for it.
while read -r typed name; do
    expect_line 64 "unknown command $typed; did you mean $name\\?$" "$tidelock" "$typed" k
    expect_line 64 "help: no such command or topic $typed; did you mean $name\\?$" "$tidelock" help "$typed"
done <<'END'
rn run
lokc lock
insp inspect
ls inspect
list inspect
status check
release unlock
acquire lock
version --version
END
while read -r command typed name; do
    expect_line 64 "$command: unknown option --$typed; did you mean --$name\\?$" "$tidelock" "$command" "--$typed=secret" k
    ! grep -q secret "$err" || fail "the value of an unknown option is echoed"
done <<'END'
run tll ttl
run nowait no-wait
run timeout wait
lock expire ttl
inspect pasword-file password-file
doctor jsno json
END
expect_line 64 'run: unknown option --nonsense; see: tidelock run --help-all$' "$tidelock" run --nonsense k
expect_line 64 'unknown option --ulr; did you mean --url.$' "$tidelock" --ulr redis://h check k
for c in run lock unlock extend check; do
    expect_line 64 'unknown option --nonsense' "$tidelock" "$c" --nonsense k
    expect_line 64 'unknown option -Z' "$tidelock" "$c" -Z k
    expect_line 64 "tidelock $c" "$tidelock" "$c"
done
expect_line 64 'run: COMMAND is missing: tidelock run .options. KEY -- COMMAND' "$tidelock" run k
expect_line 64 'run: COMMAND is missing' "$tidelock" run k --
expect_line 64 'run: KEY is missing' "$tidelock" run -- true
for c in "true" "ls -l" "-n sh -c x" "echo --help"; do
    # shellcheck disable=SC2086
    expect_line 64 'run: -- is missing before the command: tidelock run KEY -- COMMAND$' "$tidelock" run k $c
done
expect_line 64 'run: too many arguments' "$tidelock" run k l -- true
expect_line 64 'unlock: KEY is missing: tidelock unlock KEY TOKEN' "$tidelock" unlock
expect_line 64 'unlock: TOKEN is missing' "$tidelock" unlock k
expect_line 64 'too many' "$tidelock" check k more
expect_line 64 'value is missing' "$tidelock" lock k --ttl
expect_line 64 'takes no value' "$tidelock" run --forever=yes k -- true
expect_line 64 'term.kill.continue' "$tidelock" run --on-lost=panic k -- true
expect_line 64 'number from 0 to 255' "$tidelock" run -E 256 k -- true
expect_line 64 'number from' "$tidelock" run -E x k -- true
expect_line 64 'exclude each other' "$tidelock" run -n -w 1s k -- true
expect_line 64 'exclude each other' "$tidelock" lock -n -w 1s k
for c in 'run k -- true' 'lock k'; do
    # shellcheck disable=SC2086
    expect_line 64 '--quiet: it must be at least --ttl, which is 30000 ms: ' "$tidelock" ${c%% *} --quiet 5s ${c#* }
    # shellcheck disable=SC2086
    expect_line 69 'too few replicas confirmed|no reply in' "$tidelock" ${c%% *} --wait-replicas 1 -w 2s ${c#* }
done
if ! redis WAITAOF 0 0 1 >/dev/null 2>&1 || redis WAITAOF 0 0 1 | grep -q unknown; then # before 7.2
    expect_line 77 'no WAITAOF, which wait_fsync needs: Redis 7.2 or newer' "$tidelock" lock --wait-fsync k
    expect_line 77 'no WAITAOF, which wait_fsync needs: Redis 7.2 or newer' "$tidelock" run --wait-fsync k -- true
fi
expect_line 69 'no lock is granted before quiet_ms have passed' "$tidelock" lock --quiet 1h k
expect_line 64 'wait-replicas: a number from 0 to 1000' "$tidelock" extend k t --ttl 5s --wait-replicas 1001
expect_line 64 '--name is empty' "$tidelock" run --name= k -- true
expect_line 64 'json-fd' "$tidelock" run --json k -- true
expect_line 64 'not open' "$tidelock" run --json-fd 77 k -- true
# A secret that lost its option is not repeated.
expect 64 "$tidelock" redis://:hunter2@localhost run k -- true
! grep -q hunter2 "$err" || fail "an argument with a password is echoed"

# Options stand before or after the key, long or short; what follows -- is the command's.
expect 0 "$tidelock" run k -t 50s -- true
expect 0 "$tidelock" run -t50s k --wait=50s -- true
expect 0 "$tidelock" run -nv -t 50s k -- true
expect 0 "$tidelock" --url "$TIDELOCK_URL" run k -- true
expect 0 "$tidelock" run k --url "$TIDELOCK_URL" -- true
# The first renewal tells who holds it.
renewed='until "$1" check k --json | grep -q "\"service\":\"[a-z]"; do sleep 0.05; done; shift; exec "$@"'
expect 1 "$tidelock" run --name report k -- sh -c "$renewed" sh "$tidelock" "$tidelock" check k --json
[[ $(cat "$out") == *'"service":"report"'* ]] || fail "the holder's name is not that of --name: $(cat "$out")"
expect 1 "$tidelock" run k -- sh -c "$renewed" sh "$tidelock" "$tidelock" check k
[[ $(cat "$out") == "held by sh on "* ]] || fail "the holder's name is not the command's: $(cat "$out")"
expect 0 "$tidelock" lock -n -t 10s once
"$tidelock" lock -n -t 10ms least >"$out" 2>"$err" # the server may take longer than that, but it is no wrong usage
[[ $? != 64 ]] || fail "the least lifetime is refused"
expect 3 "$tidelock" run k -- sh -c 'exit 3' -n --nonsense
expect 0 "$tidelock" run k -- printf '%s,' a -- b
[[ $(cat "$out") == a,--,b, ]] || fail "the command's arguments are $(cat "$out")"
expect 0 "$tidelock" run -- -k -- printenv TIDELOCK_KEY
[[ $(cat "$out") == -k ]] || fail "a key with a dash arrives as $(cat "$out")"
expect 0 "$tidelock" check -- -k

# ---- durations --------------------------------------------------------------------------------
for d in 30 0 1; do
    expect_line 64 "-t $d: say seconds or milliseconds: ${d}s or ${d}ms" "$tidelock" run -t $d k -- true
done
expect_line 64 "--ttl 30: say seconds or milliseconds" "$tidelock" run --ttl 30 k -- true
expect_line 64 'negative' "$tidelock" run -t -5s k -- true
expect_line 64 'negative' "$tidelock" run -w -1ms k -- true
expect_line 64 'too long' "$tidelock" run -w 9223372036854775808ms k -- true
expect_line 64 'too long' "$tidelock" run -w 99999999999999999999999999d k -- true
expect_line 64 'too long' "$tidelock" run --max-hold 106752d k -- true
expect_line 64 'whole numbers' "$tidelock" run -t 1.5s k -- true
expect_line 64 'units are' "$tidelock" run -t 5x k -- true
expect_line 64 'units are' "$tidelock" run -t 5S k -- true
expect_line 64 'not a duration' "$tidelock" run -t s k -- true
expect_line 64 'not a duration' "$tidelock" run -t '' k -- true
expect_line 64 'not a duration' "$tidelock" run -t ' 5s' k -- true
expect_line 64 'lifetime' "$tidelock" run -t 0s k -- true
expect_line 64 'lifetime' "$tidelock" run -t 0ms k -- true
expect_line 64 'lifetime' "$tidelock" run -t 9ms k -- true
expect_line 64 'lifetime' "$tidelock" run -t 2d k -- true
expect_line 64 'lifetime' "$tidelock" lock -t 0s k
expect_line 64 'lifetime' "$tidelock" extend -t 0s k token
expect_line 64 'say for how long' "$tidelock" extend k token
expect_line 64 'no time' "$tidelock" run --max-hold 0s k -- true
for d in 50000ms 30s 5m 2h 1d; do expect 0 "$tidelock" run -t $d k -- true; done
for d in 0s 20s 106751d; do expect 0 "$tidelock" run -w $d --max-hold 106751d k -- true; done

# ---- keys -------------------------------------------------------------------------------------
long=$(printf '%*s' 16384 '' | tr ' ' k)
huge=$long$long$long$long
for c in run lock check unlock extend; do
    tail=()
    case $c in run) tail=(-- true) ;; unlock) tail=(token) ;; extend) tail=(token --ttl 1s) ;; esac
    expect_line 64 'key' "$tidelock" $c '' "${tail[@]}"
    expect_line 64 'key' "$tidelock" $c "$huge" "${tail[@]}"
    expect_line 64 'key' "$tidelock" $c "${long}k" "${tail[@]}"
done
expect 0 "$tidelock" run "$long" -- sh -c 'printf %s "$TIDELOCK_KEY" | wc -c'
[[ $(cat "$out") -eq 16384 ]] || fail "the longest key arrives with $(cat "$out") bytes"
binary=$'\x01\xff\xfe{}\n"\\\xe9 \x7f'
expect 0 "$tidelock" run "$binary" -- sh -c 'redis-cli -s "$1" EXISTS "$TIDELOCK_KEY"' sh "$socket"
[[ $(cat "$out") == 1 ]] || fail "a binary key is not what is locked"

# ---- which server -----------------------------------------------------------------------------
expect_line 64 'URL|url' "$tidelock" run --url nonsense://x k -- true
expect_line 64 'URL|url' "$tidelock" run --url '' k -- true
while read -r given meant; do
    expect_line 64 "^tidelock: --url $given: a URL begins with the kind of server; did you mean $meant\\?$" "$tidelock" check --url "$given" k
done <<'END'
localhost redis://localhost:6379
localhost:6379 redis://localhost:6379
127.0.0.1 redis://127.0.0.1:6379
127.0.0.1:6379 redis://127.0.0.1:6379
db1.example:6380 redis://db1.example:6380
db1:2379 etcd://db1:2379
END
for word in hunter2 default:hunter2@db1 :hunter2@db1:6379; do
    expect_line 64 'malformed URL: it must begin with redis://' "$tidelock" check --url $word k
    ! grep -q hunter2 "$err" || fail "a password without a scheme is echoed"
done
url=$TIDELOCK_URL
export TIDELOCK_URL=nonsense://x
expect_line 78 'TIDELOCK_URL' "$tidelock" run k -- true
TIDELOCK_URL=db1:6379 expect_line 78 'TIDELOCK_URL db1:6379: .*; did you mean redis://db1:6379.$' "$tidelock" run k -- true
expect 0 "$tidelock" run --url "$url" k -- true
unset TIDELOCK_URL
expect 0 "$tidelock" help

# ---- help -------------------------------------------------------------------------------------
# The help of a command fits a screen. --help-all shows every option, and each option is described in a man page: that of the
# command, that of all commands, or the one about legacy clients.
fits() { # lines, command...
    local most=$1
    shift
    expect 0 "$tidelock" "$@"
    ! grep -nE '^.{81}' "$out" || depth=1 fail "tidelock $* has lines of more than 80 columns"
    ! grep -nE ' $' "$out" || depth=1 fail "tidelock $* has blanks at the end of a line"
    (($(wc -l <"$out") <= most)) || depth=1 fail "tidelock $* has $(wc -l <"$out") lines"
}
options_of() { # command
    "$tidelock" help options | awk -F'\t' -v c="$1" '$1 == "option" && ($2 == c || $2 == "-") { print $4 }'
}
# The pages with their tables in them, as the build makes them.
page_of() { # page.scd
    awk -v compat="${COMPAT:-1}" -f "$here/tools/man/tables.awk" "$work/tables" "$1"
}
"$tidelock" help tables >"$work/tables" || fail "help tables"
mkdir "$work/pages"
for page in "$here"/tools/man/*.scd; do
    case ${COMPAT:-1}:$page in 0:*-legacy.1.scd | 0:*-migrate.1.scd) continue ;; esac
    page_of "$page" >"$work/pages/${page##*/}" 2>"$err" || fail "${page##*/}: $(cat "$err")"
    ! grep -nE '^'$'\t''*\*--?[a-z-]+\*(, \*--?[a-z-]+\*|\[?=?_[A-Z]+_\]?| )*$' "$page" || fail "${page##*/} has an option that is not from the tables"
done
described() { # command, option
    local pages=("$work"/pages/tidelock.1.scd)
    for page in "$work"/pages/tidelock-{legacy,"$1"}.1.scd; do
        if [[ -e $page ]]; then pages+=("$page"); fi
    done
    grep -q -e "\*$2[* []" "${pages[@]}"
}
commands="run lock unlock extend check inspect break local skew agent doctor bench"
if [[ ${COMPAT:-1} != 0 ]]; then commands+=" migrate"; fi
for c in $commands; do
    fits 24 help "$c"
    [[ $(tail -n 1 "$out") == "All options: tidelock $c --help-all" ]] || fail "help $c doesn't end with the way to all options"
    cp "$out" "$work/short"
    fits 24 "$c" --help
    cmp -s "$out" "$work/short" || fail "help $c and $c --help differ"
    fits 200 help "$c" --help-all
    cp "$out" "$work/long"
    fits 200 "$c" --help-all
    cmp -s "$out" "$work/long" || fail "help $c --help-all and $c --help-all differ"
    have=$(options_of "$c")
    (($(wc -l <<<"$have") > 9)) || fail "no options of $c to look for"
    for o in $have; do
        grep -qE "^  (-., |    )$o([] =[]|$)" "$out" || fail "$c --help-all lacks $o"
        described "$c" "$o" || fail "$o of $c is in no man page"
    done
    # Its short help has no option that the long one lacks.
    sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' "$work/short" | while read -r o; do
        grep -qe " $o" "$out" || fail "$c --help-all lacks $o"
    done || exit 1
done
# A page can neither lack a row of the tables, nor have one that isn't there.
refused() { # what it says, page
    printf '%s\n' "$2" >"$work/odd.scd"
    if COMPAT=1 page_of "$work/odd.scd" >"$out" 2>"$err"; then depth=1 fail "no refusal of: $2"; fi
    grep -q -- "$1" "$err" || depth=1 fail "another refusal than '$1': $(cat "$err")"
}
refused 'no option --never of run' '@option run never@'
refused 'lacks --wait of run' '@option run ttl@'
refused 'unknown command never' '@statuses never@'
refused 'no members of never' '@members never@'
refused 'unknown marker' '@never run@'
refused 'not alone in its line' 'see @members run@'
# Each status that a command's page has is in its long help, with the same meaning or as one of all commands.
while IFS=$'\t' read -r _ c n short _; do
    [[ $c != - && $short != - ]] || continue
    expect 0 "$tidelock" help "$c"
    if [[ $n == 128 ]]; then n='128 + n'; fi
    tr '\n' ' ' <"$out" | grep -qF -- "$n $short" || fail "help $c doesn't say: $n $short"
done < <(grep '^status' "$work/tables")
fits 24 help
fits 24 help help
fits 200 --help-all
for o in $(options_of -); do
    grep -qE "^  (-., |    )$o( |$)" "$out" || fail "--help-all lacks $o"
done
for word in redis:// redis+sentinel:// redis+cluster:// redis+quorum:// etcd:// unix:// local:; do
    grep -qF "$word" "$out" || fail "--help-all has no URL with $word"
done
if [[ ${COMPAT:-1} != 0 ]]; then
    fits 200 help dialects
    expect 0 "$tidelock" help
    grep -q 'help dialects' "$out" || fail "the help does not name dialects"
    # What only concerns legacy clients stands apart.
    for c in run lock unlock extend check inspect break; do
        expect 0 "$tidelock" help $c
        ! grep -E -e '--(protocol|dialect|clock-skew-max|strict)' "$out" || fail "help $c has options about legacy clients"
        fits 200 $c --help-all
        sed '/legacy clients:$/,/^$/d' "$out" | grep -E -e '--(protocol|dialect|clock-skew-max|strict)' &&
            fail "$c --help-all: options about legacy clients among the others"
        grep -A 1 'legacy clients:$' "$out" | grep -q -e --protocol || fail "$c --help-all: no section for legacy clients"
    done
fi
