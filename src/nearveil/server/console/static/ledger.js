// The ledger's state, and the time until the next epoch boundary.

import { $, count, duration, make, moment } from "./dom.js";

let state = null, ahead = 0;

export function showLedger(found) {
  state = found;
  // The service's clock counts, whatever this machine's says.
  ahead = found.now - Date.now() / 1000;
  const { ledger } = state;
  const tile = (term, number, note) => make("div", {}, make("dt", { textContent: term }),
    make("dd", { textContent: number }), make("dd", { className: "note", textContent: note }));
  const countdown = make("span", { id: "countdown" });
  countdown.setAttribute("role", "timer");
  $("tiles").replaceChildren(
    tile("People", count(ledger.people), "known to the service"),
    tile("Published", count(ledger.published), "on the map now"),
    tile("New places", count(ledger.budget_per_person), "of a person in a window, at most"),
    tile("Questions", count(state.questions), "since this process started"),
    make("div", {}, make("dt", { textContent: "Next epoch in" }), make("dd", {}, countdown),
      make("dd", { className: "note", textContent: `epoch ${count(state.epoch.number)} ends` })));
  tick();
}

// Whether the next epoch has begun since the state was asked for.
export function tick() {
  if (!state) return false;
  const left = state.epoch.next_epoch_at - (Date.now() / 1000 + ahead);
  $("countdown").textContent = left > 0 ? duration(left) : "now";
  const done = Math.min(1, Math.max(0, 1 - left / state.epoch.length_s));
  $("epoch-done").style.width = `${(100 * done).toFixed(2)}%`;
  $("epoch-text").textContent = `Next epoch: ${moment(state.epoch.next_epoch_at)}. Budgets start anew when window `
    + `${count(state.window.number)} ends, ${moment(state.window.ends)}.`;
  return left <= 0;
}
