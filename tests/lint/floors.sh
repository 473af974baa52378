#!/bin/bash
# The house rules that grep can hold: who may include whom, and who may touch the outside world.
# Each finding is one line "file:line: rule". Usage: tests/lint/floors.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1

# The rooms, from the ground up: a file includes headers of its own room and of rooms before it, by their path
# below src, compat or tools. Nothing in src includes anything of compat. What stands in src, compat or tools itself is above all of its rooms.
rooms='src/ground src/wire src/protocol compat/dialect compat/phase compat/stamp compat/auto
    src/transport/local src/transport src/client compat/runtime src compat'
tool_rooms='tools/base tools/skew/judge tools/link tools/skew/show tools/lock tools/skew tools/doctor tools/bench
    tools/legacy tools/migrate tools'
# What of the library the tool may use beside its public header; and of compat one file, in one place.
for_tools='client/sentinel_view.h|ground/bytes.h|ground/clock.h|ground/glob.h|ground/guard.h|ground/vmclock.h|ground/wait.h|protocol/etcd.h|wire/interval.h|wire/keys.h|wire/slots.h|transport/conn.h|transport/resolve.h'
for_stamps='tools/legacy/skew_stamp.c dialect/dialect.h'

status=0
complain() { # file:line, rule
    echo "$1: $2"
    status=1
}

declare -A height
n=0
for room in $rooms $tool_rooms; do height[$room]=$((n += 1)); done

includes() { grep -nE '^[[:space:]]*#[[:space:]]*include' "$@" /dev/null | sed 's/^\([^:]*:[0-9]*\):[^<"]*\([<"][^>"]*\).*/\1 \2/'; }

mapfile -t house < <(find src compat -name '*.[ch]' 2>/dev/null | sort)
mapfile -t tools < <(find tools -name '*.[ch]' 2>/dev/null | sort)

for f in "${house[@]}" "${tools[@]}"; do
    [[ $f == */examples/* || -n ${height[${f%/*}]:-} ]] || complain "$f:1" "not in a room: tests/lint/floors.sh has the list of them"
done

# ---- rooms ----------------------------------------------------------------------------------
# Names are looked up below src, compat and tools, never beside the file.
check_room() { # file:line included
    local file=${1%:*} mine=${1%/*} name=${2#?} root theirs=
    case $2 in
    '<hiredis/'*) [[ $file == src/transport/resp.[ch] || $file == tools/bench/bench_bare.c ]] || complain "$1" "hiredis stays in src/transport/resp, and in tools/bench/bench_bare.c to be compared with" ;;
    '<openssl/'*) [[ $file == src/transport/tls.c ]] || complain "$1" "OpenSSL stays in src/transport/tls.c" ;;
    '<jansson.h'*) [[ $file == tools/base/js.[ch] || $file == src/transport/gateway.c ]] || complain "$1" "jansson stays in src/transport/gateway.c, and in tools/base/js.h for the tool" ;;
    '<nghttp2/'*) [[ $file == src/transport/grpc.c ]] || complain "$1" "libnghttp2 stays in src/transport/grpc.c" ;;
    '<uuid/'*) [[ $file == src/ground/@(token|random).c ]] || complain "$1" "libuuid stays in src/ground/token.c and random.c" ;;
    esac
    [[ $2 == '"'* && $name != scripts*.inc ]] || return
    if [[ $file == */examples/* ]]; then complain "$1" "an example includes installed headers only" && return; fi
    for root in src compat tools; do
        if [[ -e $root/$name ]]; then theirs=$root/$name; fi
    done
    if [[ -z $theirs ]]; then
        complain "$1" "$name is not a header below src, compat or tools"
    elif [[ $theirs == "${file%.*}.h" ]]; then
        :
    elif [[ $mine == src || $mine == compat ]]; then
        complain "$1" "what stands in $mine itself includes <tidelock/tidelock.h> and its own header only"
    elif [[ $mine == tools* && $theirs != tools/* ]]; then
        [[ $name == @($for_tools) || "$file $name" == "$for_stamps" ]] ||
            complain "$1" "the tool includes <tidelock/tidelock.h>, its own headers and ${for_tools//|/, } only"
    elif [[ $mine == src* && $theirs == compat/* ]]; then
        complain "$1" "src includes nothing of compat"
    elif [[ $mine != tools* && $theirs == tools/* ]]; then
        complain "$1" "the library includes nothing of the tool"
    elif ((${height[$mine]:-0} < ${height[${theirs%/*}]:-0})); then
        complain "$1" "$mine includes $name, of a room above it"
    fi
}

while read -r place what; do check_room "$place" "$what"; done < <(includes "${house[@]}" "${tools[@]}")

# ---- calls ----------------------------------------------------------------------------------
# Code without comments, strings and character constants, with its line numbers.
code() {
    awk 'FNR == 1 { in_comment = 0 }
    {
        line = $0; out = ""
        gsub(/\\./, "", line)
        while (length(line)) {
            if (in_comment) {
                end = index(line, "*/")
                if (!end) break
                line = substr(line, end + 2); in_comment = 0
            } else if (match(line, /\/\*|\/\/|"[^"]*"|\047[^\047]*\047/)) {
                out = out substr(line, 1, RSTART - 1)
                what = substr(line, RSTART, RLENGTH)
                line = substr(line, RSTART + RLENGTH)
                if (what == "//") break
                if (what == "/*") in_comment = 1; else out = out "\"\""
            } else { out = out line; break }
        }
        print FILENAME ":" FNR ":" out
    }' "$@" /dev/null
}

