-- What a renewal needs, and a take does not: who may not, or finds it renamed, is refused now, before anybody counts on
-- the lock, and not at the first renewal. K must not exist: then nothing is changed, nor sent to replicas.
local function unable(K, px)
    local done, name = redis.pcall('PEXPIRE', K, px), ' (pexpire)'
    if type(done) ~= 'table' then
        done, name = redis.pcall('PTTL', K), ' (pttl)'
    end
    -- without unrenewable_refused: return false
    return type(done) == 'table' and {err = done.err .. name}
end
