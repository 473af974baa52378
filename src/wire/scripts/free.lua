-- K alone, where no script may ask for K and S together: delete K if it is still the token's, and say so to who waits.
--
-- KEYS  K
-- ARGV  token, the channel, not_after (server us; 0 or none: no limit)
-- Answers 1 deleted   0 another's   -1 absent   -2 past not_after
--
-- After the DEL nothing may fail: a forbidden channel must not hide that the lock is free.
local not_after = tonumber(ARGV[3] or 0)
if not_after > 0 and redis.replicate_commands then
    redis.replicate_commands()
    local time = redis.call('TIME')
    -- without free_by_limit: if false then
    if time[1] * 1000000 + time[2] > not_after then
        return -2
    end
end
-- with replica
local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] then
    redis.call('DEL', KEYS[1])
    redis.pcall('PUBLISH', ARGV[2], '')
    return 1
end
-- without other_kind_is_held: if type(found) == 'table' then
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
return replica(KEYS[1], ARGV[1]) or found and 0 or -1
