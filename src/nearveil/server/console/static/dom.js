// Elements of the page, and numbers as text.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const count = (number) => number.toLocaleString("en");

export function length(metres) {
  if (metres >= 10000) return `${count(Math.round(metres / 1000))}\u00a0km`;
  if (metres >= 2500) return `${(metres / 1000).toFixed(1)}\u00a0km`;
  return metres >= 9.95 ? `${count(Math.round(metres))}\u00a0m` : `${metres.toFixed(1)}\u00a0m`;
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days}\u00a0d ${hours}\u00a0h`;
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function moment(seconds) {
  return new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

// A note that is read aloud, written only when it changes; kind is "good", "bad" or nothing.
export function say(note, text, kind = "") {
  note.className = `note ${kind}`;
  if (note.textContent !== text) note.textContent = text;
}

// Terms and what they are, for a list of definitions.
export const terms = (pairs) => pairs.map(([term, text]) => make("div", {}, make("dt", { textContent: term }), make("dd", { textContent: text })));
