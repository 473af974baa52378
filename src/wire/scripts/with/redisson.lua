-- Is the hash K a lock of Redisson? Its fields are UUID:THREAD, of a read-write lock also the mode. Of a hash with more
-- fields than two nothing is read, so that a look at any hash is cheap.
local owner = '^' .. string.rep('%x', 8) .. string.rep('%-' .. string.rep('%x', 4), 3) .. '%-' .. string.rep('%x', 12) .. ':%d+'
local function is_redissons(K)
    local few = redis.pcall('HLEN', K)
    local fields = type(few) == 'number' and few <= 2 and redis.pcall('HKEYS', K) or {}
    local owners = 0
    for _, field in ipairs(fields) do
        if string.find(field, owner .. '$') or string.find(field, owner .. ':write$') then
            owners = owners + 1
        elseif field ~= 'mode' then
            return false
        end
    end
    return owners > 0
end
