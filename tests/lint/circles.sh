#!/bin/bash
# No circle of calls between modules, read from the objects: who needs a symbol of whom. A module is a file, or the
# files of one that share their inside, as the table has it. Each finding is a line. Usage: tests/lint/circles.sh OBJECTS
set -u
objects=${1:?OBJECTS}

# Modules of several files | the files, by patterns.
table='
keeper | src/client/keeper src/client/keeper_* src/client/run
conn   | src/transport/conn src/transport/conn_* src/transport/codec_*
wakeup | src/transport/wakeup src/transport/watch
stamps | compat/stamp/stamp compat/stamp/stamp_*
'

names=() files=()
while IFS='|' read -r name what; do
    [[ -n $what ]] && names+=("${name// /}") && files+=("$what")
done <<<"$table"

module_of() { # file without .o
    local i pattern
    set -f
    for i in "${!names[@]}"; do
        for pattern in ${files[i]}; do
            # shellcheck disable=SC2053
            if [[ $1 == $pattern ]]; then set +f && echo "${names[i]}" && return; fi
        done
    done
    set +f
    echo "$1"
}

edges=$(mktemp) || exit 1
trap 'rm -f "$edges" "$edges".*' EXIT

# MODULE KIND SYMBOL for each object whose source is there. A room for legacy clients adds tables to rooms below it,
# which know their addresses: that is no call.
while IFS= read -r object; do
    file=${object#"$objects"/} file=${file%.o}
    [[ -e $file.c && $file != */examples/* ]] || continue
    nm "$object" | sed -n "s|^[0-9a-f]* *\([A-Za-z]\) \([^@]*\).*|$(module_of "$file") \1 \2|p"
done < <(find "$objects/src" "$objects/compat" "$objects/tools" -name '*.o' 2>/dev/null | sort) |
    grep -vE ' U [a-z_]*_legacy$| U legacy_[a-z_]*$' >"$edges"

[[ -s $edges ]] || { echo "$objects: there are no objects: make lib" && exit 1; }
awk '$2 ~ /^[TDBRV]$/ { at[$3] = $1; next } $2 == "U" { n++; from[n] = $1; needs[n] = $3 }
    END { for (i = 1; i <= n; i++) if (needs[i] in at && at[needs[i]] != from[i]) print from[i], at[needs[i]] }' "$edges" |
    sort -u >"$edges.calls"
tsort "$edges.calls" >/dev/null 2>"$edges.loops" && exit 0
awk '/contains a loop/ { if (line) print line; line = "a circle of calls between modules:"; next }
    { sub(/^tsort: /, ""); line = line " " $0 } END { if (line) print line }' "$edges.loops"
exit 1
