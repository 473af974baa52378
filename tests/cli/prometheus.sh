# shellcheck shell=bash disable=SC2154
# What the tests of metrics share: Prometheus' own promtool, where it is, and reading $file. Source it behind lib.sh.
promtool=$(command -v promtool)
if [[ -z $promtool && -x $here/build/prometheus/usr/bin/promtool ]]; then promtool=$here/build/prometheus/usr/bin/promtool; fi
# Tests that run at once unpack it once.
if [[ -z $promtool && ${ALL:-} == 1 ]] && flock "$here/build/promtool.lock" "$here/tools/need.sh" promtool >/dev/null 2>&1; then promtool=$here/build/prometheus/usr/bin/promtool; fi
[[ -n $promtool && -x $promtool ]] || { promtool= && part_skipped "promtool's check" "promtool is not installed (Debian: prometheus; ALL=1 unpacks it)"; }

check_text() { # file
    [[ -z $promtool ]] || "$promtool" check metrics <"$1" >"$work/promtool" 2>&1 ||
        depth=1 fail "promtool: $(cat "$work/promtool")"
}
check() { # file, which nobody writes meanwhile
    depth=1 check_text "$1"
    [[ $(find "$work" -maxdepth 1 -name "$(basename "$1").*") == "" ]] || depth=1 fail "something is left beside ${1##*/}"
}
value() { # name and labels, exactly
    NAME=$1 awk 'index($0, ENVIRON["NAME"] " ") == 1 { print substr($0, length(ENVIRON["NAME"]) + 2) }' "$file" 2>/dev/null
}
number() { # the same as a whole number, 0 where there is none
    value "$1" | grep -x '[0-9]*' || echo 0
}
is() { # name, value
    [[ $(value "$1") == "$2" ]] || depth=1 fail "$1 is '$(value "$1")', not '$2': $(cat "$file")"
}
between() { # name, least, most
    awk -v v="$(value "$1")" -v least="$2" -v most="$3" 'BEGIN { exit !(v != "" && v >= least && v <= most) }' ||
        depth=1 fail "$1 is '$(value "$1")', not $2 to $3"
}
