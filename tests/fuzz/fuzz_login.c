/*
 * The login: what the endpoint in the input makes us say, and what a server may answer to it. The
 * secrets begin with a letter that nothing else has, so that even a part of one is recognised. In
 * the answers the bytes 1 and 2 stand for the user name and the password: the server repeats them.
 */

/*
 * It asserts:
 * - The bytes sent read back as the intended commands. Wiping leaves no secret. Each step is answered once.
 * - A failure is one line that names the place and contains no part of a secret.
 */
#include "transport/login.h"

#include "fuzz.h"
#include "transport/resp.h"

#define MARK '~' /* the first byte of each secret, and of nothing else */
#define ANSWERS_SIZE 8192
#define DIGITS_MAX 3

static tl_resp *reader;

static void make_secret(char *to, input *in) {
    tl_bytes text = in_bytes(in, TL_USER_SIZE - 2);
    size_t n = 0;
    if (text.n > 0)
        to[n++] = MARK;
    for (size_t i = 0; i < text.n; i++) /* an error reply can't hold line ends, so nor do secrets */
        to[n++] = (char)(strchr("\r\n~", text.p[i]) ? '0' : text.p[i]);
    to[n] = '\0';
}

static void make_endpoint(tl_endpoint *e, input *in) {
    static tl_secret secret;
    memset(e, 0, sizeof *e);
    e->secret = &secret;
    make_secret(e->user, in);
    make_secret(secret.text, in);
    e->db = (int32_t)in_range(in, 0, INT32_MAX);
    (void)snprintf(e->host, sizeof e->host, "db1");
    (void)snprintf(e->label, sizeof e->label, "db1:6379");
}

/* What is sent is a row of commands, the login first. */
static void check_said(const tl_login *l, const tl_endpoint *e, bool ask_run) {
    tl_reply command[TL_LOGIN_STEPS + 1];
    unsigned n = 0;
    MUST(l->size <= sizeof l->bytes && l->steps <= TL_LOGIN_STEPS && l->answered == 0);
    MUST(tl__resp_reset(reader));
    tl__resp_feed(reader, l->bytes, l->size);
    while (n <= TL_LOGIN_STEPS && tl__resp_next(reader, &command[n]) == 1)
        n++;
    bool auth = e->user[0] || e->secret->text[0];
    MUST(n == l->steps && n == 1u + auth + (e->db > 0) + ask_run);
    const tl_reply *last = &command[0].items[command[0].count - 1];
    if (auth)
        MUST(tl__bytes_eq(last->text, tl__bytes_of(e->secret->text)) ||
             (!e->secret->text[0] && last->text.n == 0));
    if (auth && e->user[0])
        MUST(command[0].count == 3 &&
             tl__bytes_eq(command[0].items[1].text, tl__bytes_of(e->user)));
}

static void feed_secret(char *to, size_t *n, const char *secret) {
    size_t more = strlen(secret);
    memcpy(to + *n, secret, more);
    *n += more;
}

/* The rest of the input, with the secrets put in and nothing else that looks like one. What arrays
 * claim is kept small: fuzz_resp looks into that, and it is slow. */
static void feed_answers(input *in, const tl_endpoint *e) {
    static char text[ANSWERS_SIZE + TL_USER_SIZE];
    size_t n = 0, star = 0; /* where the last '*' was */
    while (in->n > 0 && n < ANSWERS_SIZE) {
        char c = (char)in_byte(in);
        bool is_digit = c >= '0' && c <= '9';
        star = c == '*' ? n : is_digit ? star : ANSWERS_SIZE;
        if (c == 1)
            feed_secret(text, &n, e->user);
        else if (c == 2)
            feed_secret(text, &n, e->secret->text);
        else if (c == 3) /* the head of a string that may be the password */
            n += (size_t)snprintf(text + n, 32, "$%zu\r\n", strlen(e->secret->text));
        else if (!is_digit || star > n || n - star < DIGITS_MAX)
            text[n++] = (char)(c == MARK ? '-' : c);
    }
    MUST(tl__resp_reset(reader));
    tl__resp_feed(reader, text, n);
}

static void check_failed(const tl_endpoint *e, tl_err why, const char *words, size_t size) {
    MUST(why == TL_EDENIED || why == TL_EUNAVAILABLE || why == TL_EINVALID || why == TL_ESERVER);
    MUST(is_line(words, size));
    size_t label = strlen(e->label);
    MUST(strncmp(words, e->label, label) == 0 && words[label] == ':' && words[label + 1] == ' ');
    MUST(!strchr(words, MARK));
}

static void check_done(const tl_login *l) {
    MUST(l->answered == l->steps);
    MUST(!l->has_bracket || l->bracket.lo <= l->bracket.hi);
}

static void converse(tl_login *l, const tl_endpoint *e) {
    const tl_mono received = {INT64_C(5000000000000)};
    tl_reply reply;
    tl_login_outcome outcome = TL_LOGIN_MORE;
    while (outcome == TL_LOGIN_MORE && tl__resp_next(reader, &reply) == 1) {
        uint8_t before = l->answered;
        memset(l->message, 0xa5, sizeof l->message);
        outcome = tl__login_reply(l, &reply, received);
        MUST(l->answered == before + 1 && l->answered <= l->steps && l->steps <= TL_LOGIN_STEPS);
        MUST(l->size <= sizeof l->bytes);
    }
    if (outcome == TL_LOGIN_FAILED)
        check_failed(e, l->why, l->message, sizeof l->message);
    if (outcome == TL_LOGIN_DONE)
        check_done(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tl_endpoint e;
    static tl_login l;
    input in = {data, size};
    if (!reader)
        reader = tl__resp_new();
    MUST(reader);
    bool ask_run = in_byte(&in) & 1;
    make_endpoint(&e, &in);
    tl__login_begin(&l, &e, (tl_login_asks){.time = true, .run = ask_run});
    check_said(&l, &e, ask_run);
    l.sent.ns = INT64_C(4999000000000);
    tl__login_wipe(&l);
    MUST(!memchr(l.bytes, MARK, sizeof l.bytes));
    feed_answers(&in, &e);
    converse(&l, &e);
    tl__resp_release(reader);
    return 0;
}
