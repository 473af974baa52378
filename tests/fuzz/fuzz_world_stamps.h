/*
 * Stamps: what the server answers of them, what they prove, and what may be sent because of that.
 */

/*
 * The asserts about stamps, in any dialect and with several margins:
 * - No deadline is later than the asking + (the end of the stamp in K - the server's time) - M. For an acquire and the
 *   renewals within L of it, it is no later than the cap. Without scripts it is no later than the asking + lifetime - M
 *   and the cap.
 * - A script server is sent scripts alone, never SETNX, GETSET or DEL. Strict sends no script, the bridge nothing else.
 * - Without scripts a GETSET comes only after a GET that showed a stamp that is free by all margins. A DEL comes only
 *   after a GET that showed our own bytes, with a whole attempt limit of the belief left. No stamp is sent that ends
 *   before the legacy lifetime does, or later than L after our clock was read for it.
 * - LOST, taken or gone, only on an answer that shows another's value, or none. The lock is ours despite other bytes
 *   only for a racing loser's stamp while time is left.
 */
#pragma once

#include "fuzz_world.h"

/* Was the last command none of the scripts? */
static inline bool is_plain(const fuzz_world *w) {
    return w->stamps && w->asked.count > 0 && w->asked.command[0].form == TL_ARGV &&
           !is_time(&w->asked);
}

#ifdef TL_COMPAT

#include "stamp/stamp.h"

enum { NO_WORD, SETNX, GET, GETSET, DEL };

/* ---- the beginning ----------------------------------------------------------------------------- */

static inline void make_stamps(fuzz_world *w, unsigned which) {
    static const int32_t margins[][2] = {{1000, 500}, {1, 1}, {300, 2000}};
    static const int64_t legacy[] = {60000, 43200000, 30000};
    uint8_t how = in_byte(&w->in);
    const int32_t *m = margins[how % 3];
    w->job.protocol = which == 1 ? &tl__protocol_bridge : &tl__protocol_timestamp;
    const tl_dialect *d = tl__dialect_at(how >> 4);
    w->job.rules = (tl_rules){.dialect = d ? d : tl__dialect_at(0),
                              .clock_skew_max_ms = m[0],
                              .legacy_delay_max_ms = m[1],
                              .legacy_ttl_min_ms = legacy[(how >> 2) % 3],
                              .strict = which == 3};
    if (w->job.rules.strict) { /* these options go together only so, see stamp_rules.c */
        w->job.wait_replicas = 0;
        w->job.wait_fsync = false;
    }
    w->job.ttl_ms = in_range(&w->in, 2 * (m[0] + m[1]) + 1,
                             2 * w->job.rules.legacy_ttl_min_ms - 3 * m[0] - 2 * m[1]);
}

/* A hold that was taken at the start; in some runs nothing is known of it but its token. */
static inline void make_proof(fuzz_world *w) {
    const tl_rules *r = &w->job.rules;
    uint8_t how = in_byte(&w->in);
    int64_t now_us = OFFSET_US + START_NS / 1000;
    if (how & 1)
        return;
    w->job.hold.proof.kind = TL_PROOF_STAMP;
    w->job.hold.proof.stamp = (tl_stamp_proof){
        .cap = tl__mono_add_ms(w->start, r->legacy_ttl_min_ms - r->legacy_delay_max_ms -
                                             2 * (int64_t)r->clock_skew_max_ms -
                                             r->dialect->early_ms),
        .capped_until = how & 2 ? TL_NEVER : tl__mono_add_ms(w->start, r->legacy_delay_max_ms),
        .proved_us = now_us,
        .end_ms = now_us / 1000 + w->job.ttl_ms};
}

/* ---- what is said ------------------------------------------------------------------------------ */

static inline int word_of(const tl_command *c) {
    static const char *const words[] = {"", "SETNX", "GET", "GETSET", "DEL"};
    for (int i = SETNX; i <= DEL; i++)
        if (c->form == TL_ARGV && c->argc > 0 &&
            tl__bytes_eq(c->argv[0], tl__bytes(words[i], strlen(words[i]))))
            return i;
    return NO_WORD;
}

static inline int asked_word(const fuzz_world *w) {
    return w->asked.count > 0 ? word_of(&w->asked.command[0]) : NO_WORD;
}

/* The server's clock, as far as it is known: to judge by and to write by. */
static inline tl_interval known_us(const fuzz_world *w) {
    if (!w->job.rules.strict && w->server.anchor.known)
        return tl__anchor_server_time(&w->server.anchor, w->now, w->server.drift_ppm);
    int64_t us = w->now.ns / 1000 + w->server.wall_us;
    return (tl_interval){us, us};
}

