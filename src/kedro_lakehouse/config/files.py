"""The files of the configuration: in which line a key stands, and why one of them cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kedro_lakehouse.errors import ConfigurationError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_ENDINGS: Final = (".yml", ".yaml", ".json")
_PACKED: Final = (".tar", ".tar.gz", ".tgz", ".zip")
_GLOBAL: Final = re.compile(r"\$\{globals:\s*([^},\s]+)\s*\}")
_BLOCK: Final = re.compile(r"^(?=[^\s#])", re.MULTILINE)
_INDEX: Final = re.compile(r"\[(\d+)\]\.?")
_INDENT: Final = "Indent with blanks, keys of one level alike."
_SYNTAX: Final = {
    "'\\t'": ("a tab stands where YAML wants blanks", "Replace tabs with blanks."),
    "mapping values": ("a ':' stands where YAML expects none", f"{_INDENT} Put text with ': ' in quotes."),
    "could not find expected ':'": ("the line is no 'key: value'", "Write a ':' and a blank after the key."),
    "block end": ("the line is indented otherwise than those around it, or a bracket is missing", _INDENT),
    "found unexpected end of stream": ("a quote is never closed", "Close it."),
    "expected ',' or": ("a bracket or a comma is missing", "Close the bracket; separate items with commas."),
    "node content": ("a value or a closing bracket is missing", "Write it."),
    "single document": ("the file holds several documents, parted by ---", "Remove the line ---."),
    "document start": ("something stands after the end of the content", "Remove it, or the {} before it."),
    "undefined alias": ("the alias (*name) has no anchor (&name)", "Put text that begins with * in quotes."),
    "cannot start any token": ("a value begins with a sign that YAML keeps for itself", "Put it in quotes."),
    "special characters": ("a character is not printable", "Remove it."),
}


_NO_NAMES: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("null", "seq", "map"))
_NOT_CLOSED: Final = (
    "${...} is not closed, or holds what cannot stand there.",
    "Write as in ${globals:landing}.",
)
# What the parser notices long after the line in which it began.
_BEGUN: Final = ("expected ',' or", "found unexpected end of stream", "could not find expected ':'")


class Place(NamedTuple):
    """Where a key was found: the file, its line, and how many letters of the key led there."""

    file: Path
    line: int
    matched: int


@dataclass(frozen=True)
class ConfigurationFiles:
    """The configuration folder as one environment reads it: its own files, and those of the base."""

    folder: Path
    environments: tuple[str, ...]
    """The folders that are read; what an earlier one says is valid."""
    patterns: Mapping[str, Sequence[str]]
    """The names of files by kind, such as ``{"tables": ["tables*"]}``."""

    @property
    def on_disk(self) -> bool:
        """Whether it is a folder, as opposed to an archive or an address."""
        text = str(self.folder)
        return "://" not in text and ":/" not in text and not text.endswith(_PACKED)

    def require_environment(self, env: str | None) -> None:
        """Refuse an environment, or a whole configuration, that has no folder.

        Raises:
            ConfigurationError: There is no such folder; the environments that there are are named.
        """
        if not self.on_disk:
            return
        name = self.folder.name
        if not self.folder.is_dir():
            raise ConfigurationError(
                file=name,
                key=str(self.folder),
                problem="there is no such folder.",
                remedy="Restore it, or name another one by `kedro run --conf-source=FOLDER`.",
            )
        known = sorted(one.name for one in self.folder.iterdir() if one.is_dir())
        if env and env not in known:
            near = did_you_mean(env, known)
            raise ConfigurationError(
                file=name,
                key=env,
                problem=f"there is no such environment ({name}/{env} does not exist).{near}",
                remedy=f"Use one of: {', '.join(known)}; or make the folder {name}/{env}.",
            )

    def of_kind(self, kind: str) -> list[Path]:
        """The files of one kind that are read; those whose words count come first."""
        found: dict[Path, None] = {}
        for environment in self.environments:
            for pattern in self.patterns.get(kind, ()):
                files = sorted((self.folder / environment).glob(pattern))
                found |= dict.fromkeys(f for f in files if f.suffix in _ENDINGS and f.is_file())
        return list(found)

    def placed(self, error: ConfigurationError) -> ConfigurationError:
        """The error, and those that came with it, with the file and line of each where it is found."""
        for one in (error, *error.others):
            if not one.place and (found := self._find(one.file, one.key)):
                one.place = self._line(found.file, found.line)
        error.describe()
        return error

    def mistakes(self, kinds: Sequence[str]) -> list[ConfigurationError]:
        """Why files of these kinds cannot be read; empty if nothing is wrong with them."""
        if not self.on_disk:
            return []
        found = [mistake for kind in kinds for mistake in self._unreadable(kind)]
        return found or [mistake for kind in kinds for mistake in self._unresolved(kind)]

    def all_mistakes(self, kinds: Sequence[str]) -> list[ConfigurationError]:
        """The same, with values that cannot be filled in also where another kind of file cannot be read."""
        if not self.on_disk:
            return []
        unreadable = {kind: list(self._unreadable(kind)) for kind in dict.fromkeys(("globals", *kinds))}
        found = [mistake for mistakes in unreadable.values() for mistake in mistakes]
        if unreadable["globals"]:
            return found
        return found + [m for kind in kinds if not unreadable[kind] for m in self._unresolved(kind)]

    def find(self, file: str, key: str, *, below: int = 0) -> tuple[str, int]:
        """The path and the line of a key; the name of the file, and line 0, where it is not found.

        With ``below``, the line of the key's text that has this number, from 1 on.
        """
        found = self._find(file, key)
        if found is None:
            return file, 0
        _, _, node = _led_to(_composed(found.file), key)
        in_block = below and isinstance(node, yaml.ScalarNode) and node.style == "|"
        line = node.start_mark.line + 1 + below if in_block else found.line
        return self._shown(found.file), line

    def _line(self, file: Path, line: int) -> str:
        return f"{self._shown(file)}, line {line}" if line else self._shown(file)

    def _shown(self, file: Path) -> str:
        return str(file.relative_to(self.folder.parent) if file.is_relative_to(self.folder.parent) else file)

    def _find(self, file: str, key: str) -> Place | None:
        kind = next((k for k in self.patterns if file.startswith(k)), None)
        if kind is None or not self.on_disk:
            return None
        places = [Place(path, *_line_of(_composed(path), key)) for path in self.of_kind(kind)]
        return max((p for p in places if p.matched), key=lambda place: place.matched, default=None)

    def _unreadable(self, kind: str) -> Iterator[ConfigurationError]:
        """Files that are no YAML, hold no mapping, or share a key with another file of their folder."""
        first_in: dict[tuple[str, Path], Path] = {}
        for file in self.of_kind(kind):
            top, repeated = None, list[ConfigurationError]()
            try:
                top = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
                repeated = list(self._repeated_keys(file, top))
                yield from repeated
                OmegaConf.load(file)
            except OmegaConfBaseException as error:
                key = str(error.full_key or "file")
                if error.key is not None:  # of a key that is no name, what was found above says more
                    yield self._mistake(file, _line_of(top, key)[0], key, *(_reason(error) or _NOT_CLOSED))
                continue
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                if not repeated:  # else it has been said, and better
                    yield self._unread(file, error)
                continue
            if top is not None and not isinstance(top, yaml.MappingNode):
                problem = "expected names with their keys below them; found a list or a text."
                remedy = "Write 'name:' and its keys, indented, below it."
                yield self._mistake(file, top.start_mark.line + 1, "file", problem, remedy)
                continue
            for key_node, _ in top.value if top is not None else ():
                key, line = str(key_node.value), key_node.start_mark.line + 1
                other = first_in.setdefault((key, file.parent), file)
                if other != file and not key.startswith("_"):
                    problem = f"the name is also in {self._line(other, _line_of(_composed(other), key)[0])}."
                    yield self._mistake(file, line, key, problem, "Keep one of the two.")

    def _repeated_keys(self, file: Path, node: Any, path: str = "") -> Iterator[ConfigurationError]:
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                yield from self._repeated_keys(file, item, f"{path}[{number}]")
        if not isinstance(node, yaml.MappingNode):
            return
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            name, line = str(key_node.value), key_node.start_mark.line + 1
            key = f"{path}.{name}" if path else name
            if key_node.tag in _NO_NAMES or (not path and not key_node.tag.endswith(":str")):
                remedy = "Write a name, such as shop.order; put it in quotes if it looks like a number."
                yield self._mistake(file, line, key, "the key is no name.", remedy)
                continue
            if name in lines and name != "<<":
                problem = f"the key is in line {lines[name]} too."
                yield self._mistake(file, line, key, problem, "Keep one of the two.")
            lines.setdefault(name, line)
            yield from self._repeated_keys(file, value, key)

    def _unread(self, file: Path, error: Exception) -> ConfigurationError:
        if isinstance(error, OSError):
            problem, line = f"the file cannot be read ({error.strerror}).", 0
            remedy = "Give yourself the right to read it: chmod u+r."
        elif isinstance(error, UnicodeDecodeError):
            line = file.read_bytes()[: error.start].count(b"\n") + 1
            problem, remedy = "the text is not UTF-8.", "Save it as UTF-8."
        else:
            line, problem, remedy = _syntax(error)
        return self._mistake(file, line, "YAML", problem, remedy)

    def _mistake(self, file: Path, line: int, key: str, problem: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(
            file=file.name, key=key, problem=problem, remedy=remedy, place=self._line(file, line)
        )

    def _unresolved(self, kind: str) -> Iterator[ConfigurationError]:
        """Values with ``${...}`` that cannot be filled in; they are not shown, for they may hold secrets."""
        known = self._globals()
        if not self.of_kind("globals"):
            yield from self._without_globals(kind)
            return
        for file in self.of_kind(kind):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                for name in _GLOBAL.findall(line.partition(" #")[0]):
                    if not _holds(known, name):
                        problem = f"globals.yml has no '{name}'.{did_you_mean(name, map(str, known))}"
                        remedy = f"Use one of: {listed(map(str, known))}; or write it into globals.yml."
                        yield self._mistake(file, number, f"${{globals:{name}}}", problem, remedy)
        for environment in self.environments:
            yield from self._interpolations(kind, self.folder / environment)

    def _interpolations(self, kind: str, folder: Path) -> Iterator[ConfigurationError]:
        files = [file for file in self.of_kind(kind) if file.is_relative_to(folder)]
        if not files:
            return
        merged: Any = OmegaConf.unsafe_merge(*map(OmegaConf.load, files))
        for key in leaves(OmegaConf.to_container(merged, resolve=False)):
            try:
                OmegaConf.select(merged, key, throw_on_resolution_failure=True)
            except (OmegaConfBaseException, ValueError) as error:
                if reason := _reason(error):
                    plain = key.replace("][", ".").strip("[]").replace("[", ".").replace("]", "")
                    places = [Place(file, *_line_of(_composed(file), plain)) for file in files]
                    place = max(places, key=lambda one: one.matched)
                    yield self._mistake(place.file, place.line, plain, *reason)

    def _without_globals(self, kind: str) -> Iterator[ConfigurationError]:
        """One mistake, however many values want a global."""
        for file in self.of_kind(kind):
            text = file.read_text(encoding="utf-8")
            if found := _GLOBAL.search(text):
                line = text[: found.start()].count("\n") + 1
                remedy = "`kedro lakehouse init --keep` writes it."
                yield self._mistake(file, line, found[0], "there is no globals.yml.", remedy)
                return

    def _globals(self) -> dict[Any, Any]:
        known: dict[Any, Any] = {}
        for file in reversed(self.of_kind("globals")):
            loaded = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
            known |= loaded if isinstance(loaded, dict) else {}
        return known


def all_of(found: Sequence[ConfigurationError]) -> ConfigurationError:
    """One error that shows all of these; the first one stands for them."""
    first, *others = dict.fromkeys(found)
    first.others = tuple(others)
    first.describe()
    return first


def mistake_in_text(error: yaml.MarkedYAMLError) -> ConfigurationError:
    """What YAML's parser says of a file that is not among those of the configuration."""
    line, problem, remedy = _syntax(error)
    mark = error.problem_mark or error.context_mark
    file = str(getattr(mark, "name", "") or "the file")
    return ConfigurationError(
        file=file, key="YAML", problem=problem, remedy=remedy, place=f"{file}, line {line}"
    )


