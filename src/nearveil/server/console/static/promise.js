// The guarantee card in plain words.

import { $, make } from "./dom.js";

export function showPromise(card) {
  $("loud").hidden = card.holds;
  const text = "A claim on the guarantee card does not hold. Read it below before anybody relies on this service.";
  // Written only when it changes, so that it is read aloud once.
  if ($("loud").textContent !== text) $("loud").textContent = text;
  $("statements").replaceChildren(...card.statements.map(statement));
  const notes = card.notes.map((text) => make("li", { textContent: text }));
  $("promise-notes").replaceChildren(...notes.length ? [make("h3", { textContent: "Besides" }), make("ul", {}, ...notes)] : []);
  $("card").textContent = card.text;
}

function statement({ title, holds, terms, by_distance: byDistance }) {
  const list = make("dl", {});
  for (const { term, text } of terms) list.append(make("dt", { textContent: term }), make("dd", { textContent: text }));
  const article = make("article", { className: holds ? "statement" : "statement broken" },
    make("h3", { textContent: holds ? title : `${title}: this protects nobody` }), list);
  if (byDistance.length) {
    article.append(make("p", { className: "small", textContent: "Somebody who held two places equally likely can become so sure "
      + "of one of them, at most:" }), make("dl", { className: "sure" }, ...byDistance.map(sure)));
  }
  return article;
}

function sure({ apart, sure_percent: percent }) {
  const hidden = percent !== null;
  const bar = make("b");
  // From a coin's toss, 50 %, to certainty.
  bar.style.width = `${hidden ? 2 * (percent - 50) : 100}%`;
  const text = hidden ? `${percent.toFixed(1)} %` : "not hidden";
  return make("div", { className: hidden ? "" : "bare" }, make("dt", { textContent: `${apart} apart` }),
    make("dd", {}, make("i", {}, bar), make("span", { textContent: text })));
}
