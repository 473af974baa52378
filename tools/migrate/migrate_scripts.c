/*
 * What migrate changes in the server, each in one step. Below 3.2 a script may write nothing once
 * it has asked the TIME, or anything else that differs from run to run; from there on it may, when
 * it says that its effects are to be replicated.
 */
#include "migrate/migrate_log.h"
#include "migrate/migrate_scripts.h"

#define DIGITS(number) DIGITS_OF(number)
#define DIGITS_OF(number) #number
#define LEASES DIGITS(MIGRATE_LEASES)
#define MOST DIGITS(MIGRATE_LOG_MOST)

/* KEYS: the register, its clients, its history, the permit.
 * ARGV: the epoch that the register must have ('' there must be none), the new phase, by whom, the
 * line for the history, keys and lease ('' as they are), the run id of the server that was asked so
 * far, and what the permit holds: until when (server us) it may be carried out, the server's time
 * before it was sent, whose it is.
 * With keys the register is made anew: above every epoch that a client knows, whatever that is, if
 * only none acts in a phase which the new one can't live beside.
 *
 * Below 3.2 nothing is written once the TIME was asked: there the permit, which the server deletes
 * in time, tells whether the step comes too late, who is gone is judged by the time before, and the
 * change counts from the latest moment at which it can be carried out. And there replicas, and a
 * server that reads its append-only file, carry out the script itself: nothing in it may depend on
 * which server that is. */
const char migrate_change_script[] =
    "local R, C, L, want, phase = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])\n"
    "local timed = redis.replicate_commands and redis.replicate_commands()\n"
    "local all, dead, top = redis.call('HGETALL', C), {}, tonumber(want) or 0\n"
    "local r, anew = redis.call('HMGET', R, 'epoch', 'phase', 'from'), ARGV[5] ~= ''\n"
    "if want == '' and redis.call('EXISTS', R) == 1 or want ~= '' and r[1] ~= want then\n"
    "    return {'epoch', r[1] or '', r[2] or ''}\n"
    "end\n"
    "local info = timed and redis.pcall('INFO', 'server')\n"
    "local id = type(info) == 'string' and string.match(info, 'run_id:(%x+)')\n"
    "if id and ARGV[7] ~= '' and ARGV[7] ~= id then\n"
    "    return {'server'}\n"
    "end\n"
    "local at, now, late = string.match(ARGV[8], '^(%d+) (%d+) ')\n"
    "at, now = tonumber(at), tonumber(now)\n"
    "if timed then\n"
    "    local t = redis.call('TIME')\n"
    "    now = t[1] * 1000000 + t[2]\n"
    "    late, at = now > at, now\n"
    "else\n"
    "    late = redis.call('GET', KEYS[4]) ~= ARGV[8]\n"
    "end\n"
    "if late then\n"
    "    return {'late'}\n"
    "end\n"
    "for i = 1, #all, 2 do\n"
    "    local epoch, acts, lease, seen = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) ')\n"
    "    if not epoch then\n"
    "        return {'client', all[i], all[i + 1]}\n"
    "    end\n"
    "    if now > tonumber(seen) + " LEASES " * tonumber(lease) * 1000 then\n"
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
    "redis.call('HMSET', R, 'phase', text(phase), 'epoch', text(top + 1), 'since', text(at), 'by', ARGV[3],\n"
    "           'from', from or '')\n"
    "if anew then\n"
    "    redis.call('HMSET', R, 'keys', ARGV[5], 'lease_ms', ARGV[6])\n"
    "end\n"
    "redis.call('LTRIM', L, 1 - " MOST ", -1)\n"
    "redis.call('RPUSH', L, '{\"at_us\":' .. text(now) .. ',\"to_epoch\":' .. text(top + 1) .. ',' .. ARGV[4])\n"
    "for _, id in ipairs(dead) do\n"
    "    redis.call('HDEL', C, id)\n"
    "end\n"
    "redis.call('DEL', KEYS[4])\n"
    "return {'done', text(top + 1)}\n";

/* ARGV: the line, the server's time. */
const char migrate_note_script[] =
    "local e = redis.call('HGET', KEYS[1], 'epoch') or '0'\n"
    "redis.call('LTRIM', KEYS[2], 1 - " MOST ", -1)\n"
    "redis.call('RPUSH', KEYS[2], '{\"at_us\":' .. ARGV[2] .. ',\"to_epoch\":' .. e .. ',' .. ARGV[1])\n"
    "return 1\n";

/* KEYS K, and its sidecar S, which is left out where it is in another slot of a cluster: no tidelock client can have such
 * a lock. ARGV K's bytes, the server's clock in ms before which it is not free, the server's time
 * us before this was sent: below 3.2, where a script that asks the TIME may write no more, that has
 * to do. Answers 1 removed, 0 it holds something else by now, -1 it is not free yet. Both are named as keys, so that a
 * node which has only one of them, as their slot is being moved, refuses. */
const char migrate_sweep_script[] =
    "local K, S, now = KEYS[1], KEYS[2], tonumber(ARGV[3])\n"
    "if redis.replicate_commands then\n"
    "    redis.replicate_commands()\n"
    "    local t = redis.call('TIME')\n"
    "    now = t[1] * 1000000 + t[2]\n"
    "end\n"
    "if redis.pcall('GET', K) ~= ARGV[1] then return 0 end\n"
    "local s = S and redis.call('HMGET', S, 'token', 'value', 'until') or {}\n"
    "local bound = s[1] and s[1] ~= ''\n"
    "if now < ARGV[2] * 1000 or bound and (tonumber(s[3] or 0) or 0) >= now then return -1 end\n"
    "redis.call('DEL', K)\n"
    "if bound and s[2] == ARGV[1] then\n"
    "    redis.call('HMSET', S, 'token', '', 'value', '', 'until', '0', 'spent', s[1])\n"
    "end\n"
    "if S then\n"
    "    redis.pcall('PUBLISH', S, '')\n"
    "end\n"
    "return 1\n";
