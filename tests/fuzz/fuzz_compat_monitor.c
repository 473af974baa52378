/*
 * MONITOR's lines, in which anybody who may speak to the server has a word: what is read reads back from
 * what the server would have written, nothing is kept beyond its room, and what is learnt makes no interval
 * that is upside down. The input is lines; the first byte of each chooses what its value is taken for.
 *
 * fuzz: -max_len=700
 */

/*
 * Given lines of MONITOR, and breaks in between. It asserts: what is read reads back from what the server would have
 * written. Nothing is written beyond its room, no interval is upside down, and names and details are one line.
 */
#include "fuzz.h"

#include "legacy/skew_monitor.h"
#include "legacy/skew_passive.h"

/* Tables of the usual size take longer to make than everything else, and are never full. */
#define HOSTS 8
#define CONNECTIONS 16
#define LINE_MOST 8192

/* As the server writes a word. */
static size_t print_word(char *to, const skew_word *w) {
    static const char letters[] = "nrtab\\\"", meant[] = "\n\r\t\a\b\\\"";
    size_t n = 0;
    to[n++] = '"';
    for (size_t i = 0; i < w->n; i++) {
        unsigned char c = (unsigned char)w->bytes[i];
        const char *at = c ? strchr(meant, c) : NULL;
        if (at) {
            to[n++] = '\\';
            to[n++] = letters[at - meant];
        } else if (c >= ' ' && c <= '~') {
            to[n++] = (char)c;
        } else {
            n += (size_t)snprintf(to + n, 5, "\\x%02x", c);
        }
    }
    to[n++] = '"';
    return n;
}

static void check_read(const skew_heard *c) {
    char text[LINE_MOST];
    skew_heard again;
    MUST(c->words >= 1 && c->words <= SKEW_WORDS && c->stamp_us >= 0);
    MUST(memchr(c->client, '\0', sizeof c->client) && memchr(c->host, '\0', sizeof c->host));
    MUST((c->by == SKEW_BY_TCP) == (c->host[0] != '\0'));
    size_t n = (size_t)snprintf(text, sizeof text, "%lld.%06lld [0 %s]",
                                (long long)c->stamp_us / 1000000, (long long)c->stamp_us % 1000000,
                                c->by == SKEW_BY_TCP    ? c->client
                                : c->by == SKEW_BY_UNIX ? "unix:/x"
                                                        : "lua");
    for (int i = 0; i < c->words; i++) {
        MUST(c->word[i].n <= SKEW_WORD_SIZE);
        text[n++] = ' ';
        n += print_word(text + n, &c->word[i]);
    }
    MUST(skew_monitor_read(tl__bytes(text, n), &again));
    MUST(again.stamp_us == c->stamp_us && again.by == c->by && again.words == c->words);
    MUST(strcmp(again.client, c->client) == 0 && strcmp(again.host, c->host) == 0);
    for (int i = 0; i < c->words; i++)
        MUST(again.word[i].n == c->word[i].n && !again.word[i].cut &&
             memcmp(again.word[i].bytes, c->word[i].bytes, c->word[i].n) == 0);
}

static void learn_from(skew_passive *p, const skew_heard *c, uint8_t choice) {
    int64_t ms;
    tl_interval written = {0, 0};
    skew_stamp_kind kind = SKEW_NO_STAMP;
    if (skew_is_take(c)) {
        kind = choice & 1 ? SKEW_STRANGE : SKEW_NO_STAMP;
        if (tl__bytes_to_int(tl__bytes(c->word[2].bytes, c->word[2].n), &ms) && ms >= 0 &&
            ms < INT64_C(1) << 44) {
            kind = SKEW_STAMP;
            written = (tl_interval){ms * 1000, ms * 1000 + 1000};
        }
    }
    if (choice & 2)
        skew_passive_missed(p);
    skew_passive_learn(p, c, kind, written);
}

static void check_hosts(const skew_passive *p) {
    static skew_host hosts[HOSTS];
    bool more;
    int count = skew_passive_hosts(p, p->last_us, 0, hosts, 0, &more);
    MUST(count >= 0 && count <= HOSTS);
    skew_passive_judge(&p->model, hosts, count);
    for (int i = 0; i < count; i++) {
        const skew_host *h = &hosts[i];
        MUST(h->name[0] && is_line(h->name, sizeof h->name) &&
             is_line(h->detail, sizeof h->detail));
        MUST(h->known == (strcmp(h->status, "ok") == 0) && !(h->known && h->relative));
        if (h->known || h->relative)
            MUST(h->offset.lo <= h->offset.hi && h->samples > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const skew_model model = {
        .legacy_ttl_us = 60000000, .pool_wait_us = 5000, .rate_ppm = 200};
    skew_passive p;
    skew_heard c;

    if (!skew_passive_begin_for(&p, &model, HOSTS, CONNECTIONS))
        return 0;
    (void)skew_monitor_backlog(tl__bytes(data, size), size);
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end ? (size_t)(end - data) : size;
        if (n > 0 && skew_monitor_read(tl__bytes(data + 1, n - 1), &c)) {
            check_read(&c);
            learn_from(&p, &c, data[0]);
        }
        n += end != NULL;
        data += n;
        size -= n;
    }
    check_hosts(&p);
    skew_passive_end(&p);
    return 0;
}
