-- Look at a lock without touching it.
--
-- KEYS  K, S
-- Answers {K's type, K's value, ms left, S's value, until, fence, since, owner, TIME s, TIME us, how many
--          listen on S}
--
-- A server before 2.8, or one that forbids PUBSUB, doesn't tell who listens: -1.
-- A key of another kind is an answer; a refusal says nothing about the lock and is told as it is.
local K, S = KEYS[1], KEYS[2]
local function refused(found)
    return type(found) == 'table' and found.err and not string.find(found.err, 'wrong kind of value', 1, true)
end
local kind = redis.call('TYPE', K)
local text = redis.pcall('GET', K)
local s = redis.pcall('HMGET', S, 'value', 'until', 'fence', 'since', 'owner', 'token')
if refused(text) or refused(s) then
    return {err = refused(text) and text.err .. ' (get)' or s.err .. ' (hmget)'}
end
if not s[6] or s[6] == '' then
    s[1], s[2] = false, false -- released: it binds nobody
end
local heard = redis.pcall('PUBSUB', 'NUMSUB', S)
local time = redis.call('TIME')
return {kind.ok or kind, type(text) == 'string' and text, redis.call('PTTL', K),
        s[1] or false, s[2] or false, s[3] or false, s[4] or false, s[5] or false, time[1], time[2],
        heard[2] or -1}
