/*
 * Changing the register. A change compares the epoch and sets it in one script, so that of two who would
 * make one the second is refused; it is for the server that was judged, and for now; and it counts once
 * the replicas have it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate_link.h"

#define WAIT_MS "3000"

/* ---- changing --------------------------------------------------------------------------------- */

/* ARGV: the epoch that the register must have ('' there must be none), the new phase, by whom, the line
 * for the history, how many leases make a client gone, how long the history may be, keys and lease ('' as
 * they are), the run id of the server that was asked so far, until when (server us) it may be carried out.
 * With keys the register is made anew: above every epoch that a client knows, whatever that is, if only
 * none acts in a phase which the new one can't live beside. */
static const char change_script[] =
    "local R, C, L, want, phase = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])\n"
    "if redis.replicate_commands then redis.replicate_commands() end\n"
    "redis.call('LTRIM', L, 1 - tonumber(ARGV[6]), -1) -- old servers tell the TIME behind a write only\n"
    "local all, dead, top = redis.call('HGETALL', C), {}, tonumber(want) or 0\n"
    "local r, anew = redis.call('HMGET', R, 'epoch', 'phase', 'from'), ARGV[7] ~= ''\n"
    "if want == '' and redis.call('EXISTS', R) == 1 or want ~= '' and r[1] ~= want then\n"
    "    return {'epoch', r[1] or '', r[2] or ''}\n"
    "end\n"
    "local info = redis.pcall('INFO', 'server')\n"
    "local id = type(info) == 'string' and string.match(info, 'run_id:(%x+)')\n"
    "if id and (ARGV[9] or '') ~= '' and ARGV[9] ~= id then\n"
    "    return {'server'}\n"
    "end\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000000 + t[2]\n"
    "if (ARGV[10] or '') ~= '' and now > tonumber(ARGV[10]) then\n"
    "    return {'late'}\n"
    "end\n"
    "for i = 1, #all, 2 do\n"
    "    local epoch, acts, lease, seen = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) ')\n"
    "    if not epoch then\n"
    "        return {'client', all[i], all[i + 1]}\n"
    "    end\n"
    "    if now > tonumber(seen) + tonumber(ARGV[5]) * tonumber(lease) * 1000 then\n"
    "        dead[#dead + 1] = all[i]\n"
    "    elseif anew and math.abs(acts - phase) > 1 or not anew and epoch ~= want then\n"
    "        return {'client', all[i], all[i + 1]}\n"
    "    end\n"
    "    if anew and tonumber(epoch) > top then\n"
    "        top = tonumber(epoch)\n"
    "    end\n"
    "end\n"
    "local function text(n) return string.format('%.0f', n) end\n"
    "local from = tonumber(r[2]) == phase and r[3] or r[2]\n"
    "redis.call('HMSET', R, 'phase', text(phase), 'epoch', text(top + 1), 'since', text(now), 'by', ARGV[3],\n"
    "           'from', from or '')\n"
    "if anew then\n"
    "    redis.call('HMSET', R, 'keys', ARGV[7], 'lease_ms', ARGV[8])\n"
    "end\n"
    "redis.call('RPUSH', L, '{\"at_us\":' .. text(now) .. ',\"to_epoch\":' .. text(top + 1) .. ',' .. ARGV[4])\n"
    "for _, id in ipairs(dead) do\n"
    "    redis.call('HDEL', C, id)\n"
    "end\n"
    "return {'done', text(top + 1)}\n";

/* ARGV: the line, how long the history may be. */
static const char note_script[] =
    "if redis.replicate_commands then redis.replicate_commands() end\n"
    "redis.call('LTRIM', KEYS[2], 1 - tonumber(ARGV[2]), -1)\n"
    "local e, t = redis.call('HGET', KEYS[1], 'epoch') or '0', redis.call('TIME')\n"
    "local at = string.format('%.0f', t[1] * 1000000 + t[2])\n"
    "redis.call('RPUSH', KEYS[2], '{\"at_us\":' .. at .. ',\"to_epoch\":' .. e .. ',' .. ARGV[1])\n"
    "return 1\n";

