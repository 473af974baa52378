#!/bin/bash
# The picture of the demo is drawn by a program, changes only where more than figures has changed, and shows the demo
# of today; the commands at the demo's end can be typed. (make check-all plays the demo itself.)
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
picture=$work/picture.svg

# ---- what is drawn --------------------------------------------------------------------------------
cat >"$work/play" <<'SH'
#!/bin/sh
test -t 1 || exit 9
printf '   on a server\n\n\033[1m1. One & <two>\033[0m\n   \033[2m$ count %s\033[0m\n   a  %s  b\n\n   further on\n\n\033[1m2. %s\033[0m\n' $1 $1 $2
echo "   \033[32m✓ $2 it is a line that is longer than the picture is wide, so that a part of it has to go to a further line\033[0m"
exit ${3:-0}
SH
chmod +x "$work/play"
draw=("$python" "$here/tools/docs/cast.py" "$picture" "$work/play")
# Scenes, with what stands in their lines.
scenes() {
    "$python" - "$1" <<'PY'
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
for scene in tree.parse(sys.argv[1]).getroot().iter(svg + "g"):
    print(*(text.get("class").removeprefix("line").strip() + ":" + text.text for text in scene.iter(svg + "text")), sep="|")
PY
}
expect 0 "${draw[@]}" 7 Two
[[ $(scenes "$picture") == ':   on a server|strong:1. One & <two>|command:   $ count 7|:   a  7  b|:   further on
strong:2. Two|good:   ✓ Two it is a line that is longer than the picture is wide, so that a part of it has to go to a|good:     further line' ]] ||
    fail "it is drawn as: $(scenes "$picture")"
cp "$picture" "$work/first"
expect 0 "${draw[@]}" 12.5 Two
cmp -s "$picture" "$work/first" || fail "other figures change the picture"
expect 1 "${draw[@]}" 7 Three 5
expect 1 "${draw[@]}" 7 'left out: there is no etcd'
cmp -s "$picture" "$work/first" || fail "a demo that failed is drawn"
expect 0 "${draw[@]}" 7 Three
[[ $(scenes "$picture") == *'2. Three'* ]] || fail "other words don't change the picture"

# ---- the picture that is shown ----------------------------------------------------------------------
shown=$here/tools/docs/demo.svg
sed 's/ xmlns="[^"]*"//' "$shown" | grep -nE 'href|url\(|@import|@font-face|<(script|image|path|foreignObject)' && fail "it fetches or runs something"
# What the demo always says in the same words: its titles, and what it types.
grep -oE '^ *(title|show) "[^$"]*"$' "$here/tools/demo.sh" | sed 's/^ *[a-z]* "//; s/"$//' >"$work/says"
[[ $(wc -l <"$work/says") -ge 15 ]] || fail "what does the demo say? $(cat "$work/says")"
scenes "$shown" | tr '|' '\n' | sed 's/^[a-z]*: *//; s/^[0-9]*\. //; s/^\$ //' >"$work/shown"
while IFS= read -r line; do
    grep -qxF -- "$line" "$work/shown" || fail "the picture lacks: $line: rm tools/docs/demo.svg; make demo-svg"
done <"$work/says"

# ---- what to try next -------------------------------------------------------------------------------
start_server
open_port
scenes "$shown" | tail -n 1 | tr '|' '\n' | sed -n 's/^command: *\$ build\///p' >"$work/next"
[[ $(wc -l <"$work/next") == 3 ]] || fail "it ends with: $(cat "$work/next")"
mkdir "$work/bin" && ln -s "$tidelock" "$work/bin/tidelock"
export PATH=$work/bin:$PATH
{ read -r hold && read -r look && read -r doctor; } <"$work/next"
sh -c "exec $hold" 2>/dev/null &
holds() { sh -c "$look" 2>/dev/null | grep -q '^hello .*sleep'; }
until_true 30 holds || fail "$look says: $(sh -c "$look" 2>&1)"
sh -c "${doctor/HOST/127.0.0.1:$port}" >"$out" 2>"$err" || [[ $? == 1 ]] || fail "$doctor: $(cat "$err")"
