"""Show the documents at the top of the repository on the site, and make every link work there.

Documents link to files as a repository browser resolves it. A link to a page of the site leads to
that page; a link to another file of the project leads to the repository that ``extra.repository``
names, and without one only its text remains. MkDocs calls the functions that begin with ``on_``.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = {
    "ARCHITECTURE.md": "repository/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "README.md": "repository/readme.md",
    "SECURITY.md": "contributing/security.md",
    "embedded_mq/README.md": "reference/embedded-mq.md",
}
"""Documents outside the directory of the site's pages, and where they are on the site."""
_DOCUMENTS: Final = {page: document for document, page in PAGES.items()}
_LINK: Final = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
_CODE: Final = re.compile(r"^(?:```+|~~~+).*?^(?:```+|~~~+)\s*$", re.MULTILINE | re.DOTALL)

_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; img-src 'self'"
    " data:; style-src 'self' 'unsafe-inline'; form-action 'none'; frame-src 'none';"
    " object-src 'none'"
)

log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the top of the repository."""
    for document, page in PAGES.items():
        text = (ROOT / document).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    sys.path.append(str(ROOT))
    from tests.support.docs.browser_page import page_files  # noqa: PLC0415 (needs the product)

    for name, found in page_files():
        if isinstance(found, Path):
            files.append(File.generated(config, f"try/{name}", abs_src_path=str(found)))
        else:
            files.append(File.generated(config, f"try/{name}", content=found))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 (MkDocs)
    """Have browsers keep the page that takes users' data from talking to anybody else."""
    if page.file.src_uri != "try/index.md":
        return output
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    return output.replace("<head>", f"<head>{policy}", 1)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page's text with the parts that only the site has, and the links of the site."""
    if "<!-- built: " in markdown:
        from tests.support.docs.pages import built  # noqa: PLC0415 (few pages need the product)

        markdown = built(markdown)
    code = [found.span() for found in _CODE.finditer(markdown)]

    def link(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in code):
            return found[0]
        target = _target(found[2], page, config, files)
        return f"{found[1]}({target})" if target else found[1].strip("[]")

    return _LINK.sub(link, markdown)


def _target(target: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return where a link leads on the site, "" for a file that the site does not have."""
    path, _, anchor = target.partition("#")
    if not path or ":" in path:
        return target
    uri = page.file.src_uri
    document = _DOCUMENTS.get(uri, f"docs/{uri}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(document), path))
    there = PAGES.get(path, path.removeprefix("docs/"))
    if (path in PAGES or path.startswith("docs/")) and files.get_file_from_path(there):
        relative = posixpath.relpath(there, posixpath.dirname(uri) or ".")
        return f"{relative}#{anchor}" if anchor else relative
    if not (ROOT / path).exists():
        log.warning("%s links to %s, which is not in the project", document, target)
    repository = config.extra["repository"]
    return f"{repository}/{path}" if repository else ""
