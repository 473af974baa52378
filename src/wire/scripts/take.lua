-- Take a lock: set K when it holds what is expected, unless another tidelock client is bound to it.
--
-- KEYS  K, S (the sidecar)
-- ARGV  token, lifetime of K ms, not_after (server us; 0: no limit), the sender's earliest and latest idea
--       of the server's time us, owner; and where they differ from what is usual: value for K (the
--       token), what K must hold ('' nothing, '=BYTES' exactly these), how long S binds others ms or, with
--       an '@', until what server time us (the lifetime), how many fencing numbers to reserve (1)
-- Answers TIME us, which is the fence too, in the usual case: the token has got it, and all its lifetime
-- else    {status, K's value, ms left, last fence, TIME s, TIME us, was not_after checked, announced}
--   status 1 the token holds it   0 another does   -1 past not_after   -2 this token was dropped
--
-- With the same token again it changes nothing and tells what is left. Servers below 3.2 can't be
-- asked the time before a write: there not_after goes unchecked and the sender's ideas count, the
-- latest for how long S binds, the earliest for whether it still does.
--
-- S lives for an hour after its last use at least: the first take of each half hour sees to that.
local call, K, S, token, px, told = redis.call, KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[4])
local time, now
if redis.replicate_commands then
    redis.replicate_commands()
    time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local s = call('HMGET', S, 'token', 'fence', 'spent')
local fence, bound = tonumber(s[2] or 0) or 0, s[1] and s[1] ~= ''
local not_after, life = tonumber(ARGV[3]), tonumber(px)
local hold = tonumber(ARGV[9]) or life
local binds = ARGV[9] and string.byte(ARGV[9]) == 64 and tonumber(string.sub(ARGV[9], 2)) -- '@'
local late = time and not_after > 0 and now > not_after
local lasts = life <= 3600000 and (now or told) - (now or told) % 1800000000 == fence - fence % 1800000000
-- The usual case, in few calls, with numbers kept as the texts they came in: nobody has it.
if time and not bound and not late and s[3] ~= token and not ARGV[7] and fence < now and told <= now
    and hold % 1000 == 0 and call('SET', K, token, 'PX', px, 'NX') then
    local micros = string.sub(1000000 + time[2], 2)
    local stamp = time[1] .. micros
    local done = redis.pcall('HMSET', S, 'token', token, 'value', token, 'fence', stamp, 'since', stamp,
                             'until', time[1] + hold / 1000 .. micros, 'owner', ARGV[6])
    if done.err then
        call('DEL', K)
        return {err = done.err .. ' (hmset)'}
    end
    if not lasts then
        call('PEXPIRE', S, string.format('%.0f', math.max(life, 3600000) + 1800000))
    end
    return stamp
end
local value, expect = ARGV[7] or token, ARGV[8] or ''
binds = binds or (now or tonumber(ARGV[5])) + hold * 1000
now = now or told
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local more = redis.call('HMGET', S, 'value', 'until')
local till = tonumber(more[2] or 0) or 0
local function answer(status, left, announced)
    local t = time or redis.call('TIME')
    return {status, text, left, string.format('%.0f', fence), t[1], t[2], time and 1 or 0,
            announced and 1 or 0}
end
local known = text and bound and text == more[1]
if known and s[1] == token then
    -- The take that worked may have been under way for long, and its idea of the time be old: then S must
    -- bind for longer. And WAIT needs a write to wait for.
    local longer = not time and binds > till
    local done = redis.pcall('HMSET', S, 'until', string.format('%.0f', longer and binds or till))
    if longer and done.err then
        return {err = done.err .. ' (hmset)'}
    end
    return answer(1, redis.call('PTTL', K), true)
end
if s[3] == token then
    return answer(-2, -1)
end
if late then
    return answer(-1, -1)
end
if expect == '' and found or expect ~= '' and expect ~= '=' .. (text or '') then
    return answer(0, redis.call('PTTL', K), known)
end
if bound and s[1] ~= token and till >= now then
    return answer(0, math.floor((till - now) / 1000) + 1, true)
end
if s[1] == token then
    binds = math.max(till, binds) -- K was deleted: one that was under way for long moves nothing back
end
fence = math.max(fence + 1, now, told) + tonumber(ARGV[10] or 1) - 1
-- S first: should K then be refused, dropping the token mends it, but not the other way round
redis.call('HMSET', S, 'token', token, 'value', value, 'until', string.format('%.0f', binds),
           'fence', string.format('%.0f', fence), 'since', string.format('%.0f', now), 'owner', ARGV[6])
redis.call('PSETEX', K, px, value)
if not lasts then
    call('PEXPIRE', S, string.format('%.0f', math.max(life, 3600000) + 1800000))
end
text = value
return answer(1, life, true)
