-- Look at a lock without touching it.
--
-- KEYS  K, S, L; without L while a slot is being moved, when L may be at another node
-- ARGV  of how many in the line to tell (none)
-- Answers {K's type (of a hash that is a lock of Redisson 'redisson'), K's value, ms left, S's value, until, fence, since, owner, TIME s, TIME us, how many
--          listen on S, how many stand in line, then of the first of these: entry, place, ...}
--   If the lock rests, since is S's token, "resting US TOKEN": K may hold a stamp.
--
-- A server before 2.8, or one that forbids PUBSUB, doesn't tell who listens: -1. So it is with a line that
-- may not be read.
-- A key of another kind is an answer; a refusal says nothing about the lock and is told as it is.
local K, S, L = KEYS[1], KEYS[2], KEYS[3]
local function refused(found)
    return type(found) == 'table' and found.err and not string.find(found.err, 'wrong kind of value', 1, true)
end
-- with redisson
local kind = redis.call('TYPE', K)
kind = kind.ok or kind
if kind == 'hash' and is_redissons(K) then
    kind = 'redisson'
end
local text = redis.pcall('GET', K)
local s = redis.pcall('HMGET', S, 'value', 'until', 'fence', 'since', 'owner', 'token', 'line')
if refused(text) or refused(s) then
    return {err = refused(text) and text.err .. ' (get)' or s.err .. ' (hmget)'}
end
if not s[6] or s[6] == '' then
    s[1], s[2] = false, false -- released: it binds nobody
elseif string.find(s[6], '^resting %d+ .') then
    s[4] = s[6]
end
local heard = redis.pcall('PUBSUB', 'NUMSUB', S)
local time = redis.call('TIME')
local stand = s[7] and s[7] ~= '' and (not L and -1 or redis.pcall('ZCARD', L)) or 0
local answer = {kind, type(text) == 'string' and text, redis.call('PTTL', K),
                s[1] or false, s[2] or false, s[3] or false, s[4] or false, s[5] or false, time[1], time[2],
                heard[2] or -1, type(stand) == 'number' and stand or -1}
local most = tonumber(ARGV[1] or 0)
local first = L and most > 0 and s[7] and s[7] ~= '' and redis.pcall('ZRANGE', L, 0, most - 1, 'WITHSCORES') or {}
for i = 1, #first, 2 do
    answer[#answer + 1] = first[i]
    answer[#answer + 1] = string.format('%.0f', first[i + 1])
end
return answer
