/*
 * A result as a page: whatever it says is text, in figures that are known, in one order, and what stands for a
 * colour is also a mark. Where golden/ freezes its bytes, this holds what they mean.
 */
#include "skew_faces.h"

#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_order.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"
#include "skew/show/skew_axis.h"
#include "skew/show/skew_look.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define DAY_MS INT64_C(86400000)

static skew_host agent(const char *name, int64_t lo, int64_t hi) {
    skew_host h = host(name, "agent", lo, hi, 100);
    h.detail[0] = '\0';
    return h;
}

static skew_result result_of(skew_host *hosts, int n, int64_t slack_ms) {
    skew_result r = judged(hosts, n, slack_ms);
    (void)snprintf(r.server, sizeof r.server, "redis-a.example.com:6379");
    r.stale_after_ms = 900000;
    return r;
}

static char *page_of(const skew_result *r) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    skew_show_html(r, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void has(const char *text, const char *what) {
    if (!strstr(text, what))
        fail_msg("not in the page: %s", what);
}

static void lacks(const char *text, const char *what) {
    const char *at = strstr(text, what);
    if (at)
        fail_msg("in the page: %.80s", at);
}

/* Twenty-four of long names, i ms apart. */
static int fleet(skew_host *hosts, int n) {
    char name[SKEW_NAME_SIZE];

    for (int i = 0; i < n; i++) {
        int at = i * 7 % n;
        (void)snprintf(name, sizeof name, "payments-worker-%02d.prod.example.com", at + 1);
        hosts[i] = agent(name, (int64_t)at * 1000, (int64_t)at * 1000 + 300);
    }
    return n;
}

/* ---- byte by byte ---------------------------------------------------------------------------------- */

static void is_golden_page(const char *name, int n, int64_t slack_ms, skew_verdict verdict) {
    char file[64];
    skew_host hosts[4] = {agent("here", -9, 10), agent("ahead.example.org", 349986, 350013),
                          agent("behind", -120012, -119987), agent("odd", 0, 0)};

    hosts[0].self = true;
    hosts[0].has_drift = true;
    hosts[0].drift_ppb = (tl_interval){-1500, 250};
    hosts[3].known = false;
    hosts[3].status = "unreadable";
    (void)snprintf(hosts[3].detail, sizeof hosts[3].detail, "its record says \"?\\\"");
    skew_result r = result_of(n == 1 ? &hosts[3] : hosts, n, slack_ms);
    assert_int_equal(r.verdict, verdict);
    char *text = page_of(&r);
    (void)snprintf(file, sizeof file, "skew-%s.html", name);
    is_golden(file, text);
    free(text);
    skew_result_end(&r);
}

TEST(a_host_with_an_alarm_is_marked) {
    skew_host hosts[] = {agent("a", 0, 10), agent("b", 0, 10)};
    skew_alarm_put(&hosts[1], SKEW_SOON);
    skew_result r = result_of(hosts, 2, 1000);
    char *page = page_of(&r);
    has(page, "<span id=\"verdict\">WARN</span>");
    has(page, "the hypervisor of b announces a disruption within about a day");
    assert_int_equal(count(page, "hypervisor warns"), 1);
    free(page);
    skew_result_end(&r);
}

TEST(a_page_of_each_verdict) {
    is_golden_page("safe", 3, 1000, SKEW_SAFE);
    is_golden_page("warn", 4, 1000, SKEW_WARN);
    is_golden_page("unsafe", 4, 400, SKEW_UNSAFE);
    is_golden_page("unknown", 1, -250, SKEW_UNKNOWN);
}

/* ---- what it is of --------------------------------------------------------------------------------- */

TEST(it_names_the_server_and_the_time_for_people_and_machines) {
    skew_host hosts[2] = {agent("a", 0, 10), agent("b", 0, 10)};
    skew_result r = result_of(hosts, 2, 1000);
    char *text = page_of(&r);
    has(text, "<title>SAFE: clocks and locks, redis-a.example.com:6379</title>");
    has(text, "<dt>Server</dt><dd>redis-a.example.com:6379</dd>");
    has(text, "<time datetime=\"2026-11-21T22:26:40Z\">2026-11-21 22:26:40 UTC</time>");
    has(text, "<dt>Stale after</dt><dd><time datetime=\"2026-11-21T22:41:40Z\">");
    has(text, "<meta name=\"tidelock-verdict\" content=\"SAFE\">");
    has(text, "<meta name=\"tidelock-at-ms\" content=\"1795300000000\">");
    has(text, "<meta name=\"tidelock-stale-at-ms\" content=\"1795300900000\">");
    has(text, "<meta name=\"tidelock-server\" content=\"redis-a.example.com:6379\">");
    has(text, "<main data-at=\"1795300000000\" data-good=\"900000\">");
    has(text, "<div id=\"stale\" role=\"alert\" hidden>");
    lacks(text, "http-equiv=\"refresh\"");
    assert_true(strstr(text, "<h1>") < strstr(text, "<section>")); /* the verdict first */
    free(text);
    r.watch_ms = 2000; /* by a watch: not so often that nobody could read it */
    text = page_of(&r);
    has(text, "<meta http-equiv=\"refresh\" content=\"30\">");
    free(text);
    r.at_ms = 0; /* then nothing can tell how old it is */
    text = page_of(&r);
    lacks(text, "<script");
    lacks(text, "data-at");
    free(text);
    skew_result_end(&r);
}

/* ---- text ------------------------------------------------------------------------------------------ */

/* Whoever may write to the server, or to the log, chooses names and texts. */
TEST(no_text_is_markup) {
    static const char evil[] = "</title></style><script>alert(1)</script>\"'\x1b\xc3\xa9";
    skew_host hosts[3] = {agent("a", 0, 10), agent("<i>&\"'\x1b\xc3\xa9", 700000, 700010),
                          agent("\" onload=\"x", 0, 0)};
    hosts[2].known = false;
    hosts[2].missing = true;
    for (int i = 0; i < 3; i++)
        (void)snprintf(hosts[i].detail, sizeof hosts[i].detail, "%s", evil);
    skew_result r = result_of(hosts, 3, 100);
    (void)snprintf(r.server, sizeof r.server, "%s", evil);
    (void)snprintf(r.reason, sizeof r.reason, "%s", evil);
    (void)snprintf(r.advice[0], sizeof r.advice[0], "%s", evil);
    char *text = page_of(&r);
    lacks(text, "<i>&");
    lacks(text, "<script>alert");
    lacks(text, "\" onload=\"");
    has(text, "&lt;i&gt;&amp;&quot;&#39;???");
    assert_int_equal(count(text, "<script"), 1);
    assert_int_equal(count(text, "</script>"), 1);
    assert_int_equal(count(text, "</style>"), 1);
    assert_int_equal(count(text, "</title>"), 1);
    for (const char *c = text; *c; c++)
        assert_true(*c == '\n' || (*c >= 0x20 && *c < 0x7f));
    free(text);
    skew_result_end(&r);
}

/* Its one script is the one whose hash it allows, and nothing of the result is in it. */
TEST(it_fetches_nothing_and_runs_one_script) {
    skew_host hosts[24];
    skew_result r = result_of(hosts, fleet(hosts, 24), 1000);
    char *text = page_of(&r), want[8192];
    (void)snprintf(want, sizeof want, "<script>%s</script></body></html>\n", skew_look_script);
    assert_string_equal(strstr(text, "<script"), want);
    has(text, "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-");
    static const char *const never[] = {
        "http:",   "https:",  "//",       "src=",   "<link",   "<img",
        "<iframe", "@import", "url(http", "fetch(", "XMLHttp", "import("};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        lacks(text, never[i]);
    free(text);
    skew_result_end(&r);
}

/* ---- the matrix ------------------------------------------------------------------------------------ */

/* The texts between two marks, one after the other. */
static const char *next_text(const char *at, const char *from, const char *to, char *buf) {
    const char *text = strstr(at, from), *close = text ? strstr(text, to) : NULL;

    if (!close)
        return NULL;
    text += strlen(from);
    (void)snprintf(buf, 200, "%.*s", (int)(close - text), text);
    return close;
}

TEST(rows_and_columns_are_in_one_order_and_named) {
    skew_host hosts[24];
    skew_result r = result_of(hosts, fleet(hosts, 24), 1000);
    char *text = page_of(&r), row[200], column[200], want[200];
    const char *body = strstr(text, "<tbody>"), *a = text, *b = body;
    has(text, "takes it &rarr;<br>holds it &darr;");
    for (int i = 24; i >= 1; i--) { /* the one that is furthest ahead first */
        a = next_text(a, "<th class=\"col\" scope=\"col\"><span", "</span>", column);
        b = next_text(b, "<th scope=\"row\"><span", "</span>", row);
        assert_true(a && b && a < body);
        assert_string_equal(row, column);
        (void)snprintf(want, sizeof want,
                       " title=\"payments-worker-%02d.prod.example.com\">payments-worker-%02d..", i,
                       i);
        assert_string_equal(row, want);
    }
    assert_null(next_text(b, "<th scope=\"row\">", "</th>", row));
    free(text);
    skew_result_end(&r);
}

TEST(every_cell_of_24_hosts_has_its_number) {
    skew_host hosts[24];
    skew_result r = result_of(hosts, fleet(hosts, 24), 1000);
    char *text = page_of(&r), cell[200];
    const char *at = strstr(text, "<tbody>");
    int cells = 0;
    while ((at = next_text(at, "<td class=\"", "</td>", cell)) && strncmp(cell, "to", 2) != 0) {
        const char *inside = strchr(cell, '>');
        assert_non_null(inside);
        inside += strncmp(inside + 1, "&minus;", 7) == 0 ? 8 : 1;
        if (*inside < '0' || *inside > '9')
            fail_msg("no number: %s", cell);
        cells++;
    }
    assert_int_equal(cells, 24 * 23);
    has(text,
        "title=\"payments-worker-01.prod.example.com holds, payments-worker-24.prod.example.com "
        "takes: 9 to 37 ms ahead, safe\">37</td>");
    free(text);
    skew_result_end(&r);
}

/* 60 s at 200 ppm and a ms leave 26 ms in doubt: no digit after the point is known. */
TEST(figures_end_with_the_digit_that_is_known) {
    skew_host hosts[2] = {agent("here", -120012, -119987), agent("there", 349986, 350013)};
    hosts[0].has_drift = true;
    hosts[0].drift_ppb = (tl_interval){-1500, 25250};
    skew_result r = result_of(hosts, 2, 1000);
    char *text = page_of(&r);
    has(text, "<span class=\"num\">456</span> to <span class=\"num\">484</span> ms");
    has(text, ">484</td>");
    has(text, "<span class=\"num\">&minus;2</span> to <span class=\"num\">26</span> ppm");
    lacks(text, "483.0");
    free(text);
    skew_result_end(&r);
}

/* The low edge of a theft is beyond the slack as it is printed, too. */
TEST(a_figure_stays_on_its_side_of_the_slack) {
    skew_host hosts[2] = {agent("a", 0, 1), agent("b", 413300, 413301)};
    skew_result r = result_of(hosts, 2, 400);
    assert_int_equal(r.verdict, SKEW_UNSAFE);
    char *text = page_of(&r);
    has(text, "<span class=\"num\">400.2</span> to <span class=\"num\">426.4</span> ms");
    free(text);
    skew_result_end(&r);
}

TEST(no_kind_of_pair_is_told_by_colour_alone) {
    skew_host hosts[5] = {agent("slow", 0, 10), agent("close", 600000, 600010),
                          agent("doubt", 990000, 990010), agent("thief", 1200000, 1200010),
                          agent("mute", 0, 0)};
    hosts[4].known = false;
    skew_result r = result_of(hosts, 5, 1000);
    char *text = page_of(&r);
    has(text,
        "<td class=\"t\" title=\"slow holds, close takes: 586 to 614 ms ahead, little slack is "
        "left\">614&#8239;~</td>");
    has(text,
        "<td class=\"w\" title=\"slow holds, doubt takes: 976 to 1004 ms ahead, theft can&#39;t be "
        "ruled out\">1004&#8239;?</td>");
    has(text,
        "<td class=\"u worst\" title=\"slow holds, thief takes: 1186 to 1214 ms ahead, theft is "
        "possible\">1214&#8239;!</td>");
    has(text, "<td class=\"n\">&ndash;</td>");
    has(text, "theft is possible</b>");
    has(text, "<i class=\"t\">~</i>more than 50&nbsp;%");
    lacks(text, "certain");
    free(text);
    skew_result_end(&r);
}

/* ---- many hosts ------------------------------------------------------------------------------------ */

static size_t size_of(int n) {
    static skew_host hosts[400];
    for (int i = 0; i < n; i++) {
        char name[SKEW_NAME_SIZE];
        (void)snprintf(name, sizeof name, "payments-worker-%03d.prod.example.com", i);
        hosts[i] = agent(name, i * 7919 % 1500000, i * 7919 % 1500000 + 500);
    }
    skew_result r = result_of(hosts, n, 1000);
    char *text = page_of(&r);
    size_t size = strlen(text);
    has(text, "</html>");
    free(text);
    skew_result_end(&r);
    return size;
}

/* Cells of a kind are joined: a page of 400 hosts, with 159,600 pairs, is a page still. */
TEST(a_large_fleet_is_a_small_page) {
    static const int hosts[] = {24, 25, 64, 65, 400};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (size_of(hosts[i]) > 1000000)
            fail_msg("%d hosts are %zu bytes", hosts[i], size_of(hosts[i]));
}

/* A line of the drawing stands for two hosts then; one theft among them all is still to be seen. */
TEST(thousands_of_hosts_share_lines) {
    static skew_host hosts[1501];
    for (int thief = 0; thief <= 1; thief++) {
        char name[16];
        for (int i = 0; i < 1501; i++) {
            (void)snprintf(name, sizeof name, "h%d", i);
            hosts[i] = agent(name, i, i + 300);
        }
        if (thief)
            hosts[700].offset = (tl_interval){995000, 995000}; /* beyond one host alone */
        hosts[3].offset = (tl_interval){-20000, -20000};
        skew_result r = result_of(hosts, 1501, 1000);
        char *text = page_of(&r);
        has(text, "Of 1501 hosts");
        has(text, "Each line stands for 2 neighbours");
        assert_int_equal(strstr(text, "<path class=\"u\" d=\"\"/>") == NULL, thief);
        lacks(text, "nan");
        free(text);
        skew_result_end(&r);
    }
}

/* ---- hosts ----------------------------------------------------------------------------------------- */

TEST(who_is_missing_is_named_beside_the_verdict) {
    skew_host hosts[4] = {agent("a", 0, 10), agent("b", 0, 10), agent("gone", 500, 600),
                          agent("db1", 0, 0)};
    hosts[0].self = true;
    hosts[2].missing = true;
    hosts[3].known = false;
    hosts[3].missing = true;
    skew_result r = result_of(hosts, 4, 1000);
    char *text = page_of(&r);
    const char *named = strstr(text, "<b>Missing, or not measured:</b> gone, db1</p>");
    assert_non_null(named);
    assert_true(named < strstr(text, "<section>"));
    has(text, "4, of which 2 missing or not measured");
    has(text, "<span>gone</span> <span class=\"tag\">missing</span>");
    has(text, "<span>a</span> <span class=\"tag\">this host</span>");
    assert_int_equal(count(text, "&ndash; missing</b>"), 2);
    free(text);
    skew_result_end(&r);
}

static page_room room_of(const skew_result *r, int i) {
    int64_t middle;
    return page_room_of(r, i, skew_fleet_middle(r, &middle) ? &middle : NULL);
}

static bool is_past(const skew_host *h, int64_t behind, int64_t ahead) {
    return h->offset.lo < behind || h->offset.hi > ahead;
}

/* A bar is past its line when its clock may be further from the middle of all than the slack. In a safe
 * fleet none is. */
TEST(a_bar_passes_its_line_when_its_clock_is_too_far_from_the_middle) {
    int safe = 0, past = 0, near = 0;
    srand(11);
    for (int n = 0; n < 4000; n++) {
        skew_host hosts[5];
        int count = 2 + rand() % 4, spread = rand() % 2 ? 600000 : 2400000;
        for (int i = 0; i < count; i++) {
            int64_t lo = rand() % spread - spread / 2;
            hosts[i] = agent("h", lo, lo + rand() % 300000);
            (void)snprintf(hosts[i].name, sizeof hosts[i].name, "h%d", i);
        }
        skew_result r = result_of(hosts, count, 1000);
        int64_t middle, by = skew_widening_us(&r.rule, &hosts[0], &hosts[1]);
        assert_true(skew_fleet_middle(&r, &middle));
        for (int i = 0; i < count; i++) {
            page_room room = room_of(&r, i);
            const tl_interval *at = &hosts[i].offset;
            int64_t off = at->hi - middle > middle - at->lo ? at->hi - middle : middle - at->lo;
            assert_int_equal(is_past(&hosts[i], room.behind, room.ahead), off + by > 1000000);
            assert_int_equal(is_past(&hosts[i], room.near_behind, room.near_ahead),
                             off + by > 500000);
            assert_false(r.verdict == SKEW_SAFE &&
                         is_past(&hosts[i], room.near_behind, room.near_ahead));
            past += off + by > 1000000;
            near += off + by > 500000;
        }
        safe += r.verdict == SKEW_SAFE;
        skew_result_end(&r);
    }
    assert_true(safe > 100 && past > 100 && near > past);
}

/* It alone is coloured, and said to be the cause. Of a large fleet it is visible, wherever it is. */
TEST(one_bad_clock_colours_no_other) {
    static skew_host hosts[200];
    for (int ahead = 0; ahead <= 1; ahead++) {
        for (int i = 0; i < 200; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "h%d", i);
            hosts[i] = agent(name, i * 100, i * 100 + 50);
        }
        int64_t at = ahead ? 3000000 : -3000000;
        hosts[77].offset = (tl_interval){at, at + 50};
        skew_result r = result_of(hosts, 200, 1000);
        char *text = page_of(&r);
        const char *rows = strstr(text, "Each host&#39;s clock"),
                   *bad = strstr(text, "<b>h77</b> <span class=\"tag blame\">the cause</span>");
        assert_true(rows && bad > rows);
        assert_int_equal(count(rows, "class=\"row"), 200);
        assert_int_equal(count(rows, "<rect class=\"over\" x="), 1);
        assert_true(strstr(rows, "<rect class=\"over\" x=") > bad);
        assert_int_equal(bad > strstr(rows, "</details>"), !ahead);
        assert_int_equal(bad < strstr(rows, "<details><summary>160 more hosts between"), ahead);
        free(text);
        skew_result_end(&r);
    }
}

