-- Change what K holds by what it held, or delete it so: a stamp's, where K and its sidecar may be at two nodes. It never
-- makes K.
--
-- KEYS  K
-- ARGV  what it is to hold ('': nothing), its lifetime ms, not_after (server us; 0: no limit), the channel, and each that it
--       may hold now
-- Answers {status, K's value, TIME s, TIME us}
--   status 1 done, or done before   0 another's   -1 absent   -2 past not_after
local K, value, not_after = KEYS[1], ARGV[1], tonumber(ARGV[3])
local time, late
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    late = not_after > 0 and time[1] * 1000000 + time[2] > not_after
end
-- with replica
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local status = found and 0 or -1
for i = 5, #ARGV do
    if text and text == ARGV[i] then
        status = 1
    end
end
if text and value ~= '' and text == value then
    status = 1
end
-- without swap_in_time: if false then
if late then
    status = -2
elseif status == 1 and value == '' then
    redis.call('DEL', K)
    redis.pcall('PUBLISH', ARGV[4], '')
elseif status == 1 then
    redis.call('PSETEX', K, ARGV[2], value)
    text = value
else
    local refused = replica(K, '')
    if refused then
        return refused
    end
end
time = time or redis.call('TIME')
return {status, text, time[1], time[2]}
