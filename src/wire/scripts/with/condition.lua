-- What C holds, where that isn't what the sender wants to find there; else nil. C nil: there is no condition. It is judged here,
-- at the master that executes the request, however long that was on its way.
local function differs(C, wanted)
    local holds = C and (redis.call('GET', C) or '')
    -- without condition_holds: return wanted == '' and holds ~= '' and holds or nil
    return holds ~= wanted and holds or nil
end
