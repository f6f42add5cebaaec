// Requests to the server. A server that does not answer is waited for, so that views go on where they were.

/** A reply that says what is wrong. `position` is the place in a predicate, or null. */
export class ApiError extends Error {
  constructor(status, message, position = null) {
    super(message);
    this.status = status;
    this.position = position;
  }
}

/** Dispatches `lost` when the server stops answering, and `back` when it answers again. */
export const connection = new EventTarget();

let waiting = null;  // a promise while the server is gone
let tryNow = () => {};

/** Asks the lost server again at once. */
export function retryNow() {
  tryNow();
}

/** Resolves after some milliseconds; rejects when the signal is aborted. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
  });
}

function waitForServer() {
  if (waiting === null) {
    connection.dispatchEvent(new Event('lost'));
    waiting = (async () => {
      for (;;) {
        const pause = new Promise((resolve) => { tryNow = resolve; });
        await Promise.race([sleep(1500), pause]);
        try {
          await fetch('api/datasets', { cache: 'no-store' });
          break;
        } catch {
          // Still gone.
        }
      }
      waiting = null;
      connection.dispatchEvent(new Event('back'));
    })();
  }
  return waiting;
}

/**
 * Fetches, again and again while the server is gone.
 * @param {string} path below the server's root
 * @param {AbortSignal} signal
 * @returns {Promise<Response>} of any status
 */
export async function request(path, signal) {
  for (;;) {
    try {
      return await fetch(path, { signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      await waitForServer();
      signal?.throwIfAborted();
    }
  }
}

/** @returns {Promise<ApiError>} what the reply says is wrong */
export async function errorOf(response) {
  let message = `The server answered with status ${response.status}.`;
  let position = null;
  try {
    const body = await response.json();
    if (typeof body.error === 'string') message = body.error;
    if (typeof body.position === 'number') position = body.position;
  } catch {
    // The status says enough.
  }
  if (response.status === 401 || response.status === 403) {
    message = `${message} Open the address that shardctl view printed: it lets this browser in.`;
  }
  return new ApiError(response.status, message, position);
}

/** The JSON of a reply; throws ApiError. */
export async function getJson(path, signal) {
  const response = await request(path, signal);
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

/**
 * A path below /api with its query. A list is the parameter once for each of its members; null is left out.
 * @param {number} dataset
 * @param {string} path such as `sample/7`
 * @param {Object} parameters
 */
export function apiPath(dataset, path, parameters = {}) {
  const parts = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === '') continue;
    if (Array.isArray(value)) {
      for (const each of value) parts.push(`${name}=${encodeURIComponent(each)}`);
    } else {
      parts.push(`${name}=${encodeURIComponent(value)}`);
    }
  }
  const search = parts.length > 0 ? `?${parts.join('&')}` : '';
  return `api/${dataset}/${path}${search}`;
}
