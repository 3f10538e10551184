//! The scripts that change a job in Redis. Each is atomic, checks the token of the worker's claim
//! before it changes anything, and may be repeated after a lost response.
//!
//! The keys of a job, after its prefix:
//!
//! - (none): a hash with the job's description, its state, its totals, the number of its chunks,
//!   the rate, and when the next request is due
//! - `:rows`: a hash from the number of a chunk to its rows
//! - `:files`: a hash with what the application has stored
//! - `:chunks`: a stream with the chunks to send. Its consumer group knows which worker has
//!   claimed which chunk, and since when.
//! - `:fence`: a hash from the number of a chunk to the token of its last claim
//! - `:log`: a hash from the number of a chunk to the lines of its journal
//! - `:counts`: a hash from the number of a chunk to its totals
//! - `:done`: the set of the chunks that have no more rows to send
//! - `:workers`: a hash with the workers and what they have done

/// Takes the next chunk: one whose worker is gone, or a new one.
///
/// Keys: job, chunks, rows, log, fence, done, workers. Arguments: worker, lease in ms.
pub(crate) const CLAIM: &str = "
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return {'missing'} end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[7], ARGV[1] .. '|seen', now, ARGV[1] .. '|lease', ARGV[2])
if redis.call('SCARD', KEYS[6]) >= tonumber(redis.call('HGET', KEYS[1], 'chunks')) then
    return {'complete'}
end
if state ~= 'running' then return {state} end
local entry = redis.call('XAUTOCLAIM', KEYS[2], 'workers', ARGV[1], ARGV[2], '0-0', 'COUNT', 1)[2][1]
if not entry then
    local read = redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', 1, 'STREAMS', KEYS[2], '>')
    entry = read and read[1][2][1]
end
if not entry then return {'empty'} end
local fields = entry[2]
local chunk = fields[2]
local token = redis.call('HINCRBY', KEYS[5], chunk, 1)
return {'chunk', now, entry[1], chunk, token, fields[4] or '0',
    redis.call('HGET', KEYS[3], chunk) or '', redis.call('HGET', KEYS[4], chunk) or ''}";

/// The check right before a request is sent: the chunk is still the worker's, the job runs, and
/// the request is due. Appends its intent, if it has one.
///
/// Keys: job, chunks, log, fence, workers. Arguments: worker, chunk, id in the stream, token,
/// length of the chunk's log, line of the intent, number of emails.
pub(crate) const BEGIN: &str = "
if redis.call('HGET', KEYS[4], ARGV[2]) ~= ARGV[4] then return {'lost'} end
local state = redis.call('HGET', KEYS[1], 'state')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('HSET', KEYS[5], ARGV[1] .. '|seen', string.format('%.0f', math.floor(now / 1000)))
redis.call('XCLAIM', KEYS[2], 'workers', ARGV[1], 0, ARGV[3], 'JUSTID')
if state ~= 'running' then return {state or 'lost'} end
local length = redis.call('HSTRLEN', KEYS[3], ARGV[2])
if #ARGV[6] > 0 and length == ARGV[5] + #ARGV[6] then return {'ok'} end
if length ~= tonumber(ARGV[5]) then return {'lost'} end
local due = tonumber(redis.call('HGET', KEYS[1], 'due') or '0')
if due > now then return {'wait', string.format('%.0f', due - now)} end
local rate = tonumber(redis.call('HGET', KEYS[1], 'rate') or '0')
if rate > 0 then
    local space = math.min(ARGV[7] / rate, 31536000) * 1000000
    redis.call('HSET', KEYS[1], 'due', string.format('%.0f', now + space))
end
if #ARGV[6] > 0 then
    redis.call('HSET', KEYS[3], ARGV[2], (redis.call('HGET', KEYS[3], ARGV[2]) or '') .. ARGV[6])
end
return {'ok'}";

