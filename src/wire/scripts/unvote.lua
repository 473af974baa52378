-- Take a vote back: delete K if it is still the token's. Nobody is told, since nobody has held the lock by it.
--
-- KEYS  K, S, L
-- ARGV  token; for how long S stays then, ms, as in release.lua; and where a vote for it may still be on its way, ''
-- Answers 1 deleted   0 another's   -1 absent
--
-- A token that S knows, and one that may be on its way, is remembered as spent: it finds the door shut.
-- with replica
local K, S, L, token = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local mine = found == token
local s = redis.pcall('HMGET', S, 'token', 'line', 'broken')
if s.err and not string.find(s.err, 'wrong kind of value', 1, true) then
    return {err = s.err .. ' (hmget)'}
end
local refused = not mine and replica(K, token)
if refused then
    return refused
end
-- without unvotes_own_only: if found then
if mine then
    redis.call('DEL', K)
end
local noted
if s[1] == token then
    -- without unvote_spends: redis.pcall('HMSET', S, 'token', '')
    noted = redis.pcall('HMSET', S, 'token', '', 'spent', token)
-- without unvote_spends: elseif false then
elseif ARGV[3] then
    local left = redis.call('PTTL', S)
    noted = redis.pcall('HMSET', S, 'spent', token)
    if left < 3600000 and not noted.err then
        redis.pcall('PEXPIRE', S, 3600000)
    end
end
-- with idle
return mine and 1 or found and 0 or -1
