-- Remove a lock, whoever holds it, or end its rest: unbind S, write down who did it, and hand K to the next in line, or
-- delete it.
--
-- KEYS  K, S, F, L
-- ARGV  what K must hold as people see it ('' anything, '=TEXT'), the fence that S must have ('' any),
--       who removes it, shortest lifetime of S ms
-- Answers {status}
--   status 1 removed   0 another has it by now   -1 nothing was there   -2 K is no string
--
-- The token of the holder, or of the last one, is remembered as spent, so that a take of it which is still on its way finds
-- the door shut; its next renewal finds the lock lost. Who has only been called to take it holds nothing yet: he waits on.
local K, S, F, L = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.replicate_commands then
    redis.replicate_commands()
end
local found = redis.pcall('GET', K)
if type(found) == 'table' then
    -- without other_kind_is_held: return {err = found.err .. ' (get)'}
    return string.find(found.err, 'wrong kind of value', 1, true) and {-2} or {err = found.err .. ' (get)'}
end
local s = redis.call('HMGET', S, 'token', 'value', 'fence', 'line', 'claim', 'spent')
local bound = s[1] and s[1] ~= ''
local text = found or bound and s[2] or ''
if not found and not bound then
    return {-1}
end
-- As tl_client_look shows it: a rest without its time, 63 bytes, and a '?' for what can't be printed.
-- without break_knows_rest: local whole = text
local whole = string.gsub(text, '^resting %d+ (.)', 'resting %1')
local shown = string.gsub(string.sub(whole, 1, 63), '[^ -~]', '?')
if ARGV[1] ~= '' and ARGV[1] ~= '=' .. shown or ARGV[2] ~= '' and ARGV[2] ~= (s[3] or '0') then
    return {0}
end
local called = not found and s[5] and s[5] ~= ''
local token = bound and s[1] or text
-- without break_spends_rest:
token = string.match(token, '^resting %d+ (.+)$') or token
redis.call('DEL', K)
redis.pcall('HMSET', S, 'token', '', 'value', '', 'until', '0', 'spent', called and (s[6] or '') or token,
            'broken', ARGV[3], 'claim', '')
if s[4] and s[4] ~= '' then
-- with draw
-- with near
-- with grant
    local time = redis.call('TIME')
    -- without break_grants_next:
    pcall(grant, time[1] * 1000000 + time[2])
end
redis.pcall('PUBLISH', S, '')
if redis.call('PTTL', S) < tonumber(ARGV[4]) then
    redis.pcall('PEXPIRE', S, ARGV[4])
end
return {1}