/* Would its stamp be of a time at which there were none? By what TIME has just told, too. */
static inline bool writes_early(const fuzz_world *w) {
    fuzz_world told = *w;
    if (w->out.has_bracket)
        (void)tl__anchor_learn(&told.server.anchor, w->out.bracket, w->now, w->server.drift_ppm);
    int64_t end_ms = known_us(&told).lo / 1000 + w->job.ttl_ms;
    return w->stamps && !tl__dialect_likely(end_ms, end_ms);
}

static inline tl_stamp read_stamp(const fuzz_world *w, tl_bytes text) {
    return tl__dialect_read(w->job.rules.dialect, text, known_us(w).lo / 1000);
}

/* Free by the server's clock in the answer, or else by ours. */
static inline bool is_free_stamp(const fuzz_world *w, tl_bytes text, int64_t now_ms) {
    const tl_rules *r = &w->job.rules;
    tl_stamp s = read_stamp(w, text);
    return s.kind == TL_STAMP_GOOD &&
           s.first_free_ms + r->clock_skew_max_ms + r->legacy_delay_max_ms < now_ms;
}

static inline bool is_own(const fuzz_world *w, tl_bytes text) {
    char own[TL_STAMP_SIZE];
    return tl__bytes_eq(text, tl__dialect_write(w->job.rules.dialect,
                                                tl__proof_stamp(&w->job.hold.proof).end_ms,
                                                tl__token_bytes(&w->job.token), own));
}

/* A stamp that a client writes whose clock is within M and that raced with the take. */
static inline bool is_losers(const fuzz_world *w, tl_bytes text) {
    const tl_rules *r = &w->job.rules;
    tl_stamp s = read_stamp(w, text);
    int64_t read_ms = s.written_ms - r->legacy_ttl_min_ms;
    int64_t m = r->clock_skew_max_ms * (r->strict || w->server.anchor.known ? 1 : 2);
    int64_t proved_ms = tl__proof_stamp(&w->proof).proved_us / 1000 + m,
            late_ms = r->legacy_delay_max_ms;
    if (s.kind == TL_STAMP_GOOD && r->dialect->waiters_overwrite)
        return read_ms < tl__proof_stamp(&w->proof).end_ms - late_ms &&
               read_ms < proved_ms + r->legacy_ttl_min_ms - 2 * r->clock_skew_max_ms - 2 * late_ms;
    return s.kind == TL_STAMP_GOOD && read_ms <= proved_ms;
}

/* A command at plain level: of the four; each only after what must come before it. `last`: the word
 * before it in the same attempt, whose answer was `w->told`. */
static inline void check_plain(const fuzz_world *w, const tl_send *send, int last) {
    const tl_command *c = &send->command[0];
    const tl_rules *r = &w->job.rules;
    int word = word_of(c);
    MUST(send->count == 1 && w->job.protocol != &tl__protocol_bridge);
    MUST(r->strict || w->server.level == TL_LEVEL_PLAIN || last != NO_WORD);
    MUST(word != NO_WORD && tl__bytes_eq(c->argv[1], w->job.key));
    MUST(c->argc == (word == SETNX || word == GETSET ? 3 : 2));
    if (word == SETNX || word == GETSET) {
        tl_stamp own = read_stamp(w, c->argv[2]);
        MUST(w->kind == ACQUIRE && !w->detached);
        /* The clock was read for a GETSET before the GET. */
        tl_mono read_at = word == GETSET ? w->asked_at : w->now;
        int64_t read_ms = (word == GETSET ? w->asked_us : known_us(w).hi) / 1000;
        MUST(send->by.ns <= tl__mono_add_ms(read_at, r->legacy_delay_max_ms).ns);
        MUST(own.kind == TL_STAMP_GOOD); /* whatever its clock shows */
        MUST((own.end_ms >= read_ms + r->legacy_ttl_min_ms &&
              own.end_ms >= read_ms + w->job.ttl_ms));
    }
    if (word == GETSET)
        MUST(last == GET && w->told_text &&
             is_free_stamp(w, tl__bytes(w->told, w->told_n), known_us(w).lo / 1000));
    if (word == DEL)
        MUST(w->kind == DROP && last == GET && w->told_text &&
             is_own(w, tl__bytes(w->told, w->told_n)) &&
             (w->believed.ns == 0 ||
              tl__mono_add_ms(w->now, w->job.attempt_ms).ns < w->believed.ns));
}

