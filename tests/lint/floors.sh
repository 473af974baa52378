#!/bin/bash
# The house rules that grep can hold: who may include whom, and who may touch the outside world.
# Each finding is one line "file:line: rule". Usage: tests/lint/floors.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1

# Floor by floor: the files (name.c and name.h). A file includes its own header, headers of lower
# floors, and of its own floor the leaf headers: those marked with a * here, which say what the
# floor's files talk about, and which themselves include only lower floors and each other.
table='
0 clock* error* token* bytes* glob* spin* thread*
1 command* reply* refusal* keys* script* interval*
2 protocol* attempt* sidecar* job* protocol_token protocol_plain acquire settle renew ask look* scan break queue quorum protocol_etcd
2 compat/dialect* compat/dialect_odd compat/stamp* compat/stamp_script compat/stamp_watch compat/stamp_plain compat/stamp_rules compat/stamp_look compat/phase* compat/phase_names compat/protocol_auto
3 backoff* conn* conn_inside* endpoint* resolve* resp* slot* stream* tls* login* topics* wakeup* local* local_inside*
3 conn_redis conn_fail local_dir local_launch sentinel cluster conn_http
4 client* pool tasks* gate* batch* lock* keeper* keeper_inside* keeper_run keeper_join keeper_listen keeper_watch attend driver* async* hold
5 simple compat/distribute_lock_util compat/examples/nightly
'

status=0
complain() { # file:line, rule
    echo "$1: $2"
    status=1
}

declare -A floor leaf
while read -r n names; do
    read -ra names <<<"$names"
    for name in "${names[@]}"; do
        bare=${name%\*}
        [[ $bare == */* ]] || bare=src/$bare
        floor[$bare]=$n
        if [[ $name == *\* ]]; then leaf[$bare]=1; fi
    done
done <<<"$table"

# Where a quoted name is looked up: beside the including file first, then src, then compat.
find_header() { # file name
    local d
    for d in "$(dirname "$1")" src compat; do
        if [[ -e $d/$2 ]]; then echo "$d/$2" && return; fi
    done
    echo "?/$2"
}

includes() { grep -nE '^[[:space:]]*#[[:space:]]*include' "$@" /dev/null | sed 's/^\([^:]*:[0-9]*\):[^<"]*\([<"][^>"]*\).*/\1 \2/'; }

mapfile -t house < <(find src compat -name '*.[ch]' 2>/dev/null | sort)
mapfile -t tools < <(find tools -name '*.[ch]' 2>/dev/null | sort)

for f in "${house[@]}"; do
    if [[ -z ${floor[${f%.*}]:-} ]]; then complain "$f:1" "not in the table of floors: give it a floor in tests/lint/floors.sh"; fi
done

# ---- floors ---------------------------------------------------------------------------------
check_house() { # place included
    local file=${1%:*} stem me target it
    stem=${file%.*} me=${floor[${file%.*}]:-}
    [[ -n $me ]] || return
    case $2 in
    '<tidelock/tidelock.h' | '"scripts.inc') return ;;
    '<hiredis/'*) [[ $me == 3 ]] || complain "$1" "hiredis stays on floor 3" ;;
    '<curl/'*) [[ $stem == src/conn_http ]] || complain "$1" "libcurl stays in conn_http.c" ;;
    '<uuid/'*) [[ $file == src/token.c ]] || complain "$1" "libuuid stays in token.c" ;;
    '"'*)
        target=$(find_header "$file" "${2#?}") it=${floor[${target%.*}]:-}
        if [[ $target == compat/* && $file == src/* ]]; then
            complain "$1" "src includes nothing of compat"
        elif [[ $target == '?'/* ]]; then
            complain "$1" "${2#?} is not a header of src or compat"
        elif [[ $me == 5 && ${target%.*} != "$stem" ]]; then
            complain "$1" "floor 5 includes its own header and <tidelock/tidelock.h> only"
        elif [[ -n $it && $it -gt $me ]]; then
            complain "$1" "floor $me includes ${2#?} of floor $it"
        elif [[ $it == "$me" && ${target%.*} != "$stem" && -z ${leaf[${target%.*}]:-} ]]; then
            complain "$1" "${2#?} is on the same floor $me and no leaf header"
        fi
        ;;
    esac
}

check_tool() { # place included
    local file=${1%:*}
    case $2 in
    '"'*)
        [[ -e $(dirname "$file")/${2#?} || ${2#?} == @(glob|interval|conn|resolve).h ||
            $file/${2#?} == tools/skew_stamp.c/dialect.h ]] ||
            complain "$1" "the tool includes <tidelock/tidelock.h>, its own headers, glob.h, interval.h, conn.h and resolve.h only"
        ;;
    '<hiredis/'* | '<curl/'* | '<uuid/'*) complain "$1" "the tool uses no hiredis, libcurl or libuuid" ;;
    esac
}

if ((${#house[@]})); then while read -r place what; do check_house "$place" "$what"; done < <(includes "${house[@]}"); fi
if ((${#tools[@]})); then while read -r place what; do check_tool "$place" "$what"; done < <(includes "${tools[@]}"); fi

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

but_clock=()
for f in "${house[@]}" "${tools[@]}"; do [[ $f == src/clock.c || $f == tools/moment.c ]] || but_clock+=("$f"); done
never 'clock_gettime|gettimeofday|time|timerfd_[a-z]+|nanosleep|clock_nanosleep|usleep|sleep|ntp_adjtime|adjtimex' \
    "only src/clock.c, and in the tool tools/moment.c, reads a clock or sleeps" "${but_clock[@]}"

mapfile -t engine < <(printf '%s\n' "${house[@]}" | grep '^src/')
[[ -n ${engine[*]} ]] || engine=()
never 'printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror' "the library prints nothing" "${engine[@]}"
# Where a server is started there is a child to end, and its signals to reset.
unforked=()
for f in "${engine[@]}"; do [[ $f == src/local_launch.c ]] || unforked+=("$f"); done
never 'exit|_exit|quick_exit|abort' "the library ends no process" "${unforked[@]}"
never 'signal|sigaction' "the library changes no signals" "${unforked[@]}"
never 'fork|vfork|system|popen|exec[a-z]+|posix_spawnp?' "only src/local_launch.c makes a process" "${unforked[@]}"
never 'strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|alloca' "use the bounded or checked form" "${house[@]}" "${tools[@]}"

# ---- the top level ----------------------------------------------------------------------------
for f in $(git ls-files 2>/dev/null | sed 's,/.*,,' | sort -u); do
    case $f in
    .* | src | include | compat | tools | tests | Makefile | README.md | LICENSE) ;;
    *) complain "$f" "nothing but the named folders and files stands at the top level" ;;
    esac
done

exit $status
