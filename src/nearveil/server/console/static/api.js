// Talks to the service; every failure comes back as a sentence.

const KEY = "nearveil-platform-key";

export const key = {
  // A browser may forbid all storage; the page then asks again after a reload, and nothing else is lost.
  value: (() => { try { return sessionStorage.getItem(KEY); } catch { return null; } })(),
  keep(value) {
    this.value = value;
    try { sessionStorage.setItem(KEY, value); } catch { /* forgotten */ }
  },
  forget() {
    this.value = null;
    try { sessionStorage.removeItem(KEY); } catch { /* nothing kept */ }
  },
};

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// What the service answers; null where it answers nothing.
export async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const options = { method, headers: { Authorization: `Bearer ${key.value}` }, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refusal(0, "The service does not answer. Check that it is running, and try again.");
  }
  if (!answer.ok) throw new Refusal(answer.status, await messageOf(answer));
  return answer.status === 204 ? null : answer.json();
}

async function messageOf(answer) {
  if (answer.status === 401) return "This is not a valid platform key, or it was removed. Sign in with another one.";
  if (answer.status === 429) {
    const wait = answer.headers.get("Retry-After");
    return `The service is busy with requests of this key. Try again in ${wait ?? "a few"} seconds.`;
  }
  try {
    const problem = await answer.json();
    if (answer.status === 403) return problem.detail;
    return `${problem.title}. ${problem.detail}`;
  } catch {
    return `The service answered with status ${answer.status}. Try again in a moment.`;
  }
}
