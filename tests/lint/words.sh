#!/bin/bash
# Words that were retired: each finding is one line "file:line: "found" (say ...)". It reads prose, and of code the
# comments and string literals, so names in code may be what they are. Usage: tests/lint/words.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1

# What to find (extended regular expression, lower case, between word boundaries) = what to say instead.
rules='old kind(s)? = legacy
old clients? = legacy client
robb(ed|er|ers|ery|eries|ing)|robs? = stolen, overwritten, lost
under way = in flight; of an operation: in progress
makes? no sense = malformed
strange answer = malformed reply
(without a|no|a) word to (a|the) server = request
without a word = printed nothing, silently
something is missing = KEY is missing
there is none (called|with number) = unknown
the server to ask any more = the master
led across = migrated
gets? on with = compatible
(take|takes|took|taken|taking) ((a|an|the|no|this|these|that|those|any|its|his|such|all|some|another|your|one|other|of) )?((held|legacy|other) )?locks? = acquire
locks? (that )?(is|are|was|were|be|has been|had been|can be) taken = acquired'

# Left as they are, with the reason; a path, or a path and what the line has.
allowed() { # file line-text
    case $1 in
    tests/lint/words.sh | tests/lint/test_words.sh) return 0 ;; # the words themselves
    tests/wire/*) return 0 ;;                                    # frozen, with its comments
    tests/model/*) return 0 ;;                                   # the traces are named by what the models print
    tests/fuzz/corpus/* | tests/unit/golden/old_scripts.*) return 0 ;; # data
    *.lua) return 0 ;;                                           # a comment behind code is part of what the SHA1 is of
    esac
    case $2 in
    *'lock from'* | *'over the lock'* | *'lock back'* | *'lock away'* | *'taken over'* | *'taken from'* | *'taken back'* | *'taken for'*) return 0 ;; # not acquiring
    esac
    return 1
}

# The comments and string literals of C, with everything else blanked.
said_in_c() {
    awk 'FNR == 1 { inside = 0 }
    {
        line = $0; out = ""
        gsub(/\\./, " ", line)
        while (length(line)) {
            if (inside) {
                end = index(line, "*/")
                if (!end) { out = out " " line; break }
                out = out " " substr(line, 1, end - 1); line = substr(line, end + 2); inside = 0
            } else if (match(line, /\/\*|\/\/|"[^"]*"/)) {
                what = substr(line, RSTART, RLENGTH); rest = substr(line, RSTART + RLENGTH)
                if (what == "/*") inside = 1
                else if (what == "//") { out = out " " rest; break }
                else out = out " " substr(what, 2, length(what) - 2)
                line = rest
            } else break
        }
        if (out != "") print FILENAME ":" FNR ":" out
    }' "$@" /dev/null
}

# Names between backticks are code.
said_in_prose() { awk '{ line = $0; gsub(/`[^`]*`/, " ", line); print FILENAME ":" FNR ":" line }' "$@" /dev/null; }

mapfile -t code < <(find src compat tools include tests -name '*.[ch]' 2>/dev/null)
mapfile -t prose < <(find src compat tools include tests README.md .ci .github -name '*.md' -o -name '*.scd' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.java' -o -name '*.service' -o -path '.ci/run' 2>/dev/null)

every=$(sed 's/ = .*//' <<<"$rules" | paste -sd'|')
status=0
while IFS=: read -r file number text; do
    if allowed "$file" "$text"; then continue; fi
    while IFS= read -r rule; do
        if grep -qiE "(^|[^A-Za-z_.>-])(${rule% = *})([^A-Za-z_-]|\$)" <<<"$text"; then
            echo "$file:$number: \"$(grep -oiE "(^|[^A-Za-z_.>-])(${rule% = *})([^A-Za-z_-]|\$)" <<<"$text" | head -n 1 | sed 's/^[^A-Za-z]*//; s/[^A-Za-z]*$//')\": say ${rule#* = }"
            status=1
        fi
    done <<<"$rules"
done < <({ ((${#code[@]} == 0)) || said_in_c "${code[@]}"; ((${#prose[@]} == 0)) || said_in_prose "${prose[@]}"; } |
    grep -iE "(^|[^A-Za-z_.>-])($every)([^A-Za-z_-]|\$)")

exit $status
