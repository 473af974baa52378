-- Give a lock up: delete K if it is still the token's, and unbind S.
--
-- KEYS  K, S
-- ARGV  token
-- Answers 1 deleted   -1 absent   0, or what K holds: it is another's
--
-- The token is remembered as spent, so that a take of it which is still on its way finds the door
-- shut. After the DEL nothing may fail: a full memory or a forbidden command must not hide that the
-- lock is free.
local K, S, token = KEYS[1], KEYS[2], ARGV[1]
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local s = redis.call('HMGET', S, 'token', 'value')
local status, noted = found and 0 or -1, nil
if s[1] == token then -- and so S is there, with a lifetime
    if found and found == s[2] then
        redis.call('DEL', K)
        status = 1
    end
    noted = redis.pcall('HMSET', S, 'token', '', 'spent', token)
    redis.pcall('PUBLISH', S, '')
else
    local left = redis.call('PTTL', S)
    noted = redis.pcall('HMSET', S, 'spent', token)
    if left < 3600000 then
        redis.pcall('PEXPIRE', S, 3600000)
    end
end
if status ~= 1 and type(noted) == 'table' and noted.err and string.find(noted.err, 'READONLY', 1, true) then
    return noted -- a replica: what it has may be old
end
return status == 0 and type(found) == 'string' and found or status
