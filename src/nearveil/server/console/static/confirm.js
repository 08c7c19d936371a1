// A question before something that cannot be undone: what it does, and a way back that has the focus.

import { $, make } from "./dom.js";

// Resolves to whether it was confirmed; points are sentences, and action is what the button says.
export function confirmed({ title, points, action }) {
  const dialog = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-points").replaceChildren(...points.map((textContent) => make("li", { textContent })));
  $("confirm-yes").textContent = action;
  dialog.showModal();
  $("confirm-no").focus();
  return new Promise((done) => {
    $("confirm-yes").onclick = () => { done(true); dialog.close(); };
    $("confirm-no").onclick = () => dialog.close();
    // The event of an earlier closing may arrive when the dialog is open again.
    dialog.onclose = () => { if (!dialog.open) done(false); };
  });
}