#define RUN_ID 40
#define STEP_US (WAIT_LONGEST_US + 5000000) /* for the replicas, and for the step itself */
#define WAIT_LONGEST_US 3000000
#define NUMBER_SIZE 24
static const char *number(char buf[NUMBER_SIZE], int64_t v) {
    (void)snprintf(buf, NUMBER_SIZE, "%lld", (long long)v);
    return buf;
}

typedef struct {
    char word[16], first[64], second[400];
} outcome;

static bool take_outcome(void *ctx, const tl_reply *reply) {
    outcome *o = ctx;
    tl_bytes text = {"", 0};

    *o = (outcome){.word = ""};
    if (!tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(o->word, sizeof o->word, text);
    if (tl__reply_text(tl__reply_item(reply, 1), &text))
        tl__bytes_print(o->first, sizeof o->first, text);
    if (tl__reply_text(tl__reply_item(reply, 2), &text))
        tl__bytes_print(o->second, sizeof o->second, text);
    return true;
}

static bool take_count(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* A failover now would bring the old register back, and clients would refuse to lock. */
static int confirm(migrate_link *m) {
    char count[NUMBER_SIZE];
    const char *const words[] = {"WAIT", number(count, m->replicas), WAIT_MS, NULL};
    int64_t got = 0;

    if (m->replicas == 0)
        return 0;
    if (!skew_link_ask(&m->link, words, take_count, &got))
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: changed, so don't repeat it, but it is not known whether the replicas "
            "have it: %s",
            m->link.words);
    if (got < m->replicas)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: changed, so don't repeat it, but only %lld of %d replicas have it after "
            "3 s: prevent a failover to the others until they have caught up",
            (long long)got, m->replicas);
    return 0;
}

static bool take_run_id(void *ctx, const tl_reply *reply) {
    static const char mark[] = "run_id:";
    char *id = ctx;
    tl_bytes text = {"", 0};

    (void)tl__reply_text(reply, &text);
    const char *at = text.n ? memmem(text.p, text.n, mark, sizeof mark - 1) : NULL;
    size_t n = 0;
    if (at)
        for (at += sizeof mark - 1; n < RUN_ID && at + n < text.p + text.n; n++)
            id[n] = at[n];
    id[n] = '\0';
    return true;
}

static bool take_time(void *ctx, const tl_reply *reply) {
    return tl__reply_time(reply, 0, ctx);
}

/* The run id of the server that was judged; "" where it may not be asked. */
static int take_server(migrate_link *m, unsigned ups, char run_id[RUN_ID + 1]) {
    static const char *const info[] = {"INFO", "server", NULL};

    run_id[0] = '\0';
    if (!skew_link_ask(&m->link, info, take_run_id, run_id) && m->link.status != STATUS_REFUSED)
        return fail(m->link.status, "migrate: nothing has changed: %s", m->link.words);
    if (m->link.ups != ups)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: nothing has changed: the connection was lost; begin again");
    return 0;
}

/* The present epoch must not be lost with a failover either: else two operators could each lead from
 * another one, both of the same number. And the step is for the server that has been asked so far, and for
 * now: one that is held up on its way must not come when old clients run again. */
