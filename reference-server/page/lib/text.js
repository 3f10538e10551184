// Text that people read: times, sizes, shell words, and search words.

// To make a format takes much longer than to use it.
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit',
  hourCycle: 'h23' });

/** @param {string | number | Date} at */
export function time(at) {
  const date = new Date(at);
  const today = new Date();
  const clock = clockFormat.format(date);
  if (date.toDateString() === today.toDateString()) return clock;
  /** @type {Intl.DateTimeFormatOptions} */
  const day = { day: 'numeric', month: 'short' };
  if (date.getFullYear() !== today.getFullYear()) day.year = 'numeric';
  return `${date.toLocaleDateString(undefined, day)} ${clock.slice(0, 5)}`;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const kib = bytes / 1024;
  return kib < 1024 ? `${kib.toFixed(kib < 10 ? 1 : 0)} KiB` : `${(kib / 1024).toFixed(1)} MiB`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  if (s > 2 * 31_557_600) return count(Math.floor(s / 31_557_600), 'year');
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** A number of things. @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** How far a clock is from that of the computer, in words; empty if it is not. @param {number} ms */
export function ahead(ms) {
  const seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds < 2) return '';
  // An advance takes a while itself.
  const minutes = Math.round(seconds / 60);
  const parts = seconds < 120 ? [count(seconds, 'second')] : [[Math.floor(minutes / 1440), 'day'],
    [Math.floor(minutes / 60) % 24, 'hour'], [minutes % 60, 'minute']].filter(([n]) => n).map(([n, unit]) =>
      count(Number(n), String(unit)));
  return `${parts.slice(0, 2).join(' ')} ${ms > 0 ? 'ahead of' : 'behind'} this computer`;
}

/** The name of a mailbox, or its address. @param {string} mailbox */
export function nameOf(mailbox) {
  const name = mailbox.endsWith('>') ? mailbox.slice(0, mailbox.lastIndexOf('<')).trim() : '';
  return name.replace(/^"|"$/g, '') || addressOf(mailbox);
}

/** The address of a mailbox. @param {string} mailbox */
export function addressOf(mailbox) {
  return mailbox.endsWith('>') ? mailbox.slice(mailbox.lastIndexOf('<') + 1, -1) : mailbox.trim();
}

/** JSON with indentation, or the text as it is. @param {string} text */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A word of a POSIX shell. @param {string} text */
export function shell(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A string of Rust. @param {string} text */
export function rust(text) {
  if (!/["\\\n]/.test(text)) return `"${text}"`;
  if (!text.includes('"#') && !text.includes('\r')) return `r#"${text}"#`;
  return JSON.stringify(text).replace(/\\u([0-9a-f]{4})/g, '\\u{$1}');
}

/**
 * The parameters of a search: `name:value` for each known name, and the rest of the text, which any
 * field may contain. A value with spaces is quoted. `problem` names the fields if one is not known.
 * @param {string} text @param {string[]} names
 */
export function search(text, names) {
  /** @type {Record<string, string>} */
  const params = {};
  let problem = null;
  const left = text.replace(/(?<!\S)([a-z_]+):(?!\/\/)(?:"([^"]*)"|([^\s"]\S*))/gi, (_, name, quoted, word) => {
    if (names.includes(name)) params[name] = quoted ?? word;
    else problem = { message: `There is no field ${name}: here. The fields are ${names.map((one) =>
      `${one}:`).join(', ')}. Words without a field are searched for in all of them; "${name}:${quoted ?? word}" in `
      + 'quotes is text.' };
    return '';
  });
  const words = left.replace(/"([^"]*)"/g, '$1').trim().replace(/\s+/g, ' ');
  if (words) params.search = words;
  return { params, problem };
}

/** A command that sends an email. @param {string} from */
export const sendCommand = (from) =>
  `svc --sandbox emails send --from ${from} --to ada@example.test --subject Hi --text Hello`;
