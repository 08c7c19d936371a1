// Find a person by the exact id, see what may be shown, and erase them.

import { ask } from "./api.js";
import { confirmed } from "./confirm.js";
import { $, count, make, say, terms } from "./dom.js";

// Others would be another path.
const ID = /^\.*[A-Za-z0-9_:@-][A-Za-z0-9_.:@-]{0,127}$/;
const SCOPE = "This key does not have the scope people, which finds and erases people. Sign in with a key that has it.";

let state = null, found = null;

export function showPerson(current) {
  state = current;
  const may = state.key.scopes.includes("people");
  $("person-id").disabled = $("person-find").disabled = !may;
  if (!may) say($("person-note"), SCOPE);
}

export function setUpPerson() {
  $("person-form").addEventListener("submit", (event) => { event.preventDefault(); find($("person-id").value.trim()); });
  $("erase").addEventListener("click", erase);
}

async function find(id) {
  show(null);
  if (!ID.test(id) || id.length > 128) {
    say($("person-note"), "An id has 1 to 128 letters, digits or any of _ . : @ -, and not only dots. Type it as your app has it.", "bad");
    return;
  }
  try {
    show(await ask(`/v1/people/${encodeURIComponent(id)}`));
    say($("person-note"), "");
    $("person-name").focus();
  } catch (refusal) {
    say($("person-note"), refusal.status === 404 ? `Nobody has the id ${id}. Ids are compared letter by letter.` : refusal.message, "bad");
  }
}

function show(person) {
  found = person;
  $("person-found").hidden = !person;
  if (!person) return;
  const { published, tags, blocked } = person;
  const side = (metres, [positive, negative]) => `${count(Math.round(Math.abs(metres)))}\u00a0m ${metres < 0 ? negative : positive}`;
  $("person-name").textContent = person.id;
  $("person-terms").replaceChildren(...terms([
    ["Created", new Date(person.created).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })],
    ["On the map", published === null ? "No. Nothing is published of this person."
      : `Yes, ${side(published.x_m, ["east", "west"])} and ${side(published.y_m, ["north", "south"])} of the middle of the region. `
        + "Noise is in it, as in every answer."],
    ["Tags", tags.length ? tags.join(", ") : "none"],
    ["Has blocked", !blocked.length ? "nobody" : blocked.length === 1 ? "1 person" : `${count(blocked.length)} people`],
    ["Ledger", `At most ${count(state.ledger.budget_per_person)} new places in a window, as for everybody.`],
  ]));
}

async function erase() {
  const { id } = found;
  const sure = await confirmed({
    title: `Erase ${id}?`,
    points: [
      "Everything that the store holds about this person goes at once: published and waiting locations, keyed tags, tags and blocks. Nobody finds them any more.",
      "Their tokens are void, and their phone's reports are refused.",
      "The ledger keeps an anonymous total, and a keyed hash of the id until the window ends. Who is created anew with this id is published from the next window on.",
      "Backups that were made before still hold the person, and so do PostgreSQL's logs for a while. The audit log keeps that it was done, with a hashed id.",
      "This cannot be undone.",
    ],
    action: `Erase ${id}`,
  });
  if (!sure) return;
  try {
    await ask(`/v1/people/${encodeURIComponent(id)}`, undefined, "DELETE");
    show(null);
    say($("person-note"), `${id} is erased.`, "good");
    $("person-id").value = "";
    $("person-id").focus();
  } catch (refusal) {
    say($("person-note"), refusal.message, "bad");
  }
}

export function findPerson(id) {
  $("person-id").value = id;
  $("person").scrollIntoView();
  find(id);
}

export function forgetPerson() {
  show(null);
  $("person-id").value = "";
  say($("person-note"), "");
}
