#!/bin/bash
# The pages in a browser: light and dark, no wider than a phone, nothing fetched, nothing gone wrong. It
# needs Chromium: tools/need.sh browser
# timeout: 400
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ -n ${SAN:-} ]]; then echo "the pages are the same without sanitizers" && exit 77; fi
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[[ -n $chromium ]] || { echo "chromium is not installed: tools/need.sh browser" && exit 77; }

# Every page at every width, in frames of one page, and what a script outside finds in them: a line each.
golden=$here/tests/unit/golden
pages=(skew-unsafe skew-warn skew-report)
widths=(360 390 1200)
"$python" - "$golden" "${pages[*]}" "${widths[*]}" >"$work/look.html" <<'PY'
import html, sys
print('<!DOCTYPE html><meta charset="utf-8">')
for page in sys.argv[2].split():
    for width in sys.argv[3].split():
        text = open("%s/%s.html" % (sys.argv[1], page)).read()
        print('<iframe id="%s-%s" style="border:0" width="%s" height="9000" srcdoc="%s"></iframe>' %
              (page, width, width, html.escape(text, quote=True)))
print("""<pre id="out"></pre><script>
window.addEventListener("load", function () {
    document.querySelectorAll("iframe").forEach(function (f) {
        var w = f.contentWindow, d = w.document, root = d.documentElement, small = 0;
        d.querySelectorAll("svg.plot, svg.heat").forEach(function (s) { if (s.getBoundingClientRect().height < 10) small++; });
        document.getElementById("out").textContent += ["SEEN", f.id, "scroll=" + root.scrollWidth, "client=" + root.clientWidth,
            "background=" + w.getComputedStyle(d.body).backgroundColor, "fetched=" + w.performance.getEntriesByType("resource").length,
            "small=" + small, "cells=" + d.querySelectorAll("svg.heat rect, svg.heat path").length,
            "h1=" + d.querySelector("h1").textContent.trim(), "END"].join(" ") + "\\n";
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
[[ $(wc -l <"$out") == 9 ]] || fail "the browser says $(cat "$out")"
for page in "${pages[@]}"; do
    verdict=UNSAFE
    [[ $page != skew-warn ]] || verdict=WARN
    for width in "${widths[@]}"; do
        line=$(grep "SEEN $page-$width " "$out")
        [[ $line == *" scroll=$width client=$width "* ]] || fail "it scrolls sideways: $line"
        [[ $line == *" fetched=0 small=0 cells=12 h1=$verdict END" ]] || fail "it is not all there: $line"
        [[ $line == *" background=rgb(244, "* ]] || fail "it is not light: $line"
    done
done
look 0
[[ $(grep -c ' background=rgb(16, ' "$out") == 9 ]] || fail "not all is dark: $(cat "$out")"
exit 0
