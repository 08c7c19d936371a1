// Who asked many questions in epochs that have ended; a list that is asked for, because each look is logged.

import { ask } from "./api.js";
import { findPerson } from "./person.js";
import { $, count, make, say } from "./dom.js";

export function showAskers({ key }) {
  const may = key.scopes.includes("people");
  $("askers-list").disabled = !may;
  if (!may) say($("askers-note"), "This key does not have the scope people, which names people. Sign in with a key that has it.");
}

export function setUpAskers() {
  $("askers-list").addEventListener("click", list);
}

async function list() {
  try {
    const { epochs, many_questions: many, number, askers } = await ask("/v1/console/askers");
    $("askers-table").hidden = !askers.length;
    $("askers-table").querySelector("tbody").replaceChildren(...askers.map(row));
    const time = epochs === 1 ? "1 ended epoch" : `${count(epochs)} ended epochs`;
    say($("askers-note"), !epochs ? "No epoch has ended since this process started. Look again after the next one."
      : !number ? `Nobody asked ${count(many)} questions or more in any of ${time}.`
        : `${number === 1 ? "1 person" : `${count(number)} people`} asked ${count(many)} questions or more in one of ${time}.`
          + (number > askers.length ? ` The ${count(askers.length)} with the most are shown.` : ""));
  } catch (refusal) {
    say($("askers-note"), refusal.message, "bad");
  }
}

function row({ id, epochs, questions }) {
  const button = make("button", { type: "button", className: "link", textContent: id });
  button.setAttribute("aria-label", `Find ${id}`);
  button.addEventListener("click", () => findPerson(id));
  return make("tr", {}, make("th", { scope: "row" }, button),
    make("td", { className: "number", textContent: count(epochs) }), make("td", { className: "number", textContent: count(questions) }));
}

export function forgetAskers() {
  $("askers-table").hidden = true;
  $("askers-table").querySelector("tbody").replaceChildren();
  say($("askers-note"), "");
}
