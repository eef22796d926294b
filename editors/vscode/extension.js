// Starts `mqdlq lsp` for rules tables and for the YAML files that are handlers.
"use strict";

const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

async function activate() {
  const settings = workspace.getConfiguration("mqdlq");
  const command = settings.get("command", "mqdlq");
  client = new LanguageClient(
    "mqdlq",
    "mqdlq",
    { command, args: ["lsp"] },
    {
      documentSelector: [
        { language: "mqdlq-rules" },
        { language: "yaml", pattern: settings.get("handlers", "") },
      ],
    },
  );
  try {
    await client.start();
  } catch {
    window.showErrorMessage(
      `'${command} lsp' did not start: run pip install 'mqdlq[lsp]', and name the program in the setting mqdlq.command`,
    );
  }
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
