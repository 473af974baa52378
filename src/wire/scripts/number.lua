-- Draw fencing numbers by the counter alone, where it and K may be at two nodes.
--
-- KEYS  F (the fencing counter of K's slot)
-- ARGV  how many; the sender's earliest idea of the server's time us, below 3.2
-- Answers the last of them, as text
local F, now = KEYS[1], tonumber(ARGV[2])
if redis.replicate_commands then
    redis.replicate_commands()
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end
-- with draw
local last, wrong = draw(tonumber(ARGV[1]), now)
return wrong or string.format('%.0f', last)
