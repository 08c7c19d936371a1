// A question before something that cannot be undone: what it does, and a way back that has the focus.

import { $, make } from "./dom.js";

// Resolves to whether it was confirmed; points are sentences, and action is what the button says.
export function confirmed({ title, points, action }) {
  const dialog = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-points").replaceChildren(...points.map((textContent) => make("li", { textContent })));
  $("confirm-yes").textContent = action;
  dialog.returnValue = "";
  dialog.showModal();
  $("confirm-no").focus();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
  });
}

export function setUpConfirm() {
  $("confirm-yes").addEventListener("click", () => $("confirm").close("yes"));
  $("confirm-no").addEventListener("click", () => $("confirm").close());
}
