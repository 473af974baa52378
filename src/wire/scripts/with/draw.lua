-- Draw n fencing numbers of K's slot; the last is returned. Each is larger than all before, and none is
-- behind the server's clock. nil, and what is wrong, where the counter can't be used.
local function draw(n, now, noted)
    local count = redis.pcall('GET', F)
    local last = type(count) == 'string' and string.match(count, '^%d+$') and tonumber(count) or count and -1 or 0
    if type(count) == 'table' and not string.find(count.err, 'wrong kind of value', 1, true) then
        return nil, {err = count.err .. ' (get)'}
    end
    if last < 0 or last > now + 86400000000 then
        return nil, {err = 'ERR the fencing counter ' .. F .. (last < 0 and ' holds no number' or ' is a day ahead of the clock')}
    end
    last = math.max(last + 1, (tonumber(noted or 0) or 0) + 1, now) + n - 1
    local done = redis.pcall('SET', F, string.format('%.0f', last))
    if done.err then
        return nil, {err = done.err .. ' (set)'}
    end
    return last
end
