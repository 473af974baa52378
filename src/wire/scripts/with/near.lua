-- Tell who has become one of the first three, when `gone` before them have left the line: from now on they mind the
-- end of the holder's time, who may have died. Nothing depends on it but how soon that is noticed. By its token: of a
-- process with many in line the others aren't to be woken.
local function near(gone)
    -- without third_waiter_notified: local moved = {}
    local moved = gone > 0 and redis.pcall('ZRANGE', L, math.max(3 - gone, 0), 2) or {}
    for _, entry in ipairs(moved) do
        local token, inbox = string.match(entry, '^(%S+) %S+ %S+ (%S+) ')
        redis.pcall('PUBLISH', inbox or '', 'near ' .. (token or '') .. ' ' .. K)
    end
end
