// Server-sent events, read with `fetch` because `EventSource` cannot send the control token.
// A broken connection is made again, and continues after the last event that arrived.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { authorization, url } from './api.js';

/** @typedef {import('control').Notification} Event */

/** @type {Set<(event: Event) => void>} */
const listeners = new Set();
/** @type {Set<(connected: boolean) => void>} */
const watchers = new Set();
let connected = false;
/** @type {AbortController | null} */
let running = null;

/** Starts again, for example for another organization. */
export function connect() {
  running?.abort();
  running = new AbortController();
  share(running.signal);
}

/**
 * One tab of a browser reads the events of an organization and tells them to the others: a browser has
 * only six connections to a server over HTTP/1.1. When that tab ends, another one goes on.
 * @param {AbortSignal} signal
 */
async function share(signal) {
  const address = url('/_sandbox/events');
  const tabs = new BroadcastChannel(address);
  let last = '';
  /** What a tab tells the others. @param {{ id?: string, data?: Event, connected?: boolean, asks?: boolean }} news */
  const receive = ({ id, data, connected: value }) => {
    if (id) last = id;
    if (value !== undefined) setConnected(value);
    if (data) emit(data);
  };
  tabs.onmessage = ({ data }) => receive(data);
  signal.addEventListener('abort', () => tabs.close());

  const read = () => {
    tabs.onmessage = ({ data }) => data.asks && tabs.postMessage({ connected });
    return run(address, signal, last, (news) => {
      if (signal.aborted) return;
      receive(news);
      tabs.postMessage(news);
    });
  };
  // There are locks only on localhost and over HTTPS. Without them, each tab reads for itself.
  if (!navigator.locks) {
    tabs.close();
    return run(address, signal, last, receive);
  }
  tabs.postMessage({ asks: true });
  await navigator.locks.request(address, { signal }, read).catch(() => {});
}

/** @param {string} address @param {AbortSignal} signal @param {string} last
 *  @param {(news: { id?: string, data?: Event, connected?: boolean }) => void} tell */
async function run(address, signal, last, tell) {
  let pause = 250;
  let lost = false;
  while (!signal.aborted) {
    try {
      /** @type {Record<string, string>} */
      const headers = { accept: 'text/event-stream', ...authorization() };
      if (last) headers['last-event-id'] = last;
      const response = await fetch(address, { headers, signal });
      if (!response.ok || !response.body) throw new Error(String(response.status));
      tell({ connected: true });
      pause = 250;
      // Without an ID to continue after, whatever happened meanwhile is unknown.
      if (lost && !last) tell({ data: { type: 'reset', reason: 'gap' } });
      for await (const event of events(response.body)) {
        if (event.id) last = event.id;
        tell(event);
      }
    } catch {
      // The connection failed; the loop makes it again.
    }
    if (signal.aborted) return;
    tell({ connected: false });
    lost = true;
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

/** @param {ReadableStream<Uint8Array>} stream @returns {AsyncGenerator<{id: string, data: Event}>} */
async function* events(stream) {
  /** @type {unknown} */
  const utf8 = new TextDecoderStream();
  const decoder = /** @type {ReadableWritablePair<string, Uint8Array>} */ (utf8);
  const reader = stream.pipeThrough(decoder).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      let id = '';
      let data = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('id: ')) id = line.slice(4);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (data) yield { id, data: JSON.parse(data) };
    }
  }
}

/** @param {Event} event */
function emit(event) {
  for (const listener of [...listeners]) listener(event);
}

/** @param {boolean} value */
function setConnected(value) {
  if (value === connected) return;
  connected = value;
  for (const watcher of [...watchers]) watcher(value);
}

/** Whether events arrive. */
export function useConnected() {
  const [value, setValue] = useState(connected);
  useEffect(() => {
    watchers.add(setValue);
    setValue(connected);
    return () => void watchers.delete(setValue);
  }, []);
  return value;
}

/** Calls the handler for each event. @param {(event: Event) => void} handler */
export function useEvents(handler) {
  const latest = useRef(handler);
  useLayoutEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    /** @param {Event} event */
    const listener = (event) => latest.current(event);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
}

/**
 * Runs the work at once, and at most every `ms` while it is asked for again.
 * @param {() => void} work @param {number} ms
 */
export function useThrottle(work, ms) {
  const latest = useRef(work);
  useLayoutEffect(() => {
    latest.current = work;
  });
  const state = useRef({ timer: 0, again: false });
  useEffect(() => () => clearTimeout(state.current.timer), []);
  return () => {
    const own = state.current;
    if (own.timer) {
      own.again = true;
      return;
    }
    const end = () => {
      own.timer = 0;
      if (!own.again) return;
      own.again = false;
      start();
    };
    const start = () => {
      own.timer = window.setTimeout(end, ms);
      latest.current();
    };
    start();
  };
}
