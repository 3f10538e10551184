//! The scripts that change a job in Redis. Each is atomic, and may be repeated after a lost response.
//!
//! The keys of a job, after its prefix:
//!
//! - (none): a hash with the job's description, its state, its totals, the number of its chunks,
//!   the rate, and when the next request is due
//! - `:rows`: a hash from the number of a chunk to its rows
//! - `:files`: a hash with what the application has stored
//! - `:chunks`: a stream with the chunks to send. Its consumer group knows which worker has
//!   claimed which chunk, how often it was claimed, and when its worker last said that it has it.
//! - `:log`: a hash from the number of a chunk to the lines of its journal
//! - `:counts`: a hash from the number of a chunk to its totals
//! - `:done`: the set of the chunks that have no more rows to send
//! - `:alive`: a sorted set of the workers, with the time until which they may be silent

/// The keys of each script, in this order.
pub(crate) const KEYS: [&str; 8] = [
    "", ":rows", ":files", ":chunks", ":log", ":counts", ":done", ":alive",
];

/// Starts each script. Those of a worker start with its name and its lease in ms. Where one is about
/// a claimed chunk, the next arguments are the chunk, its id in the stream, and how often it was
/// claimed: if a worker was suspended for longer than its lease and another one has claimed the
/// chunk, the last two differ.
pub(crate) const SHARED: &str = "
local job, rows, files, chunks, log, counts, done, alive = unpack(KEYS)
local worker, lease, chunk, id, claims = unpack(ARGV)
local names = {'accepted', 'refused', 'invalid', 'unknown'}
local function micros()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end
local function text(number) return string.format('%.0f', number) end
local function seen()
    redis.call('ZADD', alive, text(micros() / 1000 + lease), worker)
end
local function is_mine()
    local claim = redis.call('XPENDING', chunks, 'workers', id, id, 1)[1]
    return claim and claim[2] == worker and claim[4] == tonumber(claims)
end
local function keep()
    redis.call('XCLAIM', chunks, 'workers', worker, 0, id, 'JUSTID')
end
local function is_appended(length, lines)
    return #lines > 0 and redis.call('HSTRLEN', log, chunk) == length + #lines
end
local function append(length, lines)
    if is_appended(length, lines) then return true end
    if redis.call('HSTRLEN', log, chunk) ~= tonumber(length) then return false end
    if #lines > 0 then
        redis.call('HSET', log, chunk, (redis.call('HGET', log, chunk) or '') .. lines)
    end
    return true
end
local function count(first)
    local before = redis.call('HGET', counts, chunk) or '0 0 0 0'
    local at = 0
    for known in string.gmatch(before, '%d+') do
        local more = ARGV[first + at] - known
        at = at + 1
        if more ~= 0 then redis.call('HINCRBY', job, names[at], more) end
    end
    redis.call('HSET', counts, chunk, table.concat(ARGV, ' ', first, first + 3))
end
";

/// Takes the next chunk: one whose worker is gone, or a new one.
///
/// Arguments: worker, lease.
pub(crate) const CLAIM: &str = "
local state = redis.call('HGET', job, 'state')
if not state or state == 'preparing' then return {'missing'} end
seen()
if redis.call('SCARD', done) >= tonumber(redis.call('HGET', job, 'chunks')) or state == 'cancelled' then
    return {'end'}
end
if state ~= 'running' then return {'nothing'} end
local entry = redis.call('XAUTOCLAIM', chunks, 'workers', worker, lease, '0-0', 'COUNT', 1)[2][1]
if not entry then
    local read = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', chunks, '>')
    entry = read and read[1][2][1]
end
if not entry then return {'nothing'} end
local id, chunk = entry[1], entry[2][2]
local claim = redis.call('XPENDING', chunks, 'workers', id, id, 1)[1]
return {'chunk', {text(micros() / 1000), id, chunk, claim[4],
    redis.call('HGET', log, chunk) or ''}}";

/// The check right before a request is sent: the chunk is still the worker's, the job runs, and
/// the request is due. Appends its intent, if it has one.
///
/// Arguments: those of a claim, length of the chunk's log, line of the intent, number of emails.
pub(crate) const BEGIN: &str = "
if not is_mine() then return {'lost'} end
seen()
keep()
local state = redis.call('HGET', job, 'state')
if state ~= 'running' then return {state or 'lost'} end
if is_appended(ARGV[6], ARGV[7]) then return {'ok'} end
local now = micros()
local due = tonumber(redis.call('HGET', job, 'due') or '0')
if due > now then return {'wait', text(due - now)} end
if not append(ARGV[6], ARGV[7]) then return {'lost'} end
local rate = tonumber(redis.call('HGET', job, 'rate') or '0')
if rate > 0 then
    redis.call('HSET', job, 'due', text(now + math.min(ARGV[8] / rate, 31536000) * 1000000))
end
return {'ok'}";

/// Appends lines to the log of a chunk.
///
/// Arguments: those of a claim, length of the chunk's log, lines, whether the chunk is done (1 or
/// 0), and its totals: accepted, refused, invalid, unknown.
pub(crate) const RECORD: &str = "
if not is_mine() or not append(ARGV[6], ARGV[7]) then return false end
seen()
count(9)
if ARGV[8] == '1' then
    redis.call('SADD', done, chunk)
    redis.call('XACK', chunks, 'workers', id)
else
    keep()
end
return redis.call('HMGET', job, unpack(names))";

/// Whether a chunk is still the worker's.
///
/// Arguments: those of a claim.
pub(crate) const IS_MINE: &str = "return is_mine() and 1 or 0";

/// Gives a chunk back, so that another worker can take it at once.
///
/// Arguments: those of a claim.
pub(crate) const RELEASE: &str = "
if is_mine() then
    redis.call('XCLAIM', chunks, 'workers', worker, 0, id, 'IDLE', 864000000, 'JUSTID')
end
return 1";

/// Changes what the log of a done chunk says, and makes it a chunk to send, unless it is still done.
///
/// Arguments: as for [`RECORD`], of which those of the claim but the chunk are not used.
pub(crate) const REOPEN: &str = "
if redis.call('SISMEMBER', done, chunk) == 0 or not append(ARGV[6], ARGV[7]) then return 0 end
count(9)
if ARGV[8] == '1' then return 1 end
redis.call('SREM', done, chunk)
redis.call('XADD', chunks, '*', 'chunk', chunk)
return 1";

/// Starts no request of any worker for some time.
///
/// Arguments: ms.
pub(crate) const PAUSE: &str = "
local due = micros() + ARGV[1] * 1000
if due > tonumber(redis.call('HGET', job, 'due') or '0') then
    redis.call('HSET', job, 'due', text(due))
end
return 1";

/// Pauses, continues or cancels a job. A job that was cancelled stays so.
///
/// Arguments: state, cause in JSON.
pub(crate) const SET_STATE: &str = "
local state = redis.call('HGET', job, 'state')
if not state or state == 'preparing' then return 'missing' end
if state == 'cancelled' then return state end
redis.call('HSET', job, 'state', ARGV[1], 'cause', ARGV[2])
return ARGV[1]";

/// Makes a job that is completely stored available to workers.
///
/// Arguments: number of chunks.
pub(crate) const PUBLISH: &str = "
if redis.call('HGET', job, 'state') ~= 'preparing' then return 0 end
redis.call('XGROUP', 'CREATE', chunks, 'workers', '0', 'MKSTREAM')
redis.call('HSET', job, 'state', 'running', 'chunks', ARGV[1])
for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
return 1";
