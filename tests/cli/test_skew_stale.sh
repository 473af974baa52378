#!/bin/bash
# skew --format html: of which server and of when a page is, until when that counts, and that no old page goes on
# saying "safe". What a browser makes of it is in test_skew_page.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
page=$work/page.html
meta() { sed -n "s/.*<meta name=\"tidelock-$1\" content=\"\([^\"]*\)\">.*/\1/p" "${2:-$page}" | sed 's/".*//'; }
good() { grep -o ' data-good="[0-9]*"' "${1:-$page}" | tr -dc 0-9; }

# ---- the server and the time --------------------------------------------------------------------------
before=$(now_ms)
expect 1 "$tidelock" skew --format html --output "$page"
after=$(now_ms)
[[ $(meta server) == "$socket" && $(meta verdict) == WARN ]] || fail "server: $(grep -o '<meta name.*<title' "$page")"
at=$(meta at-ms)
((at >= before - 1000 && at <= after + 1000)) || fail "it is of $at, measured from $before to $after"
[[ $(meta stale-at-ms) == $((at + 900000)) && $(good) == 900000 ]] || fail "it counts until $(meta stale-at-ms), for $(good)"
grep -q "<time datetime=\"$(date -u -d "@$((at / 1000))" +%FT%TZ)\">$(date -u -d "@$((at / 1000))" '+%F %T UTC')</time>" "$page" ||
    fail "the time: $(grep -o '<time.*' "$page")"
grep -q 'http-equiv="refresh"' "$page" && fail "nobody promises another page"

# The browser is told which script may run: this one.
"$python" - "$page" <<'PY' || fail "another script than its hash says"
import base64, hashlib, re, sys
page = open(sys.argv[1]).read()
script = re.findall("<script>(.*?)</script>", page, re.S)
assert len(script) == 1 and page.count("<script") == 1
sha = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
assert "script-src 'sha256-%s'\"" % sha in page, sha
PY

# No secret of the URL is in it.
open_port
redis CONFIG SET requirepass s3cret-word >/dev/null
expect 1 "$tidelock" --url "redis://:s3cret-word@127.0.0.1:$port" skew --format html --output "$page" --log "$work/log"
[[ $(meta server) == "127.0.0.1:$port" ]] || fail "server: $(meta server)"
grep -q 's3cret' "$page" "$work/log" && fail "the password is in it"
grep -q "\"server\":\"127.0.0.1:$port\"" "$work/log" || fail "the log does not name it: $(cat "$work/log")"
redis -a s3cret-word CONFIG SET requirepass '' >/dev/null
expect 1 "$tidelock" skew report --format html --output "$page" "$work/log"
[[ $(meta server) == "127.0.0.1:$port" ]] || fail "the report's server: $(meta server)"

# ---- when it is stale ---------------------------------------------------------------------------------
expect 1 "$tidelock" skew --format html --output "$page" --stale-after 2h
[[ $(good) == 7200000 ]] || fail "--stale-after: $(good)"
expect_line 64 '--stale-after needs --format html' "$tidelock" skew --stale-after 2h
expect_line 64 '--stale-after needs --format html' "$tidelock" skew --stale-after 2h --format html --json
for d in 59s 31d; do expect_line 64 '1m to 30d' "$tidelock" skew --format html --stale-after "$d"; done

# A watch promises the next one, and three rounds without it are too many; a minute at least.
made() { [[ -s $page ]] && grep -q '</html>' "$page"; }
watched() { # pause; the page comes into $page
    rm -f "$page"
    { "$tidelock" skew --format html --output "$page" --watch="$1" & } 2>"$err"
    watcher=$!
    until_true 20 made || fail "no page"
    kill -TERM $watcher
    wait_for $watcher 20
}
watched 10s
grep -q '<meta http-equiv="refresh" content="30">' "$page" || fail "a watch: $(head -c 900 "$page")"
[[ $(good) == 60000 ]] || fail "a watch counts for $(good)"
watched 10m
grep -q '<meta http-equiv="refresh" content="600">' "$page" || fail "a slow watch: $(head -c 900 "$page")"
(($(good) >= 1800000 && $(good) < 1900000)) || fail "a slow watch counts for $(good)"

# ---- a server that has gone ---------------------------------------------------------------------------
cp "$page" "$work/old"
stop_server
expect_line 69 'no such file|refused' "$tidelock" skew --format html --output "$page"
[[ $(meta verdict) == UNKNOWN ]] || fail "the old page goes on saying $(meta verdict)"
grep -q '<span id="verdict">UNKNOWN</span>' "$page" || fail "$(grep h1 "$page")"
[[ $(meta server) == "$socket" ]] || fail "server: $(meta server)"
exit 0
