/*
 * The logs that "skew report" reads, which anything may have happened to: what is taken from a line is in
 * range and the right way up, and what is told of it is a page, an object and a text without a stray byte.
 * The input is a log. It is read three times: short ones, of which the corpus has many, are tried ten times
 * as often as the long ones of real runs.
 *
 * fuzz: -max_len=420
 */

/*
 * Given a log of `skew --log`. It asserts:
 * - What is read from a line is in range, in order and the right way up.
 * - The report is one line of JSON of printable ASCII. The earliest moment foreseen is not after the latest.
 */
#include "fuzz.h"

#include "base/js.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_logline.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_order.h"
#include "skew/judge/skew_past.h"
#include "skew/judge/skew_trend.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"
#include "skew/show/skew_axis.h"
#include "skew/show/skew_chart.h"
#include "skew/show/skew_look.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_story.h"

static void check_past(const skew_past *p) {
    for (size_t i = 1; i < p->runs; i++)
        MUST(p->run[i - 1].at_ms <= p->run[i].at_ms);
    for (size_t i = 0; i < p->hosts; i++)
        for (size_t n = 0; n < p->host[i].count; n++) {
            const past_point *x = &p->host[i].point[n];
            MUST(x->at_ms >= p->run[0].at_ms && x->at_ms <= p->run[p->runs - 1].at_ms);
            MUST(n == 0 || p->host[i].point[n - 1].at_ms <= x->at_ms);
        }
    for (int i = 0; i < p->last.host_count; i++) {
        const skew_host *h = &p->last.hosts[i];
        MUST(!h->known || h->offset.lo <= h->offset.hi);
        for (const char *c = h->name; *c; c++)
            MUST(*c >= 0x20 && *c < 0x7f);
    }
    for (size_t i = 0; i < p->last.pair_count; i++) {
        const skew_pair *pair = &p->last.pairs[i];
        MUST(pair->gap.lo <= pair->gap.hi && pair->holder < p->last.host_count &&
             pair->taker < p->last.host_count);
    }
}

/* It is of text alone, whole, and has one script. */
static void check_page(const skew_story *s) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    MUST(out);
    story_html(s, out);
    MUST(fclose(out) == 0);
    MUST(len > 8 && memcmp(text + len - 8, "</html>\n", 8) == 0);
    const char *script = strstr(text, "<script");
    MUST(script && !strstr(script + 1, "<script"));
    for (size_t i = 0; i < len; i++)
        MUST(text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f));
    free(text);
}

static void check_story(const skew_past *p) {
    skew_story s;
    char message[STORY_MESSAGE], *text = NULL;
    const char *why;
    size_t len = 0;

    MUST(story_begin(&s, p));
    for (size_t i = 0; i < p->hosts; i++)
        MUST(!s.drift[i].known || s.drift[i].ppb.lo <= s.drift[i].ppb.hi);
    MUST(s.outlook.latest_ms < 0 || s.outlook.latest_ms >= s.outlook.earliest_ms);
    MUST(strlen(story_outlook(&s, message)) > 0);
    FILE *out = open_memstream(&text, &len);
    MUST(out);
    story_json(&s, out);
    MUST(fclose(out) == 0);
    MUST(len > 0 && text[len - 1] == '\n');
    json_t *again = js_read(text, len, &why);
    MUST(json_is_object(again));
    for (size_t i = 0; i + 1 < len; i++)
        MUST(text[i] >= 0x20 && text[i] < 0x7f);
    json_decref(again);
    free(text);
    check_page(&s);
    story_end(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    skew_past p = {.run = NULL};
    const char *why, *at = (const char *)data;

    while (size > 0) {
        const char *end = memchr(at, '\n', size);
        size_t n = end ? (size_t)(end - at) : size, used = n + (end != NULL);
        past_added added = past_add(&p, at, n, &why);
        MUST(added == PAST_OK || (added == PAST_NOT_OURS && why && *why));
        at += used;
        size -= used;
    }
    if (p.runs > 0) {
        MUST(past_settle(&p));
        check_past(&p);
        check_story(&p);
    }
    past_end(&p);
    return 0;
}