static inline void check_scripts(const fuzz_world *w, const tl_send *send) {
    const tl_command *c = &send->command[0];
    MUST(!w->job.rules.strict && c->form == TL_SCRIPT);
    MUST(c->script == TL_SCRIPT_ACQUIRE || c->script == TL_SCRIPT_RENEW ||
         c->script == TL_SCRIPT_RELEASE);
    MUST(w->server.level != TL_LEVEL_PLAIN || w->job.protocol == &tl__protocol_bridge);
    MUST(c->script != TL_SCRIPT_ACQUIRE || w->kind != DROP);
    if (send->count == 2)
        MUST(send->command[1].form == TL_ARGV &&
             tl__bytes_eq(send->command[1].argv[0],
                          w->job.wait_fsync ? TL_LITERAL("WAITAOF") : TL_LITERAL("WAIT")));
}

/* ---- what is answered -------------------------------------------------------------------------- */

/* A value for K: the one that was sent, our own, that of a client whose clock is off, or anything. */
static inline tl_reply any_value(fuzz_world *w) {
    tl_reply r = {.type = TL_REPLY_STRING};
    char *room = w->stamp_texts[w->stamps_used++ % 8];
    int64_t now_ms = (w->offset_us + w->now.ns / 1000) / 1000;
    uint8_t how = in_byte(&w->in);
    switch (how % 6) {
    case 0:
    case 1: r.text = tl__bytes(w->written, w->written_n); break;
    case 2:
        r.text = tl__dialect_write(w->job.rules.dialect, tl__proof_stamp(&w->job.hold.proof).end_ms,
                                   tl__token_bytes(&w->job.token), room);
        break;
    case 3:
        r.text = tl__dialect_write(w->job.rules.dialect,
                                   tl__add_sat(now_ms, in_range(&w->in, -10000000, 10000000)),
                                   TL_LITERAL("x"), room);
        break;
    case 4:
        r.text = tl__dialect_write(
            w->job.rules.dialect,
            tl__add_sat(tl__proof_stamp(&w->job.hold.proof).proved_us / 1000 +
                            w->job.rules.legacy_ttl_min_ms,
                        in_range(&w->in, -10000, 10000)),
            TL_LITERAL("x"), room);
        break;
    default: r.text = in_bytes(&w->in, 90);
    }
    return r;
}

static inline tl_reply error_reply(const char *words) {
    return (tl_reply){.type = TL_REPLY_ERROR, .text = tl__bytes(words, strlen(words))};
}

/* The same stamp that was told before, as a GETSET that wins is. */
static inline tl_reply same_again(fuzz_world *w) {
    return (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes(w->told, w->told_n)};
}

/* An answer to one of the four commands. */
static inline tl_reply plain_reply(fuzz_world *w, int word) {
    uint8_t how = in_byte(&w->in);
    if (how % 16 == 15)
        return error_reply("WRONGTYPE Operation against a key holding the wrong kind of value");
    if (word == SETNX || word == DEL)
        return (tl_reply){.type = TL_REPLY_INT, .integer = how & 1};
    if (how % 16 == 14)
        return (tl_reply){.type = TL_REPLY_NIL};
    return word == GETSET && how & 1 ? same_again(w) : any_value(w);
}

/* This server knows no WATCH: the attempt goes on with the four commands. */
static inline void refuse_watch(fuzz_world *w) {
    tl_reply replies[TL_COMMANDS_MAX] = {error_reply("ERR unknown command 'WATCH'")};
    const tl_send send = w->out.send;
    if (w->status != TL_GO || w->out.sends == 0 || !send.pin)
        return;
    MUST(!send.pin->closes &&
         ((w->out.level | w->server.level) & TL_LEVEL_BITS) == TL_LEVEL_WATCH &&
         !w->job.rules.strict);
    MUST(w->job.protocol == &tl__protocol_timestamp && send.count <= TL_COMMANDS_MAX);
    tl_event e = {.kind = TL_REPLY, .now = w->now, .server = &w->server, .asked = {.sent = w->now}};
    e.asked.ticket = send.ticket;
    e.replied.reply = replies;
    e.replied.count = send.count;
    tl__out_clear(&w->out);
    w->status = w->step(&w->machine, &e, &w->out);
    MUST(w->out.level == TL_LEVEL_PLAIN);
}

/* Keep what a GET was answered, for what is sent because of it; and our own stamp as it was sent. */
static inline void note_told(fuzz_world *w, const tl_event *e) {
    tl_bytes text;
    if (!w->stamps || asked_word(w) != GET)
        return;
    w->told_text = e->kind == TL_REPLY && e->replied.count > 0 &&
                   tl__reply_text(e->replied.reply, &text) && text.n < sizeof w->told;
    w->told_n = w->told_text ? text.n : 0;
    if (w->told_n)
        memcpy(w->told, text.p, text.n);
}

