-- Take a lock: set K when it holds what is expected, unless another tidelock client is bound to it.
--
-- KEYS  K, S (the sidecar)
-- ARGV  token, value for K, what K must hold ('' nothing, '=BYTES' exactly these), lifetime of K ms,
--       how long S binds others ms, not_after (server us; 0: no limit), the sender's earliest idea of
--       the server's time us, owner, shortest lifetime of S ms, the sender's latest idea of that time
-- Answers {status, K's value, ms left, fence, TIME s, TIME us, was not_after checked, announced}
--   status 1 the token holds it   0 another does   -1 past not_after   -2 this token was dropped
--
-- With the same token again it changes nothing and tells what is left. Servers below 3.2 can't be
-- asked the time before a write: there not_after goes unchecked and the sender's ideas count, the
-- latest for how long S binds, the earliest for whether it still does.
local K, S = KEYS[1], KEYS[2]
local token, value, expect, px = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local hold, not_after, told = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local time, now, latest = nil, told, tonumber(ARGV[10])
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    latest = now
end
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
    return found -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local s = redis.call('HMGET', S, 'token', 'value', 'until', 'fence', 'spent')
local fence, bound = tonumber(s[4] or 0) or 0, tonumber(s[3] or 0) or 0
local function answer(status, left, announced)
    local t = time or redis.call('TIME')
    return {status, text, left, string.format('%.0f', fence), t[1], t[2], time and 1 or 0,
            announced and 1 or 0}
end
local known = text and s[1] and s[1] ~= '' and text == s[2]
if known and s[1] == token then
    -- The take that worked may have been under way for long, and its idea of the time be old. And WAIT
    -- needs a write to wait for.
    local till = time and bound or math.max(bound, latest + hold * 1000)
    redis.pcall('HMSET', S, 'until', string.format('%.0f', till))
    return answer(1, redis.call('PTTL', K), true)
end
if s[5] == token then
    return answer(-2, -1)
end
if time and not_after > 0 and now > not_after then
    return answer(-1, -1)
end
if expect == '' and found or expect ~= '' and expect ~= '=' .. (text or '') then
    return answer(0, redis.call('PTTL', K), known)
end
if s[1] and s[1] ~= '' and s[1] ~= token and bound >= now then
    return answer(0, math.floor((bound - now) / 1000) + 1, true)
end
fence = math.max(fence + 1, now, told)
-- S first: should K then be refused, dropping the token mends it, but not the other way round
redis.call('HMSET', S, 'token', token, 'value', value, 'until', string.format('%.0f', latest + hold * 1000),
           'fence', string.format('%.0f', fence), 'since', string.format('%.0f', now), 'owner', ARGV[8])
redis.call('PSETEX', K, px, value)
redis.call('PEXPIRE', S, string.format('%.0f', math.max(tonumber(px), tonumber(ARGV[9]))))
text = value
return answer(1, tonumber(px), true)