static int settle_present(migrate_link *m, int64_t *ret_not_after) {
    char count[NUMBER_SIZE];
    static const char script[] = /* a write, which makes no register where there is none */
        "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'epoch', 0)";
    const char *const touch[] = {"EVAL", script, "1", m->reg, NULL};
    const char *const wait[] = {"WAIT", number(count, m->replicas), WAIT_MS, NULL};
    const char *const time[] = {"TIME", NULL};
    int64_t got = 0;

    if (!skew_link_ask(&m->link, time, take_time, ret_not_after))
        return fail(m->link.status, "migrate: nothing has changed: %s", m->link.words);
    *ret_not_after += STEP_US;
    if (m->replicas == 0)
        return 0;
    if (!skew_link_ask(&m->link, touch, NULL, NULL) ||
        !skew_link_ask(&m->link, wait, take_count, &got))
        return fail(m->link.status, "migrate: nothing has changed: %s", m->link.words);
    if (got < m->replicas)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: nothing has changed: only %lld of %d replicas have the present epoch "
                    "after 3 s",
                    (long long)got, m->replicas);
    return 0;
}

static int refused(const migrate_link *m, const outcome *o) {
    char who[MIGRATE_WHO_SIZE];
    migrate_client c;

    if (strcmp(o->word, "epoch") == 0 && !o->first[0])
        return fail(STATUS_REFUSED, "migrate: refused: the register of namespace %s has vanished",
                    m->name);
    if (strcmp(o->word, "epoch") == 0)
        return fail(STATUS_REFUSED,
                    "migrate: refused: namespace %s has gone to epoch %s, phase %s, meanwhile: "
                    "another operator was faster; see: tidelock migrate status --namespace %s",
                    m->name, o->first, o->second, m->name);
    if (strcmp(o->word, "server") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: another server answers than before; begin again");
    if (strcmp(o->word, "late") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: the step reached the server too late; begin again");
    migrate_client_read(tl__bytes_of(o->first), tl__bytes_of(o->second), &c);
    return fail(STATUS_REFUSED,
                "migrate: refused: a client has come meanwhile that does not act by the present "
                "epoch: %s; try again",
                migrate_client_who(who, &c));
}

int migrate_change_register(migrate_link *m, const migrate_move *move, int64_t *ret_epoch) {
    char epoch[NUMBER_SIZE] = "", phase[NUMBER_SIZE], leases[NUMBER_SIZE], most[NUMBER_SIZE],
         lease[NUMBER_SIZE];
    char run_id[RUN_ID + 1] = "";
    char limit[NUMBER_SIZE] = "";
    int64_t not_after = 0;
    int status = take_server(m, move->ups, run_id);
    if (status == 0)
        status = settle_present(m, &not_after);
    if (status)
        return status;
    char *line = migrate_change_write(move->entry);
    outcome o;

    if (!line)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    if (move->epoch > 0)
        (void)number(epoch, move->epoch);
    (void)number(limit, not_after);
    const char *const words[] = {"EVAL",
                                 change_script,
                                 "3",
                                 m->reg,
                                 m->clients,
                                 m->log,
                                 epoch,
                                 number(phase, move->phase),
                                 m->by_register,
                                 line,
                                 number(leases, MIGRATE_LEASES),
                                 number(most, MIGRATE_LOG_MOST),
                                 move->keys ? move->keys : "",
                                 number(lease, move->lease_ms),
                                 run_id,
                                 limit,
                                 NULL};
    bool ok = skew_link_ask(&m->link, words, take_outcome, &o);
    free(line);
    if (!ok)
        return fail(m->link.status,
                    "migrate: %s; whether the register has changed is shown by: tidelock migrate "
                    "status --namespace %s",
                    m->link.words, m->name);
    if (strcmp(o.word, "done") != 0)
        return refused(m, &o);
    (void)tl__bytes_to_int(tl__bytes_of(o.first), ret_epoch);
    return confirm(m);
}

int migrate_note(migrate_link *m, const migrate_change *entry) {
    char most[NUMBER_SIZE];
    char *line = migrate_change_write(entry);

    if (!line)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    const char *const words[] = {
        "EVAL", note_script, "2", m->reg, m->log, line, number(most, MIGRATE_LOG_MOST), NULL};
    bool ok = skew_link_ask(&m->link, words, NULL, NULL);
    free(line);
    return ok ? 0 : fail(m->link.status, "migrate: %s", m->link.words);
}