never() { # pattern, rule, files...
    local pattern=$1 rule=$2 place
    shift 2
    (($#)) || return
    while IFS=: read -r file line _; do complain "$file:$line" "$rule"; done < <(
        code "$@" | grep -E "^[^:]*:[0-9]+:(.*[^A-Za-z0-9_.>])?($pattern)[[:space:]]*\("
    )
}

# The drop-in is on the public header alone, and reads a clock for what it remembers, not for a lock.
but_clock=()
for f in "${house[@]}" "${tools[@]}"; do [[ $f == src/ground/@(clock|wait).c || $f == tools/base/moment.c || $f == compat/distribute_lock_util.c ]] || but_clock+=("$f"); done
never 'clock_gettime|gettimeofday|time|timerfd_[a-z]+|nanosleep|clock_nanosleep|usleep|sleep|ntp_adjtime|adjtimex' \
    "only src/ground/clock.c, and in the tool tools/base/moment.c, reads a clock or sleeps" "${but_clock[@]}"

mapfile -t engine < <(printf '%s\n' "${house[@]}" | grep '^src/')
[[ -n ${engine[*]} ]] || engine=()
never 'printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror' "the library prints nothing" "${engine[@]}"
# Where a server is started there is a child to end, and its signals to reset.
unforked=()
for f in "${engine[@]}"; do [[ $f == src/transport/local/local_launch.c ]] || unforked+=("$f"); done
never 'exit|_exit|quick_exit|abort' "the library ends no process" "${unforked[@]}"
never 'signal|sigaction' "the library changes no signals" "${unforked[@]}"
never 'fork|vfork|system|popen|exec[a-z]+|posix_spawnp?' "only src/transport/local/local_launch.c makes a process" "${unforked[@]}"
never 'strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|alloca' "use the bounded or checked form" "${house[@]}" "${tools[@]}"

# A function that is longer than a page is more than one. The layout is clang-format's.
while read -r place; do complain "$place" "a function of more than 50 lines"; done < <(
    printf '%s\n' "${house[@]}" "${tools[@]}" | grep '\.c$' | xargs -r awk 'FNR == 1 { from = body = 0 }
        /^[a-z].*\(/ && !body { from = FNR }
        /;$/ && !body { from = 0 }
        /\{$/ && from { body = 1 }
        /^}/ { if (body && FNR - from >= 50) print FILENAME ":" from; from = body = 0 }'
)

# ---- tests ------------------------------------------------------------------------------------
mapfile -t tests < <(find tests -name '*.[ch]' ! -path 'tests/lib/tests.c' ! -path 'tests/lib/conform.c' 2>/dev/null | sort)
never 'cmocka_unit_test[a-z_]*|_?cmocka_run_group_tests[a-z_]*' "a test is registered by TEST() of tests/lib/tests.h" "${tests[@]}"
while read -r place what; do
    [[ $what != *.c ]] || complain "$place" "a test links what it tests, and includes headers only"
done < <(includes "${tests[@]}")

# What runs in the background opens its files at some time. Whoever reads them before finds what an earlier command wrote.
mapfile -t scripts < <(find tests/cli tests/java tests/interop -name '*.sh' 2>/dev/null | sort)
while IFS=: read -r file line _; do
    complain "$file:$line" 'let the test itself empty the file: { command & } >"$out"'
done < <(grep -nE '(^|[[:space:]])[0-9]?>"?\$(out|err|work)\b.*[^&]&([[:space:]]+#.*)?$' "${scripts[@]}" /dev/null | grep -v '& }')

# ---- the top level ----------------------------------------------------------------------------
for f in $(git ls-files 2>/dev/null | sed 's,/.*,,' | sort -u); do
    case $f in
    .* | src | include | compat | tools | tests | Makefile | README.md | LICENSE) ;;
    *) complain "$f" "nothing but the named folders and files stands at the top level" ;;
    esac
done

exit $status