/// Appends lines to the log of a chunk.
///
/// Keys: job, chunks, log, fence, counts, done, workers. Arguments: worker, chunk, id in the
/// stream, token, length of the chunk's log, lines, whether the chunk is done (1 or 0), and its
/// totals: accepted, refused, invalid, unknown.
pub(crate) const RECORD: &str = "
if redis.call('HGET', KEYS[4], ARGV[2]) ~= ARGV[4] then return {'lost'} end
local names = {'accepted', 'refused', 'invalid', 'unknown'}
local function totals()
    local all = redis.call('HMGET', KEYS[1], unpack(names))
    return {'ok', all[1] or '0', all[2] or '0', all[3] or '0', all[4] or '0'}
end
local length = redis.call('HSTRLEN', KEYS[3], ARGV[2])
local is_repeated = #ARGV[6] > 0 and length == ARGV[5] + #ARGV[6]
if not is_repeated and length ~= tonumber(ARGV[5]) then return {'lost'} end
if not is_repeated then
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call('HSET', KEYS[7], ARGV[1] .. '|seen', now)
    if #ARGV[6] > 0 then
        redis.call('HSET', KEYS[3], ARGV[2], (redis.call('HGET', KEYS[3], ARGV[2]) or '') .. ARGV[6])
    end
    local before = redis.call('HGET', KEYS[5], ARGV[2]) or '0 0 0 0'
    local at = 1
    for count in string.gmatch(before, '%d+') do
        local more = ARGV[7 + at] - count
        if more ~= 0 then
            redis.call('HINCRBY', KEYS[1], names[at], more)
            redis.call('HINCRBY', KEYS[7], ARGV[1] .. '|' .. names[at], more)
        end
        at = at + 1
    end
    redis.call('HSET', KEYS[5], ARGV[2], table.concat({ARGV[8], ARGV[9], ARGV[10], ARGV[11]}, ' '))
end
if ARGV[7] == '1' then
    redis.call('SADD', KEYS[6], ARGV[2])
    redis.call('XACK', KEYS[2], 'workers', ARGV[3])
    redis.call('XDEL', KEYS[2], ARGV[3])
else
    redis.call('XCLAIM', KEYS[2], 'workers', ARGV[1], 0, ARGV[3], 'JUSTID')
end
return totals()";

/// Gives a chunk back, so that another worker can take it at once.
///
/// Keys: chunks, fence. Arguments: worker, chunk, id in the stream, token.
pub(crate) const RELEASE: &str = "
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[4] then return 0 end
redis.call('HINCRBY', KEYS[2], ARGV[2], 1)
redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, ARGV[3], 'IDLE', 864000000, 'JUSTID')
return 1";

/// Starts no request of any worker for some time.
///
/// Keys: job. Arguments: ms.
pub(crate) const PAUSE: &str = "
local time = redis.call('TIME')
local due = time[1] * 1000000 + time[2] + ARGV[1] * 1000
if due > tonumber(redis.call('HGET', KEYS[1], 'due') or '0') then
    redis.call('HSET', KEYS[1], 'due', string.format('%.0f', due))
end
return 1";

/// Pauses, continues or cancels a job. A job that was cancelled stays so.
///
/// Keys: job. Arguments: state.
pub(crate) const SET_STATE: &str = "
local state = redis.call('HGET', KEYS[1], 'state')
if not state or state == 'preparing' then return 'missing' end
if state == 'cancelled' then return state end
redis.call('HSET', KEYS[1], 'state', ARGV[1])
return ARGV[1]";

/// Makes the rows of a done chunk that are unknown rows to send.
///
/// Keys: chunks, log, done. Arguments: chunk.
pub(crate) const SEND_AGAIN: &str = "
if redis.call('SREM', KEYS[3], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[1], '*', 'chunk', ARGV[1], 'again', redis.call('HSTRLEN', KEYS[2], ARGV[1]))
return 1";

/// Makes a job that is completely stored available to workers.
///
/// Keys: job, rows, files, chunks. Arguments: number of chunks.
pub(crate) const PUBLISH: &str = "
if redis.call('HGET', KEYS[1], 'state') ~= 'preparing' then return 0 end
redis.call('XGROUP', 'CREATE', KEYS[4], 'workers', '0', 'MKSTREAM')
redis.call('HSET', KEYS[1], 'state', 'running', 'chunks', ARGV[1])
for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
return 1";
