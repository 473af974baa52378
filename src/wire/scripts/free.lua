-- Plain locks, which have no sidecar: delete K if it is still the token's, and say so to who waits.
--
-- KEYS  K
-- ARGV  token, the channel
-- Answers 1 deleted   0 another's   -1 absent
--
-- After the DEL nothing may fail: a forbidden channel must not hide that the lock is free.
-- with replica
local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] then
    redis.call('DEL', KEYS[1])
    redis.pcall('PUBLISH', ARGV[2], '')
    return 1
end
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
return replica(KEYS[1], ARGV[1]) or found and 0 or -1
