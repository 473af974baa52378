#!/bin/bash
# What the pages show to be typed can be typed: each piece of C in README.md and compat/*.md is compiled, a whole program is run, and
# each command in README.md, in compat/MIGRATION.md and in the manual is given, with a server, keys and a namespace of the test's own. (The lines of
# compat/RUNBOOK.md, which belong together, are given in order by test_compat_migration_guide.) And tidelock-promises(7) answers the
# questions on failover.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
open_port
url=redis://127.0.0.1:$port

# ---- failover -------------------------------------------------------------------------------------------
# Each question of failover_questions.md is answered by a section of tidelock-promises(7): ">" names it, and the phrase.
answers=0
flat() { tr -d '*\\' | tr -s ' \n' ' '; }
while IFS= read -r answer; do
    section=${answer%%:*} phrase=${answer#*: }
    said=$(awk -v head="# $section" '/^# / { on = $0 == head } on' "$here/tools/man/tidelock-promises.7.scd" | flat)
    [[ $said == *"$phrase"* ]] || fail "tidelock-promises(7), $section, doesn't say: $phrase"
    answers=$((answers + 1))
done < <(sed -n 's/^ *> //p' "$here/tests/cli/failover_questions.md")
((answers >= 12)) || fail "failover_questions.md has $answers answers"

# ---- C ------------------------------------------------------------------------------------------------
# What a page says before its pieces, and what stands for the reader's own.
mkdir -p "$work/include/tidelock"
ln -s "$here"/include/tidelock/* "$work/include/tidelock/"
if [[ -e $here/compat/distribute_lock_util.h ]]; then ln -s "$here/compat/distribute_lock_util.h" "$work/include/tidelock/"; fi
cat >"$work/own.h" <<'C'
#include <tidelock/tidelock.h>
#ifdef WITH_COMPAT
#include <tidelock/distribute_lock_util.h>
extern tl_dlu *locks;
#endif
extern tl_error err;
extern tl_client *client;
extern const char *key;
extern struct db *db;
struct row;
void die(const char *words);
bool more_work(void);
struct row *next_row(void);
void work(void);
void do_a_little(void);
void write_row(); /* with what the page gives it */
C
pieces=0
with_compat=()
# A build without it has its pages, but none of their functions.
if "$tidelock" help | grep -q '^  migrate '; then with_compat=(-DWITH_COMPAT); fi
compile_pieces() { # page, least
    local page=$1 n=0 line=0 text inside=
    while IFS= read -r text; do
        line=$((line + 1))
        case $text in
        '```c') inside=1 && n=$((n + 1)) && echo "#line $((line + 1)) \"$page\"" >"$work/piece" ;;
        '```')
            if [[ -n $inside ]]; then compile_piece "$page"; fi
            inside=
            ;;
        *) if [[ -n $inside ]]; then echo "$text" >>"$work/piece"; fi ;;
        esac
    done <"$here/$page"
    ((n >= $2)) || depth=1 fail "$page has $n pieces of C"
    pieces=$((pieces + n))
}
run_program() { # page: with a server of ours
    sed "s|redis://10.0.0.5|$url|" "$work/piece" >"$work/program.c"
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror ${SAN:+-fsanitize=$SAN} -I"$work/include" "$work/program.c" -o "$work/program" \
        -L"$here/${BUILD:-build}" -ltidelock -Xlinker -rpath -Xlinker "$here/${BUILD:-build}" >"$out" 2>"$err" ||
        depth=3 fail "$1: a program is not built"
    timeout $((60 * slow)) "$work/program" >"$out" 2>"$err" && [[ -s $out && ! -s $err ]] || depth=3 fail "$1: a program fails: $(<"$out")"
}
compile_piece() {
    if grep -q '^int main(' "$work/piece"; then run_program "$1"; return; fi
    if grep -qE 'tl_dlu|tl_legacy|TL_LEGACY|distribute_lock' "$work/piece" && [[ ${#with_compat[@]} == 0 ]]; then return; fi
    { echo '#include "own.h"' && grep '^#include' "$work/piece"
        echo 'void piece(void);' && echo 'void piece(void) {' && grep -v '^#include' "$work/piece" && echo '}'; } >"$work/piece.c"
    "${CC:-cc}" -std=c11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-but-set-variable -Wno-strict-prototypes \
        "${with_compat[@]}" -I"$work" -I"$work/include" "$work/piece.c" >"$out" 2>"$err" || depth=2 fail "$1: a piece of C does not compile"
}
compile_pieces README.md 2
if [[ -e $here/compat/RUNBOOK.md ]]; then
    compile_pieces compat/MIGRATION.md 5
    compile_pieces compat/RUNBOOK.md 2
fi

# ---- commands -----------------------------------------------------------------------------------------
# One script for each box: of a box that shows what is answered the lines behind a "$ ". Whatever a page calls the reader's own is
# there; a server is ours, a time to watch is short, and what asks is told yes.
mkdir "$work/bin" "$work/there" "$work/boxes"
ln -s "$tidelock" "$work/bin/tidelock"
for own in nightly my-daemon; do ln -s /bin/true "$work/bin/$own"; done
for own in build publish send import.sh nightly report job post; do ln -s /bin/true "$work/there/$own"; done
"$python" - "$here" "$work" "$url" "$socket" <<'PY' || fail "the pages have no commands"
import glob, re, sys
here, work, url, socket = sys.argv[1:]
pages = [here + "/README.md"] + sorted(glob.glob(here + "/compat/MIGRATION.md")) + sorted(glob.glob(here + "/tools/man/*.scd"))
begins = re.compile(r"(export|read|trap|redis-cli|\./|(/usr/local/bin/)?tidelock )")
count = 0
for page in pages:
    text = open(page).read()
    for box in re.finditer(r"(?ms)^ *```(\w*)\n(.*?)^ *```", text):
        if box.group(1) not in ("", "sh"):
            continue
        lines = [l.strip() for l in box.group(2).splitlines()]
        shown = [l[2:] for l in lines if l.startswith("$ ")]
        lines = shown or [re.sub(r"^([0-9*]+ ){5}(root )?", "", l) for l in lines]
        if not all(begins.match(l) for l in lines):
            assert not shown and not any(l.startswith("tidelock ") for l in lines), (page, lines)
            continue # a table, a file of configuration, what make is told
        said = []
        for l in lines:
            l = re.sub(r"redis(\+cluster)?://10\.0\.0\.5[0-9.,]*", url, l)
            l = l.replace("/usr/local/bin/tidelock", "tidelock").replace("/usr/local/bin/", "./" if "./" in l else "").replace("/opt/", "")
            l = re.sub(r"(?<= )(backup|scheduler|report)$", "true", l)
            l = re.sub(r"/var/(log|lib)/[^ ]*/|/var/log/", work + "/there/", l)
            l = l.replace("--watch 1d", "--watch 1s").replace("--phase 1", "--phase 1 --lease 1s")
            l = l.replace("jobs:", "cron:").replace("redis-cli ", "redis-cli -s %s " % socket)
            if l.startswith("tidelock migrate survey"): l += " --watch 1s --monitor 1s"
            if re.match(r"tidelock migrate (init|advance)", l) and "--yes" not in l: l += " --yes"
            if re.match(r"tidelock break", l) and "--yes" not in l: l += " --yes" if "#" not in l else ""
            l = re.sub(r"^(tidelock break \S+)  .*", r"\1 --yes", l)
            said.append(l)
        count += len(said)
        name = "%s/boxes/%s-%d" % (work, page.split("/")[-1], text[:box.start()].count("\n") + 1)
        open(name, "w").write("".join(l + "\n" for l in said))
assert count >= 35, count
PY

# Whatever its answer is: the page can be wrong in the words of a command (64), in what it names (127), in the shell's grammar (2), or
# show what can't be done at all (70).
export TIDELOCK_URL=$url PATH=$work/bin:$PATH NS=nights
echo '{}' >"$work/there/tidelock-skew.jsonl"
give() { # box
    local line
    cd "$work/there" || fail "no directory"
    while IFS= read -r line; do
        if [[ $line == *"| jq "* ]] && ! command -v jq >/dev/null; then
            part_skipped "${1##*/}: $line" "jq is not installed (Debian: jq)"
            continue
        fi
        status=0
        case $line in
        *--forever* | *" --watch '"*) # for as long as one lets it
            timeout -k 5 1 bash -c "$line" >"$out" 2>"$err" </dev/null || status=$?
            [[ $status == 124 ]] || fail "${1##*/}: status $status: $line"
            continue
            ;;
        esac
        if [[ $line == "tidelock "* ]]; then line="timeout 60 $line"; fi
        eval "$line" >"$out" 2>"$err" </dev/null || status=$?
        case $line in
        *' skew '* | *' doctor '* | *' doctor') ((status <= 3)) || fail "${1##*/}: status $status: $line: $(cat "$out")" ;;
        *' check '* | *' inspect '* | *' break '* | *' unlock '*) ((status <= 1)) || fail "${1##*/}: status $status: $line: $(cat "$out")" ;;
        *rediss://*) [[ $status == 78 ]] && grep -q 'ca.pem' "$err" || fail "${1##*/}: status $status: $line" ;; # there is none
        *) [[ $status == 0 ]] || fail "${1##*/}: status $status: $line: $(cat "$out")" ;;
        esac
        ! grep -qE 'syntax error|command not found' "$err" || fail "${1##*/}: $line"
    done <"$1"
}
for box in "$work"/boxes/*; do
    if [[ ${#with_compat[@]} == 0 ]] && grep -qE 'migrate|--protocol|--dialect|\$NS' "$box"; then continue; fi
    (give "$box") || exit 1
    redis FLUSHALL >/dev/null
done

# ---- nightly jobs ---------------------------------------------------------------------------------------
# No night is missed: one may have 23 h, the hosts come up to an hour apart, and who waits may acquire the lock so much later.
nightly=0
while IFS= read -r line; do
    [[ $line =~ --once-per[\",\ ]+([0-9]+)h ]] || fail "how long does it rest: $line"
    rest=${BASH_REMATCH[1]} wait=0
    if [[ $line =~ \ -w\ ([0-9]+)h ]]; then wait=${BASH_REMATCH[1]}; fi
    ((rest + wait < 22)) || fail "it misses a night: $line"
    nightly=$((nightly + 1))
done < <(grep -hE -- '--once-per[", ]+[0-9]+h' "$here/README.md" "$here"/tools/man/*.scd "$here"/tools/packaging/examples/*)
((nightly >= 6)) || fail "the pages show $nightly nightly jobs"

# ---- a script that loses its lock -----------------------------------------------------------------------
# That of tidelock(1) publishes nothing once another has the lock, nor when a step before has failed.
box=$(grep -l 'tidelock extend' "$work"/boxes/tidelock.1.scd-*)
mkdir "$work/lost"
printf '#!/bin/sh\ntouch published\n' >"$work/lost/publish"
chmod +x "$work/lost/publish"
stops() { # status, how it builds
    printf '#!/bin/sh\n%s\n' "$2" >"$work/lost/build"
    chmod +x "$work/lost/build"
    (cd "$work/lost" && bash "$box") >"$out" 2>"$err" </dev/null
    local status=$?
    [[ $status == "$1" && ! -e $work/lost/published ]] || depth=1 fail "status $status: $(ls "$work/lost")"
}
stops 3 'exit 3'
stops 2 'tidelock break --yes deploy && tidelock lock deploy'
