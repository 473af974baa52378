-- Look at a lock without touching it.
--
-- KEYS  K, S
-- Answers {K's type, K's value, ms left, S's value, until, fence, since, owner, TIME s, TIME us}
local K, S = KEYS[1], KEYS[2]
local kind = redis.call('TYPE', K)
local text = redis.pcall('GET', K)
local s = redis.pcall('HMGET', S, 'value', 'until', 'fence', 'since', 'owner')
local time = redis.call('TIME')
return {kind.ok or kind, type(text) == 'string' and text, redis.call('PTTL', K),
        s[1] or false, s[2] or false, s[3] or false, s[4] or false, s[5] or false, time[1], time[2]}
