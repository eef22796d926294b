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