def _syntax(error: Exception) -> tuple[int, str, str]:
    """The line, the problem and the remedy of what YAML's parser says."""
    begun = getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or begun
    said = f"{getattr(error, 'problem', '') or getattr(error, 'reason', '')} {getattr(error, 'context', '')}"
    problem, remedy = next(
        (words for part, words in _SYNTAX.items() if part in said),
        ("the text is not YAML", "Correct the line, or the one before it."),
    )
    if begun and said.startswith(_BEGUN):
        mark = begun
    return (mark.line + 1 if mark else 0), f"{problem}.", remedy


def _reason(error: Exception) -> tuple[str, str] | None:
    """Problem and remedy of an interpolation that fails; None for what is reported otherwise."""
    said = str(error)
    if variable := re.search(r"Environment variable '([^']*)' not found", said):
        name = variable[1]
        return f"the environment variable {name} is not set.", f"Set it, or write ${{oc.env:{name},DEFAULT}}."
    if resolver := re.search(r"Unsupported interpolation type '?([\w.]*)'?", said):
        known = ("globals", "project_path", "by_spark", "oc.env")
        near = did_you_mean(resolver[1], known)
        return f"${{{resolver[1]}:...}} is not known here.{near}", f"Use one of: {listed(known)}."
    if other := re.search(r"Interpolation key '([^']*)' not found", said):
        return f"the file has no '{other[1]}'.", "Correct the name; a global is ${globals:NAME}."
    if type(error).__name__ == "GrammarParseError":
        return _NOT_CLOSED
    return None


