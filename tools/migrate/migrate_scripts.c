/*
 * The changes that migrate makes on the server, each in one step. Below 3.2 a script can't write
 * after it has read TIME, or anything else that differs between runs. From 3.2 on it can, if it has
 * its effects replicated.
 */
#include "migrate/migrate_log.h"
#include "migrate/migrate_scripts.h"

#define DIGITS(number) DIGITS_OF(number)
#define DIGITS_OF(number) #number
#define LEASES DIGITS(MIGRATE_LEASES)
#define MOST DIGITS(MIGRATE_LOG_MOST)

/* KEYS: the register, its clients, its history, the permit.
 * ARGV: the epoch that the register must have ('': there must be none), the new phase, the author, the
 * line for the history, keys and lease ('': unchanged), the run ID of the server used so far, and the
 * permit's value: the latest server time (us) for the execution, the server's time before the
 * request, and the process.
 * With keys the register is made anew, with an epoch above every epoch that a client knows. Then
 * clients may know any epoch, but none may act in a phase that is incompatible with the new one.
 *
 * Below 3.2 nothing can be written after TIME was read. There the permit, which the server deletes in
 * time, shows whether the step comes too late. Expired clients are judged by the time before the
 * request, and the change counts from the latest possible moment of its execution. There, too,
 * replicas and a server that reads its append-only file execute the script itself, so nothing in it
 * may depend on the server's identity. */
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

/* ARGV: the line, the server's time in us. */
const char migrate_note_script[] =
    "local e = redis.call('HGET', KEYS[1], 'epoch') or '0'\n"
    "redis.call('LTRIM', KEYS[2], 1 - " MOST ", -1)\n"
    "redis.call('RPUSH', KEYS[2], '{\"at_us\":' .. ARGV[2] .. ',\"to_epoch\":' .. e .. ',' .. ARGV[1])\n"
    "return 1\n";

/* KEYS: K, and its sidecar S, except where S is in another slot of a cluster: no tidelock client can
 * have such a lock. ARGV: K's bytes; the server's clock in ms before which K is not free; the server's
 * time in us before the request. The last is used below 3.2, where a script that has read TIME can't
 * write. Replies: 1 removed, 0 K has another value now, -1 K is not free yet. Both are declared as keys,
 * so that a node that has only one of them, while their slot is being moved, refuses. */
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
