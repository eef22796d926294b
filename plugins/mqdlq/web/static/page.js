// The theme that Airflow stores for its own pages, and links that leave the frame.
"use strict";

function followTheme() {
  let theme = null;
  try {
    theme = localStorage.getItem("theme");
  } catch {
    // Storage is closed to this page: the browser's preference applies.
  }
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  } else {
    delete document.documentElement.dataset.theme;
  }
}

followTheme();
addEventListener("storage", (event) => {
  if (event.key === "theme") followTheme();
});

// A box with data-all selects or clears all others of its form.
addEventListener("change", (event) => {
  if (!event.target.matches?.("input[data-all]")) return;
  for (const box of event.target.form.querySelectorAll("input[type=checkbox]")) box.checked = event.target.checked;
});

// Airflow shows the page in a frame that may not navigate the window. A link to Airflow's own pages
// is followed by the window itself: the link is put into its document, and clicked there.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[target=_top]");
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!link || window.top === window || !isPlain) return;
  event.preventDefault();
  const document = window.top.document;
  const copy = document.createElement("a");
  copy.href = link.href;
  document.body.append(copy);
  copy.click();
  copy.remove();
});

// Times in the browser's zone, with UTC as their title: all that a page says in UTC, and no input or code.
const MOMENTS = /(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?)(?: to (?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d:\d\d))? UTC/g;
function localTime(date, time) {
  const timeStyle = time.length > 5 ? "medium" : "short";
  return new Date(`${date}T${time}Z`).toLocaleString("sv-SE", { dateStyle: "short", timeStyle });
}
function showLocalTimes(root) {
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) found.push(texts.currentNode);
  for (const text of found) {
    const moments = [...text.data.matchAll(MOMENTS)];
    if (!moments.length || text.parentElement.closest("time, svg, pre, code, textarea, select, script")) continue;
    const parts = document.createDocumentFragment();
    let at = 0;
    for (const moment of moments) {
      const [whole, date, from, untilDate, until] = moment;
      const time = document.createElement("time");
      time.title = whole;
      time.textContent = localTime(date, from);
      if (until) {
        const end = localTime(untilDate ?? date, until);
        time.textContent += " to " + (end.slice(0, 10) === time.textContent.slice(0, 10) ? end.slice(11) : end);
      }
      parts.append(text.data.slice(at, moment.index), time);
      at = moment.index + whole.length;
    }
    parts.append(text.data.slice(at));
    text.replaceWith(parts);
  }
}

// A table that is wider than its frame shows each row below the one before, with the names of its columns.
function fitTables(root) {
  for (const table of root.querySelectorAll(".wide > table:not(.lines, .source)")) {
    table.classList.remove("stacked");
    if (table.parentElement.scrollWidth <= table.parentElement.clientWidth) continue;
    const names = [...table.querySelectorAll("thead tr:last-child > *")].map((name) => name.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      const isWhole = row.cells.length === names.length;
      for (const [at, cell] of [...row.cells].entries()) cell.dataset.column = (isWhole && names[at]) || "";
    }
    table.classList.add("stacked");
  }
}
addEventListener("resize", () => fitTables(document));
for (const show of [showLocalTimes, fitTables]) {
  addEventListener("DOMContentLoaded", () => show(document));
  addEventListener("htmx:load", (event) => show(event.target));
}

// A part that follows a run asks again only while somebody can see it.
addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches?.("[data-live]")) event.preventDefault();
});

// The page around a part that has come further is loaded again, once.
addEventListener("htmx:load", (event) => {
  if (event.target.matches?.("[data-stale]")) location.reload();
});

// Keys of the inbox: j and k go through its rows, x selects one, ? shows the keys; Enter follows the link.
addEventListener("keydown", (event) => {
  const rows = [...document.querySelectorAll("ol.inbox > li:has(a)")];
  const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey;
  const isField = event.target.matches?.("input:not([type=checkbox]), select, textarea");
  if (!rows.length || !isPlain || isField) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  if (event.key === "j" || event.key === "k") {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : -1)))];
    next.querySelector("a").focus();
    next.scrollIntoView({ block: "nearest" });
  } else if (event.key === "x" && at >= 0) {
    const box = rows[at].querySelector("input[type=checkbox]");
    if (box) box.checked = !box.checked;
  } else if (event.key === "?") {
    document.querySelector("dialog#keys").showModal();
  }
});
