#!/bin/bash
# The site that `make docs` makes: each link leads somewhere, each page is linked to, and the search finds pages.
# Only in make check-all: what it shows depends on the pages alone.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
for command in cmark-gfm mandoc; do
    command -v $command >/dev/null || { echo "$command is not installed (Debian: $command)" && exit 77; }
done
man3=$here/${BUILD:-build}/man3
"$python" "$here/tools/docs/site.py" "$here/${BUILD:-build}/man" "$man3" "$work/site" >"$out" 2>"$err" || fail "$(cat "$out")"
for page in index.html man/tidelock-run.1.html man/tl_lock_acquire.3.html compat/MIGRATION.html src/client/README.html style.css search.js; do
    [[ -s $work/site/$page ]] || fail "the site lacks $page"
done
grep -q 'href="man/tidelock-promises.7.html"' "$work/site/index.html" || fail "the first page doesn't link to tidelock-promises(7)"
"$python" - "$work/site/search-index.js" <<'PY' || fail "the search knows too little"
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
pages = json.loads(text[text.index("["):text.rindex("]") + 1])
assert len(pages) > 80 and any(p["title"] == "tidelock-run(1)" and "--wait" in p["text"] for p in pages)
PY

# What it must find, in a project of two pages.
mkdir -p "$work/small/tools" "$work/small/docs" "$work/man"
cp -r "$here/tools/docs" "$work/small/tools/"
printf '# One\n\n[nowhere](gone.md) [no section](#none)\n' >"$work/small/README.md"
printf '# Two\n' >"$work/small/docs/two.md"
! "$python" "$work/small/tools/docs/site.py" "$work/man" "$work/man" "$work/site" >"$out" 2>"$err" || fail "faults are not found"
for line in 'README.md: the link to gone.md leads nowhere' 'README.md: #none: there is no such section' \
    'docs/two.html: no page links to it' 'docs/two.html: in no group of the navigation'; do
    grep -qxF "$line" "$out" || fail "not found: $line: $(cat "$out")"
done