TEST(two_clocks_accuse_each_other_alike) {
    skew_host hosts[] = {agent("a", 0, 100), agent("b", 1500000, 1500100)};
    skew_result r = result_of(hosts, 2, 1000);
    for (int i = 0; i < 2; i++) {
        page_room room = room_of(&r, i);
        assert_false(is_past(&hosts[i], room.behind, room.ahead));
        assert_true(is_past(&hosts[i], room.near_behind, room.near_ahead));
    }
    char *text = page_of(&r);
    assert_int_equal(count(text, "may be the cause</span>"), 2);
    free(text);
    skew_result_end(&r);
}

/* ---- axes ------------------------------------------------------------------------------------------ */

TEST(marks_are_few_round_and_inside) {
    for (int64_t span = 1; span < INT64_MAX / 1000; span = span * 3 / 2 + 1) {
        skew_axis a = axis_of((tl_interval){-span / 3, span - span / 3}, 4);
        assert_true(a.all.lo < -span / 3 && a.all.hi > span - span / 3);
        int64_t marks = (a.all.hi - a.all.lo) / a.step, digits = a.step;
        assert_true(marks >= 1 && marks <= 4);
        while (digits % 10 == 0)
            digits /= 10;
        assert_true(digits == 1 || digits == 2 || digits == 5);
        a = axis_of_times(AT_MS, AT_MS + span);
        assert_true(span / a.step <= AXIS_TIMES_MOST);
        assert_true(a.step % 1000 == 0 && (a.step % DAY_MS == 0 || DAY_MS % a.step == 0));
    }
}

TEST(a_scale_shows_where_slack_ends_unless_that_hides_all_else) {
    bool edges;
    tl_interval x = axis_reach((tl_interval){-10, 90}, (tl_interval){-150, 140}, &edges);
    assert_true(edges && x.lo == -150 && x.hi == 140);
    x = axis_reach((tl_interval){-10, 90}, (tl_interval){-990, 1010}, &edges);
    assert_true(!edges && x.lo == -10 && x.hi == 90);
    x = axis_reach((tl_interval){20, 90}, (tl_interval){0, 0}, &edges);
    assert_true(x.lo == 0 && x.hi == 90); /* the server's clock is on it */
}
