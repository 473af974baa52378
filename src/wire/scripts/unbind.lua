-- Have S say that nobody holds K any more, where the two may be at two nodes: for one who is about to give K up.
--
-- KEYS  S (the sidecar)
-- ARGV  token
-- Answers 1 it says so   0 it didn't know the token
local S, token = KEYS[1], ARGV[1]
if redis.call('HGET', S, 'token') ~= token then
    return 0
end
redis.call('HMSET', S, 'token', '', 'spent', token, 'claim', '')
return 1
