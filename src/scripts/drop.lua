-- Give a lock up: delete K if it is still the token's, and unbind S.
--
-- KEYS  K, S
-- ARGV  token, shortest lifetime of S ms
-- Answers {status, K's value, TIME s, TIME us}
--   status 1 deleted   0 another's   -1 absent
--
-- The token is remembered as spent, so that a take of it which is still on its way finds the door
-- shut. After the DEL nothing may fail: a full memory or a forbidden channel must not hide that the
-- lock is free.
local K, S = KEYS[1], KEYS[2]
local token = ARGV[1]
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
    return found -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local s = redis.call('HMGET', S, 'token', 'value')
local status = found and 0 or -1
if s[1] == token then
    if text and text == s[2] then
        redis.call('DEL', K)
        status = 1
    end
    redis.pcall('HMSET', S, 'token', '', 'value', '', 'until', '0', 'spent', token)
    redis.pcall('PUBLISH', S, '')
else
    redis.pcall('HMSET', S, 'spent', token)
end
if redis.call('PTTL', S) < tonumber(ARGV[2]) then
    redis.pcall('PEXPIRE', S, ARGV[2])
end
local time = redis.call('TIME')
return {status, text, time[1], time[2]}
