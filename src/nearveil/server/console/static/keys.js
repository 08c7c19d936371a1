// Platform keys: which there are and what they may do, a new one whose secret is shown once, and the end of one.

import { ask } from "./api.js";
import { confirmed } from "./confirm.js";
import { $, make, say } from "./dom.js";

let own = null, leave = null;

export function setUpKeys(signOut) {
  leave = signOut;
  $("key-form").addEventListener("submit", (event) => { event.preventDefault(); create(); });
  $("key-copy").addEventListener("click", copy);
  $("key-done").addEventListener("click", () => { forgetSecret(); $("key-name").focus(); });
}

export async function showKeys({ key, scopes }) {
  own = key;
  $("key-scopes").replaceChildren(...scopes.map(({ name, about }) => {
    const box = make("input", { type: "checkbox", name: "scope", value: name, disabled: !key.scopes.includes(name) });
    return make("label", {}, box, make("span", {}, make("b", { textContent: name }), ` ${about}${box.disabled ? " (this key cannot give it)" : ""}`));
  }));
  await list();
}

async function list() {
  try {
    const { keys } = await ask("/v1/platform-keys");
    const isLast = keys.filter(({ scopes }) => scopes.includes("admin")).length === 1;
    $("keys-table").querySelector("tbody").replaceChildren(...keys.map((key) => row(key, isLast && key.scopes.includes("admin"))));
  } catch (refusal) {
    say($("keys-note"), refusal.message, "bad");
  }
}

function row({ name, scopes }, stays) {
  const revoke = make("button", { type: "button", textContent: "Revoke", className: "danger" });
  revoke.setAttribute("aria-label", `Revoke the key ${name}`);
  revoke.addEventListener("click", () => remove(name));
  return make("tr", {}, make("th", { scope: "row", textContent: name === own.name ? `${name} (yours)` : name }),
    make("td", { textContent: scopes.join(", ") }),
    make("td", {}, stays ? make("span", { className: "small", textContent: "stays: the last with admin" }) : revoke));
}

async function create() {
  const name = $("key-name").value.trim();
  const scopes = [...$("key-scopes").querySelectorAll("input:checked")].map(({ value }) => value);
  forgetSecret();
  if (!/^\.*[A-Za-z0-9_-][A-Za-z0-9_.-]*$/.test(name) || name.length > 64) {
    say($("keys-note"), "A key's name has 1 to 64 letters, digits or any of _ . -, and not only dots. Choose such a name.", "bad");
    $("key-name").focus();
    return;
  }
  if (!scopes.length) {
    say($("keys-note"), "A key without a scope may do nothing. Choose at least one.", "bad");
    return;
  }
  try {
    const made = await ask(`/v1/platform-keys/${encodeURIComponent(name)}`, { scopes });
    say($("keys-note"), `The key ${made.name} is made. Copy it now: it is shown this once and kept nowhere.`, "good");
    $("key-secret").value = made.key;
    $("key-made").hidden = false;
    $("key-form").reset();
    $("key-secret").focus();
    $("key-secret").select();
    await list();
  } catch (refusal) {
    say($("keys-note"), refusal.message, "bad");
  }
}

async function copy() {
  $("key-secret").select();
  try {
    await navigator.clipboard.writeText($("key-secret").value);
    say($("keys-note"), "The key is copied.", "good");
  } catch {
    say($("keys-note"), "This browser does not let the page copy. The key is selected: press Ctrl+C.", "bad");
  }
}

async function remove(name) {
  const mine = name === own.name;
  const sure = await confirmed({
    title: `Revoke the key ${name}?`,
    points: [
      ...mine ? ["You are signed in with this key: the console is closed."] : [],
      "Programs that use it are refused at once, and within five seconds by other processes on the same database.",
      "Tokens that it signed for people stay valid until they expire, or until that person's tokens are revoked.",
      "This cannot be undone. A new key of the same name has another secret.",
    ],
    action: `Revoke ${name}`,
  });
  if (!sure) return;
  try {
    await ask(`/v1/platform-keys/${encodeURIComponent(name)}`, undefined, "DELETE");
    if (mine) { leave(); return; }
    await list();
    say($("keys-note"), `The key ${name} is revoked.`, "good");
    $("keys-title").focus();
  } catch (refusal) {
    say($("keys-note"), refusal.message, "bad");
  }
}

function forgetSecret() {
  $("key-secret").value = "";
  $("key-made").hidden = true;
  say($("keys-note"), "");
}

export function forgetKeys() {
  forgetSecret();
  $("keys-table").querySelector("tbody").replaceChildren();
}
