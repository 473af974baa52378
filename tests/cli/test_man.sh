#!/bin/bash
# The manual pages that `make install` brings: each function of the library and each type that its headers declare has a
# page; the pages say all that the headers' comments say, and neither groff nor mandoc has a word against any of them.
# Only in make check-all: it is about pages.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

root=$work/root prefix=/opt/tidelock
variant=(CC="${CC:-cc}" SAN="${SAN:-}")
if [[ ${BUILD:-} == *nocompat* ]]; then variant+=(COMPAT=0); fi
env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=$prefix "${variant[@]}" >"$out" 2>"$err" ||
    fail "make install: $(cat "$out")"
man=$root$prefix/share/man
export MANWIDTH=80 LC_ALL=C.UTF-8

# ---- which there are ---------------------------------------------------------------------------
nm -D --defined-only "$root$prefix/lib/libtidelock.so" | sed -n 's/^.* T \(tl_[a-z_]*\)@@.*/\1/p' >"$work/symbols"
(($(wc -l <"$work/symbols") >= 20)) || fail "the library shows $(wc -l <"$work/symbols") functions"
sed -n 's/^typedef .*(\*\(tl_[a-z_]*\)).*/\1/p; s/^} \(tl_[a-z_]*\);/\1/p' "$root$prefix"/include/tidelock/*.h >"$work/types"
(($(wc -l <"$work/types") >= 10)) || fail "the headers declare $(wc -l <"$work/types") types"
while read -r name; do
    [[ -s $man/man3/$name.3 ]] || fail "$name has no page"
done < <(cat "$work/symbols" "$work/types")
for page in "$man"/man3/tl_*.3; do
    name=$(basename "$page" .3)
    grep -qx "$name" "$work/symbols" "$work/types" || fail "$name is no function and no type, but has a page"
done
for header in "$root$prefix"/include/tidelock/*.h*; do
    name=$(basename "$header" .h)
    case $name in inspect | legacy) name=tidelock-$name ;; esac
    [[ -s $man/man3/$name.3 ]] || fail "${header##*/} has no page"
done

# ---- how they look -----------------------------------------------------------------------------
(cd "$man" && mandoc -T lint -W warning man3/*.3 >"$out" 2>"$err") || fail "mandoc: $(head -n 5 "$out")"
# scdoc writes paragraphs that are empty.
(cd "$man" && mandoc -T lint -W warning man1/*.1 man7/*.7) 2>&1 | grep -v 'skipping paragraph macro' >"$out" && fail "mandoc: $(head -n 5 "$out")"
# A line of one long word can't be adjusted, as groff says from 1.23 on. Each page alone, as man shows it: in one run the
# paper of one page ends within a table of the next.
for page in "$man"/man?/*.?; do groff -man -t -ww -W break -z -T utf8 "$page"; done >"$out" 2>&1
[[ ! -s $out ]] || fail "groff: $(head -n 3 "$out")"
# A table may begin at any line of a page, however long the text before it is.
for i in {1..20}; do
    awk -v n="$i" '{ print } /^\.SH "?EXAMPLES/ { for (i = 0; i < n; i++) print ".PP\nmore" }' "$man/man1/tidelock-migrate.1" >"$work/moved.1"
    groff -man -t -ww -W break -z -T utf8 "$work/moved.1"
done >"$out" 2>&1
[[ ! -s $out ]] || fail "groff, of a page that is longer: $(head -n 3 "$out")"
# As lintian asks man: the page itself must say that it needs tbl. From 1.23 on groff warns of one that doesn't.
for page in "$man"/man?/*.?; do
    MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | sed "s|^|${page##*/}: |"
    if grep -q '^\.TS' "$page" && [[ $(head -n 1 "$page") != "'\\\" t" ]]; then echo "${page##*/}: it doesn't ask for tbl"; fi
