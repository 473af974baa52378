-- Remove a lock, whoever holds it: delete K, unbind S, and write down who did it.
--
-- KEYS  K, S
-- ARGV  what K must hold as people see it ('' anything, '=TEXT'), the fence that S must have ('' any),
--       who removes it, shortest lifetime of S ms
-- Answers {status}
--   status 1 removed   0 another has it by now   -1 nothing was there   -2 K is no string
--
-- The holder's token is remembered as spent, so that a take of it which is still on its way finds the
-- door shut; its next renewal finds the lock lost.
local K, S = KEYS[1], KEYS[2]
local found = redis.pcall('GET', K)
if type(found) == 'table' then
    return string.find(found.err, 'wrong kind of value', 1, true) and {-2} or {err = found.err .. ' (get)'}
end
local s = redis.call('HMGET', S, 'token', 'value', 'fence')
local bound = s[1] and s[1] ~= ''
local text = found or bound and s[2] or ''
if not found and not bound then
    return {-1}
end
-- As tl_client_look shows it: 63 bytes, and a '?' for what can't be printed.
local shown = string.gsub(string.sub(text, 1, 63), '[^ -~]', '?')
if ARGV[1] ~= '' and ARGV[1] ~= '=' .. shown or ARGV[2] ~= '' and ARGV[2] ~= (s[3] or '0') then
    return {0}
end
redis.call('DEL', K)
redis.pcall('HMSET', S, 'token', '', 'value', '', 'until', '0', 'spent', s[1] or '', 'broken', ARGV[3])
redis.pcall('PUBLISH', S, '')
if redis.call('PTTL', S) < tonumber(ARGV[4]) then
    redis.pcall('PEXPIRE', S, ARGV[4])
end
return {1}
