"""What the pages say is so: links lead somewhere, declarations are accepted, commands and options exist."""

import ast
import re
import shlex
import sys
from importlib import import_module

import click
import markdown
import pytest
import yaml
from harness import pages
from harness.project import ROOT

from kedro_lakehouse import plugins
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.cli.run import cli
from kedro_lakehouse.config.grants import load_grants
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.tables import QUARANTINE_REASONS

pytestmark = pytest.mark.unit

PAGES = pages.pages()
FILE = re.compile(r"\b(sources|tables|catalog|globals|spark)\.yml")
HEADER = re.compile(r"^# (?:conf/\w+/)?(\w+)\.yml", re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def all_blocks(*languages):
    return [block for page in PAGES for block in pages.blocks(page) if block.language in languages]


def all_commands():
    return [(str(block), command) for block in all_blocks("bash", "") for command in pages.commands(block)]


@pytest.mark.parametrize("page", PAGES, ids=pages.name)
def test_links_lead_to_files_and_headings(page):
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in pages.anchors(target), link


def documents(block):
    """The block's text by configuration file: named in its comments, or by the sentence before it."""
    named = list(HEADER.finditer(block.text))
    if named:
        ends = [*(found.start() for found in named[1:]), len(block.text)]
        return [(found[1], block.text[found.start() : end]) for found, end in zip(named, ends, strict=True)]
    told = FILE.findall(block.before)
    return [(told[-1] if told else "", block.text)]


def put(declared, content):
    """A whole declaration replaces one of the same name; keys of an environment are merged over it."""
    for name, keys in content.items():
        whole = keys is None or {"type", "source", "derive"} & set(keys)
        declared[name] = keys if whole else declared.get(name, {}) | keys


def test_declarations_of_the_pages_are_accepted():
    known = plugins.list_plugins(plugins.SOURCES)
    models = {name: plugins.load_plugin(plugins.SOURCES, name).config_model for name in known}
    for name, model in (("sqlite", "SqliteConfig"), ("dlt", "DltConfig")):  # of the examples
        sys.path.append(str(ROOT / f"examples/{name}-source/src"))
        models[name] = getattr(import_module(f"lakehouse_{name}"), model)
    sources, base = (
        yaml.safe_load((ROOT / f"conf/base/{kind}.yml").read_text()) for kind in ("sources", "tables")
    )
    declared = roles = 0
    for page in PAGES:
        tables, grants = dict(base), {}
        for block in pages.blocks(page):
            for kind, text in documents(block) if block.language == "yaml" else ():
                content = yaml.safe_load(text)
                assert isinstance(content, dict), block
                if kind in ("sources", "tables"):
                    # A page may use a source that another one declared, not its tables.
                    put(sources if kind == "sources" else tables, content)
                    declared += 1
                elif kind == "grants":
                    grants |= content
        found = load_declarations(sources, tables, models)
        grants.pop("principals", None)  # their texts come from the environment
        roles += len(load_grants(grants, found.tables).roles)
    assert roles >= 3
    assert declared >= 10


@pytest.mark.parametrize("block", all_blocks("python"), ids=str)
def test_python_of_the_pages_compiles_and_its_imports_exist(block):
    code = "\n".join("" if line.startswith("%") else line for line in block.text.splitlines())
    compile(code, str(block), "exec")
    for module, names in re.findall(r"^from (kedro_lakehouse\S*) import (.+)$", code, re.MULTILINE):
        place = ROOT.joinpath("src", *module.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        body, imports = tree.body, [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        defined = {getattr(node, "name", None) for node in body}
        defined |= {one.name for node in imports for one in node.names}
        defined |= {ast.unparse(node.target) for node in body if isinstance(node, ast.AnnAssign)}
        assert {one.strip() for one in names.split(",")} <= defined, module


def parse(command, words):
    """Let click read the words of a command line; nothing is run."""
    context = command.make_context(command.name, words, resilient_parsing=False)
    if isinstance(command, click.Group) and context._protected_args:
        rest = [*context._protected_args, *context.args]
        _, child, after = command.resolve_command(context, rest)
        parse(child, after)


@pytest.mark.parametrize(
    ("place", "command"), [c for c in all_commands() if " lakehouse " in c[1] or "kedro run" in c[1]]
)
def test_commands_and_options_exist(place, command):
    words = shlex.split(command, comments=True)
    if not words or not words[0].endswith("kedro"):
        return
    group = lakehouse if words[1] == "lakehouse" else cli
    parse(group, words[2:] if group is lakehouse else words[1:])


def test_targets_of_make_exist():
    for place, command in all_commands():
        if command.startswith("make "):
            words = [w for w in shlex.split(command, comments=True)[1:] if "=" not in w and w != "../.."]
            assert {w for w in words if not w.startswith("-")} <= TARGETS, place


def test_every_reason_of_the_quarantine_has_a_remedy():
    page = (ROOT / "docs/how-to/read-quarantine.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == QUARANTINE_REASONS


FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=pages.name)
def test_steps_keep_their_numbers_on_the_site(page):
    """The site's Markdown ends a list before a block that is indented by less than four columns."""
    text = page.read_text(encoding="utf-8")
    begun = len(re.findall(r"^1\. ", FENCED.sub("", text), re.MULTILINE))
    made = markdown.markdown(text, extensions=["tables", "pymdownx.superfences"])
    assert made.count("<ol") == begun