def _holds(known: Mapping[Any, Any], name: str) -> bool:
    value: Any = known
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The paths of the texts that hold ``${...}``, as OmegaConf selects them."""
    if isinstance(value, str) and "${" in value:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from leaves(inner, f"{path}[{key}]")


def _composed(file: Path) -> Any:
    """The nodes of a file; where it is no YAML, those of its readable part."""
    try:
        text = readable_part(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return yaml.compose(text, Loader=yaml.SafeLoader)


def readable_part(text: str) -> str:
    r"""The text without the blocks that are no YAML, whose lines are empty; a block is not indented.

    Example:
        >>> readable_part("a:\n\tb: 1\nc: 2\n")
        '\n\nc: 2\n'
    """
    if _is_yaml(text):
        return text
    parts = [part if _is_yaml(part) else "\n" * part.count("\n") for part in _BLOCK.split(text)]
    found = "".join(parts)
    return found if _is_yaml(found) else ""


def _is_yaml(text: str) -> bool:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader) is not None or not text.strip()
    except yaml.YAMLError:
        return False


def _line_of(node: Any, key: str) -> tuple[int, int]:
    """The line in which a key, or the nearest key above it, stands, and how many letters of it led there."""
    line, matched, _ = _led_to(node, key)
    return line, matched


def _led_to(node: Any, key: str) -> tuple[int, int, Any]:
    """The same, with the value of the key that was reached.

    A name may hold dots, as tables' names do: the longest one that fits is followed.
    """
    line, rest = 0, key
    while rest:
        if isinstance(node, yaml.SequenceNode) and (index := _INDEX.match(rest)):
            if int(index[1]) >= len(node.value):
                break
            node, rest = node.value[int(index[1])], rest[index.end() :]
            line = node.start_mark.line + 1
            continue
        if not isinstance(node, yaml.MappingNode):
            break
        fitting = [pair for pair in node.value if _leads(str(pair[0].value), rest)]
        if not fitting:
            break
        name, value = max(fitting, key=lambda pair: len(pair[0].value))
        line, node, rest = name.start_mark.line + 1, value, rest[len(name.value) :].removeprefix(".")
    return line, len(key) - len(rest), node


def _leads(name: str, key: str) -> bool:
    return key == name or key.startswith((f"{name}.", f"{name}["))
