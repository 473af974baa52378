#!/bin/bash
# What programs that were built with the library rely on, compared with a record of it: exported symbols with their
# version, sizes, members, values, texts of macros and prototypes, as the compiler sees the public headers. Each finding is a line.
#
#   tests/lint/abi.sh [--record] ROOT LIBRARY RECORD      (make abi, make abi-record)
#
# What an old program would notice fails. What is only new fails too, until --record has written it down. --record
# refuses what an old program would notice, unless BREAKING=1. COMPAT=0: without what legacy clients need; its lines of
# the record are neither compared nor changed. A record is for 64-bit machines (LP64); elsewhere this says "skipped".
set -u
export LC_ALL=C
recording=
if [[ ${1:-} == --record ]]; then recording=1 && shift; fi
root=${1:?ROOT} library=${2:?LIBRARY} record=${3:?RECORD}
CC=${CC:-cc} COMPAT=${COMPAT:-1} BREAKING=${BREAKING:-}
read -ra cc <<<"$CC"
cc+=(-std=c11 "-I$root/include")
of_legacy='^(legacy|distribute_lock_util)\.h '

if ! "${cc[@]}" -dM -E -x c /dev/null | grep '^#define __LP64__ ' >/dev/null; then
    echo "skipped: the record is for machines with 64-bit pointers and long"
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# A header as the preprocessor leaves it, turned into the lines of a C program that prints what it declares.
# A declaration that this can't read is an error, so that nothing escapes.
describe() { # path of the header
    "${cc[@]}" -E -dD -x c "$1" | awk -v path="$1" -v header="${1##*/}" '
    function refuse(what) {
        print header ": tests/lint/abi.sh cannot read this declaration: " what >"/dev/stderr"
        failed = 1
    }
    function say(text, format, values) {
        gsub(/"/, "\\\"", text)
        print "    printf(\"" header " " text format "\\n\"" values ");"
    }
    function trim(s) { sub(/^ +/, "", s); sub(/ +$/, "", s); return s }
    # "int64_t wait_ms, tl_error *err": the types alone.
    function types_of(list, n, i, part, parts, base, out) {
        if (list ~ /\(/) refuse(list)
        n = split(list, parts, ",")
        for (i = 1; i <= n; i++) {
            part = base = trim(parts[i])
            sub(/[A-Za-z_][A-Za-z_0-9]*$/, "", base)
            base = trim(base)
            if (base != "" && base !~ /(^| )(const|struct|enum)$/ && part !~ / (int|long|char|short|unsigned|double)$/)
                part = base
            out = out (i > 1 ? ", " : "") part
        }
        return out
    }
    # Sets name and type of "const char *url", "char message[240]", "void (*log)(int level, void *ctx)".
    function declarator(s, tail) {
        s = trim(s); tail = ""
        if (match(s, /\(\*[A-Za-z_0-9]+\) ?\(/)) {
            type = trim(substr(s, 1, RSTART - 1)) " (*)("
            name = substr(s, RSTART + 2, RLENGTH - 2); sub(/\).*/, "", name)
            s = substr(s, RSTART + RLENGTH); sub(/\)$/, "", s)
            type = type types_of(s) ")"
            return
        }
        if (s ~ /[,:(]/) refuse(s)
        if (match(s, /\[.*\]$/)) { tail = " " substr(s, RSTART); s = trim(substr(s, 1, RSTART - 1)) }
        if (!match(s, /[A-Za-z_][A-Za-z_0-9]*$/)) { refuse(s); return }
        name = substr(s, RSTART); type = trim(substr(s, 1, RSTART - 1)) tail
    }
    function members(of, body, n, i, parts, it) {
        n = split(body, parts, ";")
        say("struct " of " sizeof ", "%zu", ", sizeof(" of ")")
        for (i = 1; i <= n; i++) {
            if (trim(parts[i]) == "") continue
            declarator(parts[i]); it = "((" of " *)0)->" name
            say("member " of "." name " offset ", "%zu size %zu type " type, ", offsetof(" of ", " name "), sizeof(" it ")")
        }
    }
    function constants(of, body, n, i, parts) {
        n = split(body, parts, ",")
        for (i = 1; i <= n; i++) {
            sub(/=.*/, "", parts[i]); name = trim(parts[i])
            if (name != "") say("enum " of "." name " = ", "%lld", ", (long long)" name)
        }
    }
    function declaration(d, body, of, list) {
        gsub(/[ \t]+/, " ", d); gsub(/_Bool/, "bool", d)
        d = trim(d)
        if (d == "" || d ~ /^struct [A-Za-z_0-9]+$/) return
        if (d ~ /^typedef (struct|enum)[A-Za-z_0-9 ]*\{.*\} ?[A-Za-z_0-9]+$/) {
            body = d; sub(/^[^{]*\{/, "", body); sub(/\}[^}]*$/, "", body)
            of = d; sub(/.*\} ?/, "", of)
            if (body ~ /[{}]/) refuse(d)
            else if (d ~ /^typedef struct/) members(of, body)
            else constants(of, body)
        } else if (d ~ /^typedef /) {
            declarator(substr(d, 9))
            say("type " name " " type, "", "")
        } else if (d ~ /^[^(){}]+\([^(){}]*\)$/ && d !~ /^(static|extern) /) {
            list = d; sub(/^[^(]*\(/, "", list); sub(/\)$/, "", list)
            sub(/\(.*/, "", d); declarator(d)
            say("function " name " " type " (" types_of(list) ")", "", "")
        } else refuse(d)
    }
    /^# [0-9]/ { inside = index($0, "\"" path "\"") > 0; next }
    inside && $1 == "#define" && $2 ~ /^TL_/ {
        value = $0; sub(/^#define [^ ]* */, "", value)
        if ($2 ~ /\(/) { text_of = substr($0, 9); sub(/\(/, " (", text_of); say("macro " text_of, "", "") }
        else if ($2 == "TL_VERSION_NUMBER") next # each release has another one
        else if (value != "" && value !~ /^"/) say("constant " $2 " ", "%lld", ", (long long)(" value ")")
        next
    }
    inside && !/^#/ { text = text " " $0 }
    END {
        for (at = 1; at <= length(text); at++) {
            c = substr(text, at, 1)
            if (c == "{") depth++
            if (c == "}") depth--
            if (c == ";" && depth == 0) { declaration(one); one = "" } else one = one c
        }
        if (trim(one) != "") refuse(one)
        exit failed
    }'
}

headers=()
for h in "$root"/include/tidelock/*.h "$root"/compat/distribute_lock_util.h; do
    [[ -e $h ]] || continue
    if [[ $COMPAT == 0 && "${h##*/} " =~ $of_legacy ]]; then continue; fi
    headers+=("$h")
done
((${#headers[@]} > 0)) || { echo "$root: there are no public headers" && exit 1; }

program() {
    echo '#include <stdio.h>'
    for h in "${headers[@]}"; do echo "#include \"$(realpath "$h")\""; done
    echo 'int main(void) {'
    for h in "${headers[@]}"; do describe "$h" || return 1; done
    echo '}'
}
program >"$work/print.c" && "${cc[@]}" -w "$work/print.c" -o "$work/print" && "$work/print" >"$work/declared" || exit 1

nm -D --defined-only "$library" >"$work/nm" || exit 1
# A symbol belongs to the header that declares it.
awk 'NR == FNR { if ($2 == "function") from[$3] = $1; next }
    $2 == "A" { next }
    { name = $3; sub(/@.*/, "", name); print (name in from ? from[name] : "-") " symbol " $3 }' \
    "$work/declared" "$work/nm" | sort >"$work/symbols"
sort -s -k1,1 "$work/declared" "$work/symbols" >"$work/now"

touch "$work/kept" "$work/before"
if [[ -e $record ]]; then
    grep -v '^#' "$record" >"$work/all"
    if [[ $COMPAT == 0 ]]; then
        grep -E "$of_legacy" "$work/all" >"$work/kept"
        grep -vE "$of_legacy" "$work/all" >"$work/before"
    else
        cp "$work/all" "$work/before"
    fi
elif [[ ! $recording ]]; then
    echo "$record: there is no record yet: make abi-record"
    exit 1
fi

# Each finding with its kind first: wrong (never recorded), breaks, new.
awk -v first="$work/before" '
    function what(line) { return substr(line, length($1) + 2) }
    function found(kind, text) { print kind " " text }
    { key = $1 " " $2 " " $3 }
    FILENAME == first {
        before[key] = $0
        if ($2 == "struct") sizeof_before[$1 " " $3] = $5
        if ($2 == "member" && $3 ~ /\.size$/ && $5 == 0) grows[$1 " " substr($3, 1, length($3) - 5)] = 1
        order[++n] = key
        next
    }
    {
        now[key] = 1
        if ($2 == "symbol") { name = $3; sub(/@.*/, "", name); exported[name] = 1 }
        if ($2 == "function") declared[$3] = $1
        if ($1 == "-") { found("wrong", $3 ": exported, but no public header declares it; make it static, or name it tl__"); next }
        if (key in before) {
            if (before[key] == $0) next
            if ($2 == "struct" && ($1 " " $3) in grows && $5 > sizeof_before[$1 " " $3])
                found("new", $1 ": " $3 " grew from " sizeof_before[$1 " " $3] " to " $5 " bytes")
            else if ($2 == "struct" && $5 > sizeof_before[$1 " " $3])
                found("breaks", $1 ": " $3 " grew from " sizeof_before[$1 " " $3] " to " $5 " bytes, but does not begin with size: an old program has no room for it")
            else
                found("breaks", $1 ": was \"" what(before[key]) "\", is \"" what($0) "\"")
            next
        }
        of = $1 " " $3; sub(/\.[^.]*$/, "", of)
        if ($2 == "member" && of in sizeof_before && !(of in grows))
            found("breaks", $1 ": new member " $3 " of a struct that does not begin with size: an old program does not set it")
        else if ($2 == "member" && of in sizeof_before && $5 < sizeof_before[of])
            found("breaks", $1 ": new member " $3 " at offset " $5 ", where an old program has other members or padding; put it at the end, from offset " sizeof_before[of] " on")
        else
            found("new", $1 ": " what($0))
    }
    END {
        for (i = 1; i <= n; i++)
            if (!(order[i] in now)) { $0 = before[order[i]]; found("breaks", $1 ": gone: \"" what($0) "\"") }
        for (f in declared)
            if (!(f in exported)) found("wrong", declared[f] ": " f " is declared, but the library does not export it")
    }' "$work/before" "$work/now" | sort -s -k1,1 >"$work/found"

of_kind() { sed -n "s/^$1 /$1: /p" "$work/found"; }
status=0
if of_kind wrong | grep .; then status=1; fi
if of_kind breaks | grep .; then
    if [[ $recording && $BREAKING == 1 ]]; then
        echo "Recorded all the same: say so in src/CHANGELOG.md, and look at SONAME in the Makefile."
    else
        status=1
        echo "An old program would notice this. Undo it, or add what is new beside what was; before 1.0, where it must be:"
        echo "make abi-record BREAKING=1, a line in src/CHANGELOG.md, and a new SONAME if a release had the old one."
    fi
fi
if [[ $recording ]]; then
    if ((status == 0)); then
        {
            echo "# What programs that were built with the library rely on, on machines with 64-bit pointers and long."
            echo "# Written by make abi-record; make abi compares it (tests/lint/abi.sh)."
            sort -s -k1,1 "$work/now" "$work/kept"
        } >"$work/record" && cp "$work/record" "$record" || exit 1
        of_kind new
        echo "recorded: $(grep -vc '^#' "$record") lines in $record"
    else
        echo "$record: not changed"
    fi
elif of_kind new | grep .; then
    status=1
    echo "No old program notices what is new, but it is not recorded yet: make abi-record"
elif ((status == 0)); then
    echo "the interface is as recorded: $(wc -l <"$work/now") lines of $record"
fi
exit $status
