-- Read which phase of a migration a namespace is in, and register who acts by it.
--
-- KEYS  R (the register), C (its clients), V (what `tidelock skew` has published of their clocks)
-- ARGV  client's id, "version host pid service", the sender's latest idea of the server's time us, the
--       phase that it acts by where there is no register, the longest lease ms that it wants, for how
--       long it may still act by what it was told before ms, which epoch and phase that was, the pattern
--       of the names that it takes
-- Answers {phase (-1: there is no register, -2: it can't be read), epoch, lease ms, TIME s, TIME us, the worst
--         gap of clocks in ms if that is UNSAFE (-1: it isn't, -2: how far isn't known, -3: V can't be read)}
--
-- A number in R or V is written as `tidelock` writes it: digits, without a sign or a leading zero, in its
-- range. R is read as tools/legacy/migrate_record.c reads it, so that no client acts by what the tool refuses.
-- V is advice: nothing that is in it ends this script.
--
-- A client's record is "epoch phase lease_ms seen_us version host pid service", a tab and its pattern, and
-- void three leases after it was last seen. The lease there is the longest that the client may act by, since
-- this answer can get lost; and a record of a longer one stays until that is over, as whoever moves the phase
-- counts it from when he has seen the epoch, which may be long before this. A client that knows a later epoch
-- than there is refuses this one: then its record tells what it knows, and for how long it may still act by
-- that, as a new register must go beyond it. A new client clears away records that are void: so a host that
-- starts one each minute doesn't fill the memory.
local call, R, C, id = redis.call, KEYS[1], KEYS[2], ARGV[1]
local time, now
if redis.replicate_commands then
    redis.replicate_commands()
    time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
now = now or tonumber(ARGV[3])
local function whole(text, least, most)
    -- without plain_numbers: local n = text and tonumber(text)
    local n = text and (text == '0' or string.match(text, '^[1-9]%d*$')) and tonumber(text)
    return n and n >= least and n <= most and n
end
local fields, r = call('HGETALL', R), {keys = ''}
for i = 1, #fields, 2 do
    r[fields[i]] = fields[i + 1]
end
local phase, epoch = whole(r.phase, 0, 3), whole(r.epoch, 1, 1e12)
local allowed, since = whole(r.lease_ms, 1, 600000), whole(r.since, 0, 9e15)
local keys = #r.keys > 0 and #r.keys < 513 and not string.find(r.keys, '%z')
local lease = tonumber(ARGV[5])
if phase and epoch and allowed and since and keys then
    lease = math.min(lease, allowed)
else
    phase, epoch = #fields > 0 and -2 or -1, 0
end
-- without former_lease_counts: local longest = lease
local longest = math.max(lease, tonumber(ARGV[6]))
local by, acts = epoch, phase < 0 and tonumber(ARGV[4]) or phase
-- without refuser_confirms_not: if false then
if tonumber(ARGV[7]) > epoch then
    by, acts, longest = tonumber(ARGV[7]), tonumber(ARGV[8]), math.max(1000, tonumber(ARGV[6]))
end
local record = string.format('%.0f %.0f %.0f %.0f %s\t%s', by, acts, longest, now, ARGV[2],
                             ARGV[9])
local known = call('HGET', C, id)
local l, seen = string.match(known or '', '^%d+ %d+ (%d+) (%d+) ')
if l and tonumber(l) > longest and seen + 1000 * l > now then
    -- without former_lease_counts:
    -- without longer_record_stays:
    record = known
end
if call('HSET', C, id, record) == 1 then
    local all = call('HGETALL', C)
    for i = 1, #all, 2 do
        local l, seen = string.match(all[i + 1], '^%d+ %d+ (%d+) (%d+) ')
        if not l or seen + 3000 * l < now then
            call('HDEL', C, all[i])
        end
    end
end
-- without verdict_is_advice: local v = redis.call('HMGET', KEYS[3], 'verdict', 'until', 'worst_ms')
local v = redis.pcall('HMGET', KEYS[3], 'verdict', 'until', 'worst_ms')
local fine, worst = {SAFE = true, WARN = true, UNKNOWN = true}, -1
if v.err then
    worst = -3
elseif (whole(v[2], 0, 9e15) or math.huge) <= now then
    worst = -1
elseif v[1] == 'UNSAFE' then
    worst = whole(v[3], 0, 9e15) or -2
elseif (v[1] or v[2] or v[3]) and not fine[v[1]] then
    worst = -3
end
time = time or call('TIME')
return {phase, epoch, lease, time[1], time[2], worst}
