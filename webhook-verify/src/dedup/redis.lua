-- Changes the state of a delivery: nothing, the token of who has claimed it, or 'done'. Tokens are
-- hexadecimal digits, so 'done' cannot be one. A claim, and what is done, lasts for so many
-- milliseconds. A repeated claim recognizes its own token.
local operation, token, milliseconds = ARGV[1], ARGV[2], ARGV[3]
local state = redis.call('GET', KEYS[1])
local is_free = not state or state == token

local function set(new)
    redis.call('SET', KEYS[1], new, 'PX', milliseconds)
    return 1
end

if operation == 'claim' then
    if is_free then
        set(token)
        return {'new', 0}
    elseif state == 'done' then
        return {'done', 0}
    else
        return {'claimed', redis.call('PTTL', KEYS[1])}
    end
elseif operation == 'renew' and is_free then
    return set(token)
elseif operation == 'complete' and (is_free or state == 'done') then
    return set('done')
elseif operation == 'release' and state == token then
    return redis.call('DEL', KEYS[1])
elseif operation == 'forget' and state == 'done' then
    return redis.call('DEL', KEYS[1])
end
return 0
