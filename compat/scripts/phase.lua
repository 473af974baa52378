-- Read which phase of a migration a namespace is in, and register who acts by it.
--
-- KEYS  R (the register), C (its clients), V (what `tidelock skew` has published of their clocks)
-- ARGV  client's id, "version host pid service", the sender's latest idea of the server's time us, the
--       phase that it acts by where there is no register, the longest lease ms that it wants, for how
--       long it may still act by what it was told before ms, which epoch and phase that was, the pattern
--       of the names that it takes
-- Answers {phase (-1: there is no register), epoch, lease ms, TIME s, TIME us, the worst gap of clocks
--         in ms if that is UNSAFE (else -1)}
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
local r = call('HMGET', R, 'phase', 'epoch', 'lease_ms')
local phase, epoch, lease = tonumber(r[1] or -1), tonumber(r[2] or 0), tonumber(ARGV[5])
if r[3] then
    lease = math.min(lease, tonumber(r[3]))
end
local longest = math.max(lease, tonumber(ARGV[6]))
local by, acts = epoch, phase < 0 and tonumber(ARGV[4]) or phase
if tonumber(ARGV[7]) > epoch then
    by, acts, longest = tonumber(ARGV[7]), tonumber(ARGV[8]), math.max(1000, tonumber(ARGV[6]))
end
local record = string.format('%.0f %.0f %.0f %.0f %s\t%s', by, acts, longest, now, ARGV[2],
                             ARGV[9])
local known = call('HGET', C, id)
local l, seen = string.match(known or '', '^%d+ %d+ (%d+) (%d+) ')
if l and tonumber(l) > longest and seen + 1000 * l > now then
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
local v = call('HMGET', KEYS[3], 'verdict', 'until', 'worst_ms')
local worst = v[1] == 'UNSAFE' and tonumber(v[2] or 0) > now and tonumber(v[3] or 0) or -1
time = time or call('TIME')
return {phase, epoch, lease, time[1], time[2], worst}
