-- What S says of a stamp, where it and K may be at two nodes, as while a cluster's slot is being moved: have it say what K
-- is about to hold; or that the token holds K no more. It never makes S.
--
-- KEYS  S (the sidecar)
-- ARGV  token; and to go on: what K held, as it was told last ('': it wasn't), what it is about to hold, which of those that
--       were to follow before this may take the place of (''), until when S binds others (server us), shortest lifetime of S ms
-- Answers {1, what S knew K to hold, what K held when this was noted, what it is about to hold}, or {0, ms for which S binds
--       another (-1: nobody)}
--
-- K is changed only to what is noted here, and nothing else is noted before that is known to have been done: so whoever
-- finds it there knows it for the token's, whichever of his requests has written it.
local S, token = KEYS[1], ARGV[1]
local s = redis.call('HMGET', S, 'token', 'value', 'until', 'next')
local till = tonumber(s[3] or 0) or 0
-- with replica
if s[1] ~= token then
    local refused = replica(S, token)
    if refused then
        return refused
    end
    local time = redis.call('TIME')
    local left = math.floor((till - time[1] * 1000000 - time[2]) / 1000)
    return {0, s[1] and s[1] ~= '' and left >= 0 and left + 1 or -1}
end
local of, from, next = string.match(s[4] or '', '^(%S+) (%S*) (%S+)$')
if of ~= token then -- of a hold before
    from, next = '', ''
end
if not ARGV[2] then
    redis.call('HMSET', S, 'token', '', 'spent', token)
    return {1, s[2] or '', from, next}
end
-- without noted_stamp_stays: if true then
if next == '' or next == ARGV[4] then
    from, next = ARGV[2], ARGV[3]
    redis.call('HMSET', S, 'next', token .. ' ' .. from .. ' ' .. next)
end
if tonumber(ARGV[5]) > till then
    redis.call('HMSET', S, 'until', ARGV[5])
end
if redis.call('PTTL', S) < tonumber(ARGV[6]) then
    redis.call('PEXPIRE', S, ARGV[6])
end
return {1, s[2] or '', from, next}
