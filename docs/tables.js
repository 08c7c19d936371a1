// Wide tables can be scrolled with the keyboard, too.
addEventListener("load", () => setTimeout(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) Object.assign(table, { tabIndex: 0, role: "region", ariaLabel: "table" });
  }
}, 300));
