-- Strike an entry out of the line, and call those who are first there to look, where the line and K may be at two nodes:
-- for one who is about to give K up, whom nobody in line would hear.
--
-- KEYS  L (the line)
-- ARGV  the entry ('': it has none), K
-- Answers how many were called
local L, entry, K = KEYS[1], ARGV[1], ARGV[2]
if entry ~= '' then
    redis.call('ZREM', L, entry)
end
local first = redis.call('ZRANGE', L, 0, 2)
for _, one in ipairs(first) do
    -- without leaver_calls_next:
    redis.pcall('PUBLISH', string.match(one, '^%S+ %S+ %S+ (%S+) ') or '', 'look ' .. K)
end
return #first
