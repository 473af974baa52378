#!/bin/bash
# make check-servers: `make check` on each server that Debian 12, its backports, Debian 13 and sid offer, and on the programs
# in SERVERS and ETCDS (else on the etcd that is installed). The packages come from where apt gets Debian's from here, with
# what they need, and are only unpacked, below build/servers. What can't be had is skipped with a line. The end is a line for
# each server, and the table of results. Without ONLY the table replaces these servers' rows in tests/servers.md; rows of
# servers that did not run stay, with their dates.
#
#   make check-servers ONLY="conform chaos/test_line" SERVERS="/opt/redis-6.2/bin/redis-server"
#   make check-servers DEBIAN=      the programs in SERVERS and ETCDS alone
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} MAKE=${MAKE:-make}
into=$(realpath -m "$BUILD")/servers
# suite, package, other suites that it needs
debian=${DEBIAN-'
bookworm redis-server
bookworm-backports valkey-server bookworm
trixie redis-server
trixie valkey-server
sid redis-server
sid valkey-server
sid redict-server
'}
etcds=${ETCDS-$([[ -v DEBIAN ]] || command -v etcd)}
mkdir -p "$into"

# shellcheck disable=SC2016 # apt's own words
archive() { # where Debian itself comes from, by apt's own configuration
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(SUITE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk '$2 == "Debian" && $4 == "main" && $3 !~ /-/ { print $1; exit }'
}

# A world of apt's own for a suite: its lists, no installed packages, so that whatever a package needs comes with it.
world() { # directory suites...
    local dir=$1 from keys=/usr/share/keyrings/debian-archive-keyring.gpg suite
    shift
    from=$(archive)
    [[ -n $from ]] || { echo "apt doesn't say where Debian's packages are" && return 1; }
    [[ ! -r $keys ]] || keys="[signed-by=$keys] "
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    for suite; do echo "deb ${keys}$from $suite main"; done >"$dir/sources.list"
    options=(-o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$dir/lists"
        -o "Dir::Cache=$dir/cache" -o Dir::State::status=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=root
        -o "APT::Default-Release=$1" -o Acquire::Languages=none)
    apt-get "${options[@]}" -qq update >"$dir/log" 2>&1 || { tail -n 1 "$dir/log" && return 1; }
}

# It runs with the C library that it was built for.
wrap() { # directory, program
    local dir=$1 loader libraries
    loader=$(find "$dir" -name 'ld-linux*.so.*' -type f -print -quit)
    libraries=$(find "$dir" -name 'lib*.so.*' -path '*/lib/*' -not -path '*/share/*' -printf '%h\n' | sort -u | tr '\n' ':')
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "${libraries%:}" "$dir/usr/bin/$2" \
        >"$dir/redis-server" && chmod 755 "$dir/redis-server"
}

unpack() { # suite, package, other suites; says why it can't
    local dir=$into/$1-$2 all
    [[ ! -x $dir/redis-server ]] || return 0
    command -v apt-get dpkg >/dev/null || { echo "there is no apt here" && return 1; }
    rm -rf "$dir.tmp" && mkdir -p "$dir.tmp/apt" || return 1
    world "$dir.tmp/apt" "$1" "${@:3}" || return 1
    all=$(apt-get "${options[@]}" -s --no-install-recommends install "$2" 2>/dev/null | awk '/^Inst /{ print $2 }')
    [[ -n $all ]] || { echo "$1 has no $2" && return 1; }
    # Only what a program is made of.
    all=$(grep -E "^(lib|$2\$|redis-|valkey-|redict-)" <<<"$all")
    # shellcheck disable=SC2086 # words
    (cd "$dir.tmp" && apt-get "${options[@]}" -qq download $all && for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done) \
        >"$dir.log" 2>&1 || { tail -n 1 "$dir.log" && return 1; }
    rm -rf "$dir.tmp/apt" "$dir.log" "$dir" && mv "$dir.tmp" "$dir"
    wrap "$dir" "$2"
    "$dir/redis-server" --version >/dev/null 2>&1 || { echo "$2 of $1 does not run here" && rm -f "$dir/redis-server" && return 1; }
}

# "Valkey server v=9.1.0 sha=..." as "Valkey 9.1.0", "etcd Version: 3.6.5" as "etcd 3.6.5".
product_of() { # program
    "$1" --version 2>/dev/null | sed -n 's/^\([A-Z][A-Za-z]*\) server v=\([0-9.]*\).*/\1 \2/p
        s/^\(etcd\) Version: \([0-9.]*\).*/\1 \2/p' | head -n 1
}

# A row of the table: of each folder "passed/failed/skipped", files that passed or failed, and tests that were skipped.
result() { # server, log
    awk -v server="$1" -v day="$(date -u +%F)" '
        $1 == "ok" || $1 == "FAIL" { split($2, at, "/"); count[at[1], $1]++ }
        /^skipped:$/ { lists = 1; next }
        lists && /^  [a-z]+\// { split($1, at, "/"); count[at[1], "skip"]++; next }
        { lists = 0 }
        function of(folder, ok, bad, none) {
            ok = count[folder, "ok"] + 0; bad = count[folder, "FAIL"] + 0; none = count[folder, "skip"] + 0
            return ok + bad + none > 0 ? ok "/" bad "/" none : "-"
        }
        END { printf "| %s | %s | %s | %s | %s | %s |\n", server, of("conform"), of("chaos"), of("legacy"), of("cli"), day }' "$2"
}

rows=() table=() status=0
check() { # name, program, ETCD (REDIS_SERVER)
    local log=$into/$1.log
    echo "==== $1: $("$2" --version 2>&1 | head -n 1)"
    "$MAKE" --no-print-directory check-run "${3:-REDIS_SERVER}=$2" LOGS="$into/logs-$1" ONLY="${ONLY:-}" 2>&1 | tee "$log"
    ((PIPESTATUS[0] == 0)) || status=1
    rows+=("$(printf '%-32s %s' "$1" "$(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1)")")
    table+=("$(result "$(product_of "$2")" "$log")")
}

while read -r suite package others; do
    [[ -n $suite ]] || continue
    # shellcheck disable=SC2086 # words
    if why=$(unpack "$suite" "$package" $others); then
        check "$suite-$package" "$into/$suite-$package/redis-server"
    else
        rows+=("$(printf '%-32s skipped: %s' "$suite-$package" "$why")")
    fi
done <<<"$debian"
given() { # program, ETCD (REDIS_SERVER)
    local product
    product=$(product_of "$1")
    if [[ -n $product ]]; then
        check "given-${product// /-}" "$(realpath -s "$1")" "${@:2}"
    else
        rows+=("$(printf '%-32s skipped: does not run here' "$1")")
    fi
}
for program in ${SERVERS:-}; do given "$program"; done
for program in $etcds; do given "$program" ETCD; done

echo
printf '%s\n' "${rows[@]}"
if ((${#table[@]} > 0)); then
    printf '\n| server | promises | faults | timestamp locks | tool | run on |\n|---|---|---|---|---|---|\n'
    printf '%s\n' "${table[@]}"
    [[ -n ${ONLY:-} ]] || tests/record.sh "${PAGE:-tests/servers.md}" servers "${table[@]}"
    [[ -n ${ONLY:-}${PAGE:-} ]] || tests/record.sh tests/README.md runs "$(printf '%s\n' "${rows[@]}" | awk -v day="$(date -u +%F)" '
        / passed, / { ran++; for (i = 2; i <= NF; i++) n[$i] += $(i - 1) }
        END { printf "| `make check-servers` | %d servers: %d files passed, %d failed, %d skipped | %s |", ran, n["passed,"], n["failed,"], n["skipped"], day }')"
fi
exit $status
