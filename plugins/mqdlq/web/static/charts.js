// Draw each chart from the table beside it, which stays as its text alternative.
"use strict";

const NAMES = ["--forwarded", "--exhausted", "--delivered", "--unprocessable", "--discarded", "--pending", "--unmatched", "--away", "--idle"];

function colour(name) {
  // A custom property keeps light-dark() as text; a colour property has its value.
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function shortened(labels) {
  // An axis has space for the month and day of "2026-11-22 12:00"; of a few days, also for the time.
  const days = new Set(labels.map((label) => label.slice(0, 10)));
  const dated = /^\d{4}-(\d\d-\d\d)( \d\d:\d\d)?$/;
  return labels.map((label) => label.replace(dated, (_, day, time) => (time && days.size < 5 ? day + time : day)));
}

function draw(section) {
  const table = section.querySelector("table");
  if (!table) return;
  const [, ...names] = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  // The table leaves out periods without numbers; the axis has all of them.
  const labels = section.dataset.labels.split("\n");
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.cells[0].textContent, row]));
  const value = (cell) => (!cell || cell.dataset.value === "" ? null : Number(cell.dataset.value));
  const series = names.map((name, at) => labels.map((label) => value(rows.get(label)?.cells[at + 1])));
  const greatest = series.map((values) => Math.max(...values));
  const kind = section.dataset.chart;
  const isStacked = kind === "stacked";
  const isRanking = kind === "ranking";
  const canvas = section.querySelector("canvas");
  const line = colour("--line");
  const ink = colour("--quiet");
  // A series that would flatten the first one is hidden until its legend is clicked.
  const isHidden = (at) => !isStacked && greatest[at] > 5 * greatest[0] && greatest[0] > 0;
  const legend = { color: ink, boxWidth: 12, usePointStyle: kind === "line", pointStyle: "line" };
  const ticks = shortened(labels);
  const categories = { stacked: isStacked, ticks: { color: ink, maxRotation: 0, autoSkip: !isRanking, autoSkipPadding: 12, callback: (at) => ticks[at] }, grid: { display: false } };
  const values = { stacked: isStacked, beginAtZero: true, ticks: { color: ink, precision: isRanking ? 0 : undefined }, grid: { color: line } };
  section.querySelector(".chart").hidden = false;
  section.querySelector("details").open = isRanking; // its rows lead to the messages
  Chart.getChart(canvas)?.destroy();
  new Chart(canvas, {
    type: kind === "line" ? "line" : "bar",
    data: {
      labels,
      datasets: names.map((name, at) => ({
        label: name,
        data: series[at],
        hidden: isHidden(at),
        backgroundColor: colour(NAMES[at % NAMES.length]),
        borderColor: colour(NAMES[at % NAMES.length]),
        borderWidth: kind === "line" ? 2 : 0,
        borderDash: kind === "line" && at > 0 ? [6, 4] : [],
        pointRadius: 3,
        spanGaps: true,
      })),
    },
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      color: ink,
      interaction: { mode: "index", axis: isRanking ? "y" : "x", intersect: false },
      plugins: { legend: { display: names.length > 1, labels: legend } },
      indexAxis: isRanking ? "y" : "x",
      scales: isRanking ? { x: values, y: categories } : { x: categories, y: values },
    },
  });
}

function drawAll() {
  document.querySelectorAll("[data-chart]").forEach(draw);
}

drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
