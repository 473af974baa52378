#!/bin/bash
# The pages in a browser: light and dark, no wider than a phone, nothing fetched, nothing gone wrong; and they say
# when they are stale. It needs Chromium: tools/need.sh browser
# timeout: 400
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ -n ${SAN:-} ]]; then echo "the pages are the same without sanitizers" && exit 77; fi
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[[ -n $chromium ]] || { echo "chromium is not installed (Debian: chromium; tools/need.sh browser)" && exit 77; }

# A report on 24 hosts with long names, one of them missing, besides those of golden/.
golden=$here/tests/unit/golden
"$python" - >"$work/log" <<'PY'
import json
hosts = [dict(name="payments-worker-%02d.prod.example.com" % (i + 1), instrument="agent", drift_ppm=None, age_ms=5, samples=8,
              status="ok", detail="", self=i == 3, missing=i == 4, offset_ms=dict(lo=i * 50, hi=i * 50 + 0.5)) for i in range(24)]
pairs = [dict(holder=h["name"], taker=t["name"], verdict="SAFE", gap_ms=dict(lo=t["offset_ms"]["lo"] - h["offset_ms"]["hi"] - 13,
              hi=t["offset_ms"]["hi"] - h["offset_ms"]["lo"] + 13)) for h in hosts for t in hosts if h is not t]
pairs.sort(key=lambda p: -p["gap_ms"]["hi"])
for p in pairs:
    hi = p["gap_ms"]["hi"]
    p["verdict"] = "UNSAFE" if hi > 1130 else "WARN" if hi > 500 else "SAFE"
for at in 1795300000000, 1795300060000:
    print(json.dumps(dict(at_ms=at, verdict="UNSAFE", reason="as made", lock_timeout_ms=60000, slack_ms=1000, warn_percent=50,
                          server="redis-a.prod.example.com:6379", hosts=hosts, pairs=pairs, worst=pairs[0], advice=["x" * 90])))
PY
expect 2 "$tidelock" skew report --format html --output "$work/fleet.html" "$work/log"

# Every page at every width, in frames of one page, and what a script outside finds in them: a line each. They are
# as new as they would be, but for one that was made three hours ago, and one of an hour to come.
cp "$golden"/skew-{unsafe,warn,report}.html "$work"
pages=(skew-unsafe skew-warn skew-report fleet stale early)
widths=(360 390 1200)
"$python" - "$work" "${pages[*]}" "${widths[*]}" >"$work/look.html" <<'PY'
import html, re, sys, time
now = int(time.time() * 1000)
at = dict(stale=now - 3 * 3600000, early=now + 3600000)
print('<!DOCTYPE html><meta charset="utf-8">')
for page in sys.argv[2].split():
    text = open("%s/%s.html" % (sys.argv[1], "skew-warn" if page in at else page)).read()
    text = re.sub('data-at="[0-9]+"', 'data-at="%d"' % at.get(page, now), text)
    for width in sys.argv[3].split():
        print('<iframe id="%s-%s" style="border:0" width="%s" height="30000" srcdoc="%s"></iframe>' %
              (page, width, width, html.escape(text, quote=True)))
print("""<pre id="out"></pre><script>
function overflow(e) { return e.scrollWidth > e.clientWidth; }
window.addEventListener("load", function () {
    document.querySelectorAll("iframe").forEach(function (f) {
        var w = f.contentWindow, d = w.document, root = d.documentElement, small = 0, box = d.querySelector(".box");
        d.querySelectorAll("svg.plot, .heat td").forEach(function (s) { if (s.getBoundingClientRect().height < 10) small++; });
        var cells = Array.from(d.querySelectorAll(".heat td")), stale = d.getElementById("stale");
        document.getElementById("out").textContent += ["SEEN", f.id, "scroll=" + root.scrollWidth, "client=" + root.clientWidth,
            "background=" + w.getComputedStyle(d.body).backgroundColor, "fetched=" + w.performance.getEntriesByType("resource").length,
            "small=" + small, "cells=" + cells.length, "cut=" + cells.filter(overflow).length, "boxed=" + overflow(box),
            "h1=" + d.querySelector("h1").textContent.trim().replace(/ /g, "_"), "title=" + d.title.split(/[ ,:]/)[0],
            "stale=" + (stale.hidden ? "no" : stale.querySelector("b").textContent.replace(/ /g, "_")), "END"].join(" ") + "\\n";
    });
});
</script>""")
PY
look() { # light or dark, as Chromium numbers them; what is seen comes into $out
    timeout -k 5 180 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --virtual-time-budget=5000 \
        --blink-settings=preferredColorScheme="$1" --dump-dom "file://$work/look.html" >"$work/dom" 2>"$work/browser.log" </dev/null
    grep -o 'SEEN .* END' "$work/dom" >"$out"
}
look 1
if [[ ! -s $work/dom ]]; then echo "chromium does not run here: $(tail -n 1 "$work/browser.log")" && exit 77; fi
[[ $(wc -l <"$out") == 18 ]] || fail "the browser says $(cat "$out")"
for page in "${pages[@]}"; do
    verdict=UNSAFE title= stale=no cells=16
    [[ $page != skew-warn && $page != early ]] || verdict=WARN
    [[ $page != fleet ]] || cells=576
    [[ $page != early ]] || stale='How_old_is_this_page?'
    [[ $page != stale ]] || verdict=was_WARN title=STALE stale=Stale:
    for width in "${widths[@]}"; do
        line=$(grep "SEEN $page-$width " "$out")
        [[ $line == *" scroll=$width client=$width "* ]] || fail "it scrolls sideways: $line"
        [[ $line == *" fetched=0 small=0 cells=$cells cut=0 "* ]] || fail "it is not all there: $line"
        [[ $line == *" h1=$verdict title=${title:-$verdict} stale=$stale END" ]] || fail "how old it is: $line"
        [[ $line == *" background=rgb(244, "* ]] || fail "it is not light: $line"
    done
done
# The matrix of 24 fits a desk, and on a phone scrolls in its own box.
grep -q "SEEN fleet-1200 .* boxed=false" "$out" && grep -q "SEEN fleet-390 .* boxed=true" "$out" || fail "the matrix: $(grep fleet "$out")"
look 0
[[ $(grep -c ' background=rgb(16, ' "$out") == 18 ]] || fail "not all is dark: $(cat "$out")"
exit 0
