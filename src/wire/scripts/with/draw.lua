-- Draw n fencing numbers of K's slot; the last is returned. Each is larger than all before, and none is
-- behind the server's clock. nil, and what is wrong, where the counter can't be used.
--
-- The counter may be ahead of the clock, by any amount: the clock was ahead once and has been corrected. Numbers then go on
-- from there, until the clock has caught up. Only at 2^53 is there no next one, since Lua's numbers stand still there.
local function draw(n, now, noted)
    local count = redis.pcall('GET', F)
    local last = type(count) == 'string' and string.match(count, '^%d+$') and tonumber(count) or count and -1 or 0
    if type(count) == 'table' and not string.find(count.err, 'wrong kind of value', 1, true) then
        return nil, {err = count.err .. ' (get)'}
    end
    -- without odd_counter_named: if false then
    if last < 0 then
        return nil, {err = 'ERR the fencing counter ' .. F .. ' holds no number'}
    end
    -- without fence_above_counter: last = math.max(tonumber(noted or 0) or 0, now) + (n - 1)
    -- without fence_above_forgotten: last = last + n
    last = math.max(last + 1, (tonumber(noted or 0) or 0) + 1, now) + (n - 1) -- in brackets: near 2^53 a sum is rounded
    -- without counter_ends_at_2_53: if false then
    if last >= 9007199254740992 then
        return nil, {err = 'ERR the fencing counter ' .. F .. ' is at 2^53: it has no next number'}
    end
    local done = redis.pcall('SET', F, string.format('%.0f', last))
    if done.err then
        return nil, {err = done.err .. ' (set)'}
    end
    return last
end
