-- Renew locks that S knows of, all to the same lifetime: the short way of renew.lua, which writes only what changes.
--
-- KEYS  K, S for each lock
-- ARGV  the token of each; then not_after (server us; 0: no limit) and the lifetime of K ms
-- Answers {TIME s, TIME us, and the numbers, from 1, of those that were not extended}, which renew.lua is to see; 0 among
--   them: none was, it is past not_after. {0} alone: below 3.2, where a script that has read the clock may not write
--
-- It says that a lock was extended only where K held the token, its lifetime became longer by that, and S had told until
-- when it binds, which moves along with it. Whatever else there is renew.lua finds out, for that lock alone: also why
-- something was refused. An S that is made here by mistake tells no token, and goes away by itself.
if not redis.replicate_commands then
    return {0}
end
redis.replicate_commands()
local time = redis.call('TIME')
local now, n, px = time[1] * 1000000 + time[2], #KEYS / 2, ARGV[#ARGV]
local not_after = tonumber(ARGV[n + 1])
-- without refresh_by_limit: if false then
if not_after > 0 and now > not_after then
    return {time[1], time[2], 0}
end
local longer, keys, out = redis.REDIS_VERSION_NUM ~= nil, {}, {time[1], time[2]} -- from 7.0 on, which have GT, too
local till = string.format('%.0f', now + px * 1000)
for i = 1, n do
    keys[i] = KEYS[2 * i - 1]
end
local found, try = redis.call('MGET', unpack(keys)), redis.pcall
for i = 1, n do
    local K, S, done = keys[i], KEYS[2 * i], nil
    -- without refresh_of_owner: if false then
    if found[i] ~= ARGV[i] then
        done = nil
    elseif longer then
        -- without refresh_shortens_nothing: done = try('PEXPIRE', K, px)
        done = try('PEXPIRE', K, px, 'GT')
    else
        local left = try('PTTL', K)
        -- without refresh_shortens_nothing: if type(left) == 'number' and left >= 0 then
        if type(left) == 'number' and left >= 0 and left < tonumber(px) then
            done = try('PEXPIRE', K, px)
        end
    end
    if done == 1 then
        -- without refresh_binds: done = 0
        done = try('HSET', S, 'until', till)
        if done == 1 then
            -- without refresh_leaves_nothing:
            try('PEXPIRE', S, '3600000')
        end
    else
        done = 1
    end
    -- without refresh_reports: if false then
    if done ~= 0 then
        out[#out + 1] = i
    end
end
return out
