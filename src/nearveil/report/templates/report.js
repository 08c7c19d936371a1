"use strict";
(() => {
  const root = document.documentElement;
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkness.matches);

  function themeButton() {
    const button = document.getElementById("theme");
    const name = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colors`);
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      name();
    });
    darkness.addEventListener("change", name);
    name();
  }

  function contents() {
    const wide = matchMedia("(min-width: 1080px)");
    const details = document.querySelector("nav details");
    const fit = () => { details.open = wide.matches; };
    fit();
    wide.addEventListener("change", fit);
    details.addEventListener("click", (event) => {
      if (event.target.closest("a") && !wide.matches) details.open = false;
    });
    const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
    const sections = [...document.querySelectorAll("main > section")];
    const mark = () => {
      const passed = sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get((passed.at(-1) || sections[0]).id)?.setAttribute("aria-current", "true");
    };
    addEventListener("scroll", mark, { passive: true });
    mark();
  }

  // What scrolls must be reached by keyboard.
  function scrollers() {
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    themeButton();
    contents();
    scrollers();
    addEventListener("resize", scrollers);
  });
})();
