#!/bin/bash
# Put rows into a table of a page, between the lines <!-- NAME --> and <!-- /NAME -->: each in the place of the row whose
# first cell is the same. The rows are in the order of these cells.
#
#   tests/record.sh PAGE NAME ROW...
set -eu
page=$1 begin="<!-- $2 -->" end="<!-- /$2 -->"
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ $(grep -cxF -e "$begin" -e "$end" "$page") == 2 ]] || { echo "$page: there is no table between $begin and $end" && exit 1; }
{ printf '%s\n' "$@" && awk -v b="$begin" -v e="$end" '$0 == e { exit } on && ++line > 2 { print } $0 == b { on = 1 }' "$page"; } |
    awk -F ' [|] ' '!seen[$1]++' | sort -t '|' -k2,2V >"$work/rows"
awk -v b="$begin" -v e="$end" -v rows="$work/rows" '
    $0 == e { on = 0; while ((getline row < rows) > 0) print row }
    !on || ++line <= 2 { print }
    $0 == b { on = 1 }' "$page" >"$work/page"
cat "$work/page" >"$page"