static inline bool is_text(const tl_event *e, tl_bytes *ret) {
    return e->kind == TL_REPLY && e->replied.count > 0 && tl__reply_text(e->replied.reply, ret);
}

static inline bool is_nil(const tl_event *e) {
    return e->kind == TL_REPLY && e->replied.count > 0 && e->replied.reply->type == TL_REPLY_NIL;
}

static inline bool is_int(const tl_event *e, int64_t v) {
    int64_t n;
    return e->kind == TL_REPLY && e->replied.count > 0 && tl__reply_int(e->replied.reply, &n) &&
           n == v;
}

static inline bool is_wrong_type(const tl_event *e) {
    static const char words[] = "wrong kind of value";
    return e->kind == TL_REPLY && e->replied.count > 0 &&
           e->replied.reply->type == TL_REPLY_ERROR &&
           memmem(e->replied.reply->text.p, e->replied.reply->text.n, words, sizeof words - 1);
}

/* Does this answer make K ours, at plain level? */
static inline bool has_taken(const fuzz_world *w, const tl_event *e) {
    tl_bytes text;
    if (asked_word(w) == SETNX)
        return is_int(e, 1);
    return asked_word(w) == GETSET &&
           (is_nil(e) || (is_text(e, &text) && w->told_text &&
                          tl__bytes_eq(text, tl__bytes(w->told, w->told_n))));
}

static inline bool reads_only(const fuzz_world *w) {
    return is_time(&w->asked) || (is_plain(w) && asked_word(w) == GET);
}

static inline bool takes_plainly(const fuzz_world *w, const tl_event *e) {
    return is_plain(w) && has_taken(w, e);
}

static inline void note_written(fuzz_world *w, const tl_send *send) {
    const tl_command *c = &send->command[0];
    if (send->count == 0)
        return;
    tl_bytes v = {0};
    if (c->form == TL_SCRIPT && (c->script == TL_SCRIPT_ACQUIRE || c->script == TL_SCRIPT_RENEW))
        v = c->argc > 11 ? c->argv[c->script == TL_SCRIPT_ACQUIRE ? 11 : 6] : v;
    else if (c->form == TL_ARGV && c->argc == 3)
        v = c->argv[2];
    if (v.n == 0 || v.n > sizeof w->written)
        return;
    memcpy(w->written, v.p, v.n);
    w->written_n = v.n;
}

/* What K holds, by the answer of a script. */
static inline bool value_in(const fuzz_world *w, const tl_event *e, tl_bytes *ret) {
    if (is_script(&w->asked, TL_SCRIPT_RELEASE))
        return e->kind == TL_REPLY && e->replied.count > 0 &&
               e->replied.reply->type == TL_REPLY_STRING && tl__reply_text(e->replied.reply, ret);
    const tl_reply *r = is_script(&w->asked, TL_SCRIPT_RENEW) ? tl__reply_item(e->replied.reply, 2)
                                                              : e->replied.reply;
    return e->kind == TL_REPLY && e->replied.count > 0 && tl__reply_text(tl__reply_item(r, 1), ret);
}

/* No deadline may be later than this answer proves. */
static inline tl_mono latest_stamp(const fuzz_world *w, const tl_event *e) {
    const tl_rules *r = &w->job.rules;
    bool keeps = is_script(&w->asked, TL_SCRIPT_RENEW);
    int64_t server_us = 0, ttl_ms = w->job.ttl_ms, m = r->clock_skew_max_ms;
    int64_t late_ms = r->dialect->waiters_overwrite ? r->legacy_delay_max_ms : 0;
    tl_mono cap = tl__mono_add_ms(w->asked_at, r->legacy_ttl_min_ms - r->legacy_delay_max_ms -
                                                   2 * m - late_ms - r->dialect->early_ms);
    tl_bytes text;
    if (is_plain(w))
        return tl__mono_min(cap, tl__mono_add_ms(w->asked_at, ttl_ms - m));
    MUST(tl__reply_time(e->replied.reply, keeps ? 0 : 4, &server_us) && value_in(w, e, &text));
    tl_stamp s = tl__dialect_read(r->dialect, text, server_us / 1000);
    MUST(s.kind == TL_STAMP_GOOD);
    int64_t left_ns = (s.end_ms * 1000 - server_us) * 1000 - (m + late_ms) * TL_NS_PER_MS;
    tl_mono by = tl__mono_add_ns(w->asked_at, left_ns > 0 ? left_ns : 0);
    by = tl__mono_min(by, tl__mono_add_ms(w->asked_at, ttl_ms));
    if (w->kind == ACQUIRE || w->proof.stamp.proved_us == 0 || r->dialect->waiters_overwrite)
        return tl__mono_min(by, cap);
    return tl__proof_stamp(&w->proof).capped_until.ns >= w->asked_at.ns
               ? tl__mono_min(by, tl__proof_stamp(&w->proof).cap)
               : by;
}