done >"$out"
[[ ! -s $out ]] || fail "man: $(head -n 3 "$out")"
grep -q '^\.TS' "$man"/man1/tidelock.1 || fail "tidelock(1) has no table, and this test no page to look at"
lexgrog "$man"/man?/*.? >"$out" 2>&1 || fail "no line for apropos: $(grep -v '": "' "$out" | head -n 3)"

# ---- what they say -----------------------------------------------------------------------------
shown() { MANPATH=$man man -P cat 3 "$1" >"$out" 2>"$err" || fail "man 3 $1"; }
shown tl_lock_acquire
for word in PARAMETERS 'RETURN VALUE' RESULTS THREADS FILES 'SEE ALSO' '#include <tidelock/tidelock.h>' \
    'tl_err tl_lock_acquire(tl_lock \*lock, int64_t wait_ms, tl_error \*err);' TL_EUNCERTAIN TL_FOREVER; do
    grep -q -- "$word" "$out" || fail "tl_lock_acquire(3) lacks $word"
done
# And where to go on from there.
for word in tl_lock_release tl_lock_remaining_ms tl_lock_fence tl_client_options tl_lock_acquire_async; do
    sed -n '/^SEE ALSO/,$p' "$out" | grep -q "$word(3)" || fail "tl_lock_acquire(3) doesn't lead to $word(3)"
done
# What the header only lists is explained as tl_err explains it.
grep -A 1 '^ *TL_ENOMEM$' "$out" | grep -q 'out of memory' || fail "tl_lock_acquire(3) doesn't explain TL_ENOMEM"
shown tl_acquire
grep -A 9 '^EXAMPLE' "$out" | grep -q 'tl_client_open(&co, &client, &err)' || fail "tl_acquire(3) has no example"

# Each line of each comment is on a page, as one piece; but plain ones that stand beside code, and rules between sections.
cat >"$work/said.py" <<'EOF'
import re, subprocess, sys
man, headers = sys.argv[1], sys.argv[2:]
words = lambda text: " " + " ".join(re.findall(r"[A-Za-z0-9_]+", text)) + " "
pages = ""
for page in subprocess.run("ls %s/man3/*.3" % man, shell=True, capture_output=True, text=True).stdout.split():
    text = open(page).read()
    text = re.sub(r"(?m)^\.\w+ ?(\\\(bu.*)?", "", text)
    text = re.sub(r"\\\((..)", " ", re.sub(r"\\f.", "", text)).replace("(3)", "").replace("\\e", "\\").replace("\\-", "-").replace("\\&", "")
    pages += words(text)
lines = missing = 0
for header in headers:
    text = open(header).read()
    text = re.sub(r"(?s)#ifdef __cplusplus.*?#(else|endif)", "", text)
    for m in re.finditer(r"(?s)(^|\n)([^\n]*?)/\*(.*?)\*/", text):
        plain = not m.group(3).startswith("*")
        if plain and (m.group(2).strip() or "----" in m.group(3)):
            continue
        for line in m.group(3).split("\n"):
            line = words(re.sub(r"^returns ", "", line.lstrip("*< ")))
            lines += 1
            if re.fullmatch(r"( TL_[A-Z]+)+ ", line): # is taken apart
                continue
            if line.strip() and line not in pages:
                missing += 1
                print("%s: on no page:%s" % (header.split("/")[-1], line))
if lines < 300 or missing:
    sys.exit("%d of %d lines of comments are on no page" % (missing, lines))
EOF
"$python" "$work/said.py" "$man" "$root$prefix"/include/tidelock/*.h >"$out" 2>"$err" || fail "$(head -n 5 "$out")"

# ---- and what can't be read is refused ------------------------------------------------------------
refused() { # pattern, more for the header
    mkdir -p "$work/pages"
    { sed '/^#ifdef __cplusplus/,$d' "$here/include/tidelock/inspect.h" && echo "$2"; } >"$work/odd.h"
    ! awk -v dir="$work/pages" -v version=1 -v date=1 -f "$here/tools/man/man3.awk" "$work/odd.h" >"$out" 2>"$err" || depth=1 fail "not refused: $2"
    grep -q -- "$1" "$err" || depth=1 fail "another refusal than '$1'"
}
refused 'tl_bare has no comment' 'int tl_bare(void);'
refused 'what is this' '/** a union */ typedef union { int a; } tl_odd;'
refused 'TL_ENEVER is no result' '/** Try. The results are:
 *
 * TL_ENEVER
 */
tl_err tl_try(void);'

# ---- without scdoc the pages of the command are left out, and a line says so -------------------------
env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$work/few" PREFIX=$prefix SCDOC= "${variant[@]}" >"$out" 2>"$err" ||
    fail "make install: $(cat "$out")"
grep -q '^tidelock: .*scdoc is missing' "$err" || fail "no line about the missing pages"
[[ ! -e $work/few$prefix/share/man/man1/tidelock.1 && -s $work/few$prefix/share/man/man3/tidelock.3 ]] || fail "other pages are missing"
