-- K alone, where no script may ask for K and S together: take K for a token, or keep it.
--
-- KEYS  K
-- ARGV  token, lifetime ms, not_after (server us; 0: no limit), 'take' (set K if it is absent) or 'keep'
-- Answers {status, K's value, ms left, TIME s, TIME us, was not_after checked}
--   status 1 the token holds it   0 another does   -1 absent   -2 past not_after
--
-- A take that finds itself the holder moves nothing, as an earlier one has done the work; it writes all
-- the same, since WAIT needs a write to wait for. A keep never shortens.
local K, token, px, taking = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[4] == 'take'
local not_after, time, late = tonumber(ARGV[3]), nil, false
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    late = not_after > 0 and time[1] * 1000000 + time[2] > not_after
end
-- with replica
local found = redis.pcall('GET', K)
-- without other_kind_is_held: if type(found) == 'table' then
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local status, left = found and 0 or -1, -1
if text == token and (taking or not late) then
    status, left = 1, redis.call('PTTL', K)
    if not taking and left < px or left < 0 then
        left = px
    end
    redis.call('PEXPIRE', K, string.format('%.0f', left))
elseif late then
    status = -2
elseif taking and not found then
    redis.call('PSETEX', K, ARGV[2], token)
    status, text, left = 1, token, px
elseif found then
    left = redis.call('PTTL', K)
end
local refused = not taking and status < 1 and not late and replica(K, token)
if refused then
    return refused
end
local t = time or redis.call('TIME')
return {status, text, left, t[1], t[2], time and 1 or 0}
