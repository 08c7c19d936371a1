
"use strict";
(() => {
  const root = document.documentElement;
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const wide = matchMedia("(min-width: 1080px)");

  const theme = () => root.dataset.theme || (darkness.matches ? "dark" : "light");

  function themeButton() {
    const button = document.getElementById("theme");
    const say = () => {
      const other = theme() === "dark" ? "light" : "dark";
      button.textContent = other === "dark" ? "Dark" : "Light";
      button.setAttribute("aria-label", `Switch to ${other} colours`);
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = theme() === "dark" ? "light" : "dark";
      say();
    });
    darkness.addEventListener("change", say);
    say();
  }

  function contents() {
    const details = document.querySelector("nav details");
    const fit = () => { details.open = wide.matches; };
    fit();
    wide.addEventListener("change", fit);
    addEventListener("beforeprint", () => { details.open = true; });
    addEventListener("afterprint", fit);
    details.addEventListener("click", (event) => {
      if (event.target.closest("a") && !wide.matches) details.open = false;
    });
  }

  function whereWeAre() {
    const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
    const sections = [...document.querySelectorAll("main > section")];
    const mark = () => {
      const passed = sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
      const here = links.get((passed.at(-1) || sections[0])?.id);
      if (!here || here.hasAttribute("aria-current")) return;
      for (const link of links.values()) link.removeAttribute("aria-current");
      here.setAttribute("aria-current", "true");
      const box = here.closest("nav");
      const [top, low] = [here.offsetTop, here.offsetTop + here.offsetHeight];
      if (wide.matches && (top < box.scrollTop || low > box.scrollTop + box.clientHeight)) box.scrollTop = top - 60;
    };
    addEventListener("scroll", mark, { passive: true });
    mark();
  }

  // What can be scrolled must be reached by keyboard; what cannot should not be in the way.
  function scrollers() {
    for (const box of document.querySelectorAll(".scroll")) {
      const overflows = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      if (overflows) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const asPrinted = [...body.rows];
    const headers = [...table.querySelectorAll("th[data-column]")];
    const next = { none: "ascending", ascending: "descending", descending: "none" };

    function sort(header) {
      const order = next[header.getAttribute("aria-sort") || "none"];
      const number = Number(header.dataset.column);
      // Only what is not sorted by its text says what it is sorted by.
      const value = ({ cells }) => cells[number].dataset.value ?? cells[number].textContent;
      const compare = header.dataset.kind === "number"
        ? (one, other) => Number(one) - Number(other)
        : (one, other) => one.localeCompare(other, "en", { numeric: true });
      const rows = asPrinted.map((row) => [value(row), row]);
      if (order !== "none") {
        // Empty cells stay at the end, whichever way; equal ones stay in the order of the page.
        rows.sort(([one], [other]) => (one === "") - (other === "")
          || (order === "ascending" ? compare(one, other) : compare(other, one)));
      }
      for (const each of headers) each.removeAttribute("aria-sort");
      if (order !== "none") header.setAttribute("aria-sort", order);
      body.append(...rows.map(([, row]) => row));
    }

    for (const header of headers) header.querySelector("button").addEventListener("click", () => sort(header));
  }

  async function unpacked(packed) {
    const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }
  window.unpacked = unpacked;

  // Drawings and files are packed, to a tenth of their size.
  function unpackAll() {
    for (const element of document.querySelectorAll("[data-packed]")) {
      unpacked(element.dataset.packed).then((text) => {
        if (element.tagName === "IMG") element.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
        else element.href = `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;
        element.removeAttribute("data-packed");
      });
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    unpackAll();
    themeButton();
    contents();
    whereWeAre();
    document.querySelectorAll("figure.table table").forEach(sortable);
  });
  // Pictures have their sizes by then.
  addEventListener("load", () => {
    scrollers();
    addEventListener("resize", scrollers);
  });
})();
