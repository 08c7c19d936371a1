// What scrolls sideways, wide tables and long code, can be scrolled with the keyboard, too.
addEventListener("load", () => setTimeout(() => {
  const isWide = each => each.scrollWidth > each.clientWidth;
  for (const [at, table] of [...document.querySelectorAll(".md-typeset__scrollwrap")].filter(isWide).entries()) {
    Object.assign(table, { tabIndex: 0, role: "region", ariaLabel: `wide table ${at + 1}` });
  }
  for (const code of [...document.querySelectorAll(".md-typeset pre > code")].filter(isWide)) code.tabIndex = 0;
  document.documentElement.dataset.scrolling = "ready";
}, 300));
