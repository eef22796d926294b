// Runs mqdlq's own commands on what is pasted, by Python in this page. Nothing is sent.

const START = `
from click.testing import CliRunner
from mqdlq.cli import app

def run(*arguments):
    done = CliRunner().invoke(app, arguments)
    return done.stdout, done.stderr
`;
const TABLE = "table.rules";
const DUMP = "messages.txt";

const element = (id) => document.getElementById(id);
const form = element("try");
const status = element("try-status");
const results = element("try-results");

async function ownFile(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer;
}

let python;

async function startPython() {
  status.textContent = "Starting Python: 13 MB, once";
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", import.meta.url));
  const commands = ownFile("mqdlq.zip").then((answer) => answer.arrayBuffer());
  const started = await loadPyodide();
  started.unpackArchive(await commands, "zip");
  started.runPython(START);
  return started;
}

function add(parent, name, text, kind = "") {
  const child = document.createElement(name);
  child.textContent = text;
  if (kind) child.className = kind;
  parent.append(child);
  return child;
}

const counted = (number, noun) => `${number || "no"} ${noun}${number === 1 ? "" : "s"}`;

// The line of this number; of a rule, all its lines.
function lineAt(text, number) {
  return text.split("\n")[number - 1].trim();
}

function ruleAt(text, number) {
  const line = lineAt(text, number);
  return /[+-]$/.test(line) ? `${line.slice(0, -1).trim()} ${ruleAt(text, number + 1)}` : line;
}

function showFindings(checked, table) {
  add(results, "h2", "The table");
  const [found] = JSON.parse(checked).files;
  const verdict = found.valid ? `valid, ${counted(found.rules.length, "rule")}` : "rejected: it has an error";
  add(results, "p", `${verdict}; ${counted(found.diagnostics.length, "finding")}`);
  const list = add(results, "ul", "", "try-findings");
  for (const one of found.diagnostics) {
    const item = add(list, "li", "", `try-${one.severity}`);
    add(item, "strong", `${one.severity}, line ${one.line}, column ${one.column}: `);
    add(item, "span", one.message);
    if (lineAt(table, one.line)) add(item, "code", lineAt(table, one.line));
  }
  return found.valid;
}

// The texts of decode and explain, each cut where a message begins.
const messagesIn = (text, start) => text.split(start).filter((part) => part.trim());

function showMessages(decoded, explained, verdicts, table) {
  add(results, "h2", "The messages");
  if (verdicts.length) {
    const rows = add(add(results, "div", "", "try-verdicts"), "table", "");
    const head = add(rows, "tr", "");
    for (const title of ["message", "what it is", "rule that takes it"]) add(head, "th", title);
    verdicts.forEach((one, at) => {
      const row = add(rows, "tr", "");
      add(row, "td", `${at + 1}`);
      add(row, "td", decoded[at].split("\n")[one.class ? 0 : 1]);
      const [first] = one.chain;
      const none = one.class ? "none: rules apply to dead letters only" : "none: it stays";
      add(row, "td", first ? `line ${first}: ${ruleAt(table, first)}` : none);
    });
  }
  decoded.forEach((text, at) => {
    const box = add(results, "details", "", "try-message");
    box.open = at === 0;
    add(box, "summary", (explained[at] ?? text).split("\n")[0]);
    if (explained[at]) add(box, "pre", explained[at].split("\n").slice(1).join("\n"), "try-why");
    add(box, "pre", text, "try-headers");
  });
}

function showError(text) {
  if (text.trim()) add(results, "pre", text.trim(), "try-problem");
}

async function check() {
  const table = `${element("try-table").value.trimEnd()}\n`;
  const dump = element("try-dump").value;
  python ??= await startPython();
  status.textContent = "";
  results.replaceChildren();
  python.FS.writeFile(TABLE, table);
  python.FS.writeFile(DUMP, dump);
  const run = (...words) => python.globals.get("run")(...words).toJs();
  let isValid = false;
  if (table.trim()) {
    isValid = showFindings(run("rules", "check", "--format", "json", TABLE)[0], table);
  }
  if (!dump.trim()) return;
  const [decoded, refused] = run("decode", DUMP);
  showError(refused);
  if (refused) return;
  let explained = "";
  let verdicts = [];
  if (isValid) {
    const [text, warnings] = run("explain", "--rules", TABLE, DUMP);
    showError(warnings);
    explained = text;
    const lines = run("explain", "--format", "json", "--rules", TABLE, DUMP)[0];
    verdicts = lines.trim().split("\n").map((line) => JSON.parse(line));
  }
  showMessages(
    messagesIn(decoded, /\n\n(?=\w+: \d+ bytes?, from line )/),
    messagesIn(explained, /\n(?=message \d+, from line )/),
    verdicts,
    table,
  );
}

async function guarded(work) {
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  try {
    await work();
  } catch (error) {
    status.textContent = `This did not work: ${error.message}`;
  }
  for (const button of buttons) button.disabled = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(check);
});
element("try-example").addEventListener("click", () =>
  guarded(async () => {
    element("try-table").value = await (await ownFile("example.rules")).text();
    element("try-dump").value = await (await ownFile("example.txt")).text();
  }),
);

if ((await fetch(new URL("mqdlq.zip", import.meta.url), { method: "HEAD" })).ok) {
  element("try-absent").remove();
  form.hidden = false;
}
