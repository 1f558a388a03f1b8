"""What the site needs beyond MkDocs: folders in the navigation, and links that leave the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LINK: Final = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?\)")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages of a folder, sorted by title, in the place of an entry such as ``how-to/``."""
    pages = [file.src_uri for file in files.documentation_pages()]
    config.nav = _expanded(config.nav, pages, Path(config.docs_dir))
    return files


def _expanded(entry: Any, pages: list[str], docs: Path) -> Any:
    if isinstance(entry, list):
        return [_expanded(part, pages, docs) for part in entry]
    if isinstance(entry, dict):
        return {name: _expanded(part, pages, docs) for name, part in entry.items()}
    if isinstance(entry, str) and entry.endswith("/"):
        found = [page for page in pages if page.startswith(entry)]
        # Decisions have numbers, other pages have none: they stand by their titles.
        return sorted(found, key=lambda page: (page if _numbered(page) else "", _title(docs / page)))
    return entry


def _numbered(page: str) -> bool:
    return page.rpartition("/")[2][:4].isdigit()


def _title(path: Path) -> str:
    found = _TITLE.search(path.read_text(encoding="utf-8"))
    return found[1] if found else path.stem


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Name what the repository holds outside ``docs/``, such as an example: the site has no page of it."""
    docs = Path(config.docs_dir).resolve()
    folder = (docs / page.file.src_uri).parent

    def named(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        path = target.relative_to(docs.parent).as_posix()
        return f"`{path}`" if found[1].strip("`") in (path, target.name) else f"{found[1]} (`{path}`)"

    return _LINK.sub(named, markdown)
