-- Have S say who holds K, where the two may be at two nodes: for one who has K, and his fencing numbers, already.
--
-- KEYS  S (the sidecar)
-- ARGV  token, lifetime ms, the sender's earliest and latest idea of the server's time us, below 3.2, the last of the
--       fencing numbers, owner, not_after (server us; 0 or none: no limit)
-- Answers {status, ms left}: 1 it says so   0 it binds another, for so long   -1 S tells of a later number
--       -2 this token was dropped   -3 past not_after
local S, token, life, fence = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local now, latest = tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.replicate_commands then
    redis.replicate_commands()
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    latest = now
    -- S doesn't remember for ever that the token was dropped.
    -- without bind_by_limit: if false then
    if tonumber(ARGV[7] or 0) > 0 and now > tonumber(ARGV[7]) then
        return {-3, -1}
    end
end
local s = redis.call('HMGET', S, 'token', 'until', 'fence', 'spent')
local bound, till = s[1] and s[1] ~= '', tonumber(s[2] or 0) or 0
if s[4] == token then
    return {-2, -1}
end
if bound and s[1] ~= token and till >= now then
    return {0, math.floor((till - now) / 1000) + 1}
end
if fence <= (tonumber(s[3] or 0) or 0) then
    return {-1, -1}
end
redis.call('HMSET', S, 'token', token, 'value', token, 'until', string.format('%.0f', latest + life * 1000), 'fence',
           ARGV[5], 'since', string.format('%.0f', now), 'owner', ARGV[6], 'claim', '')
if redis.call('PTTL', S) < life + 3600000 then
    redis.call('PEXPIRE', S, string.format('%.0f', life + 5400000))
end
return {1, -1}