/* ---- results ----------------------------------------------------------------------------------- */

/* This answer says that the lock is another's (taken) or nobody's. */
static inline bool says_lost(const fuzz_world *w, const tl_event *e, bool taken) {
    tl_bytes text;
    if (is_plain(w))
        return taken ? is_wrong_type(e) || (is_text(e, &text) && !is_own(w, text)) : is_nil(e);
    if (has_status(w, e, -1))
        return !taken && is_script(&w->asked, TL_SCRIPT_RENEW);
    /* To a keep, what has no value is of another type. */
    bool there = value_in(w, e, &text) || is_script(&w->asked, TL_SCRIPT_RENEW);
    return has_status(w, e, 0) && there == taken;
}

static inline void check_stamp_acquired(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    int64_t fence = 0;
    MUST(w->status == TL_END && is_confirmed(w, e) && !is_unasked(w, e));
    if (is_plain(w)) {
        MUST(has_taken(w, e) && r->acquire.fence == 0);
    } else {
        bool moved_on = is_script(&w->asked,
                                  TL_SCRIPT_RENEW); /* a take that was over when it came */
        MUST((moved_on || is_script(&w->asked, TL_SCRIPT_ACQUIRE)) && has_status(w, e, 1));
        MUST(moved_on || (says(w, e, 3, &fence) && r->acquire.fence == (uint64_t)fence));
        MUST(r->acquire.fence > 0 && r->acquire.fence < UINT64_C(1) << 53);
    }
    MUST(r->deadline.ns > w->now.ns && r->deadline.ns <= latest_stamp(w, e).ns);
}

/* A keep that worked, by what was asked last: its deadline. */
static inline void check_stamp_kept(const fuzz_world *w, const tl_event *e, tl_mono deadline,
                                    tl_mono before) {
    tl_bytes text;
    if (is_plain(w)) {
        MUST(asked_word(w) == GET && is_text(e, &text));
        MUST(is_own(w, text) || (w->now.ns < before.ns && is_losers(w, text)));
        MUST(deadline.ns == before.ns);
        return;
    }
    MUST(has_status(w, e, 1) && is_confirmed(w, e));
    MUST(deadline.ns <= latest_stamp(w, e).ns);
}

static inline void check_stamp_dropped(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    bool repeated = w->in_time && (w->doubt || w->done);
    tl_bytes text = {0};
    bool losers = w->now.ns < w->believed.ns &&
                  (is_plain(w) ? is_text(e, &text) : value_in(w, e, &text)) && is_losers(w, text);
    switch (r->code) {
    case TL_OK:
        if (is_plain(w))
            MUST((asked_word(w) == DEL && is_int(e, 1)) || losers || repeated ||
                 (asked_word(w) == GET && is_text(e, &text) && is_own(w, text)));
        else
            MUST(
                has_status(w, e, 1) || (has_status(w, e, 0) && losers) ||
                ((has_status(w, e, 0) || has_status(w, e, -1) || w->asked.count == 0) && repeated));
        break;
    case TL_ETAKEN: MUST(is_plain(w) ? says_lost(w, e, true) : has_status(w, e, 0)); break;
    case TL_EEXPIRED:
        MUST(has_status(w, e, -1) || w->asked.count == 0 ||
             (is_plain(w) &&
              (is_nil(e) || asked_word(w) == DEL || (is_text(e, &text) && is_own(w, text)))));
        break;
    case TL_EUNCERTAIN:
        if (asked_word(w) == DEL)
            MUST(w->status == TL_END || w->doubt);
        else
            MUST(w->status == TL_DETACH && (w->doubt || w->done || e->kind == TL_CANCEL));
        break;
    case TL_EUNAVAILABLE:
        MUST(asked_word(w) == DEL || (w->status == TL_DETACH && !(w->doubt || w->done)));
        break;
    default: MUST(r->code != TL_EBUSY && r->code != TL_ELOST && r->code != TL_ETIMEDOUT);
    }
}

#else

static inline bool writes_early(const fuzz_world *w) {
    (void)w;
    return false;
}

static inline bool reads_only(const fuzz_world *w) {
    return is_time(&w->asked);
}

static inline bool takes_plainly(const fuzz_world *w, const tl_event *e) {
    (void)w;
    (void)e;
    return false;
}

#endif
