#!/usr/bin/env python3
"""One line of progress: rewritten on a terminal, lengthened by dots where there is none.

Runs with the standard library alone: ``python3 bin/progress.py [--text TEXT] COMMAND ...`` runs a command and
shows what it says in as few lines as possible; with ``--expect TEXT`` the text only if it takes time. A line
of it that ends in ``...`` opens the line of progress, one that ends in ``(N s).`` closes it, its log lines of
level INFO say how far it is, and everything else stays on the screen.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from typing import IO, TextIO, cast

BEAT = 2.0
"""After so many seconds without a word something is shown."""
LOOK = 0.5
_INFORMATION = re.compile(r"^\d\d:\d\d:\d\d INFO +(.*)")
_END = re.compile(r"\(\d+ s\)\.$")
_NOISE = ("WARNING: Using incubator modules: jdk.incubator.vector",)
"""Lines that Java prints at each start of Spark, and that no setting prevents."""


class Progress:
    """The line at the bottom of the screen; without an open line, nothing but what is said."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Take the stream, by default the errors'; nothing is open."""
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._text = self._detail = ""
        self._begun = self._shown = 0.0
        self._is_within_line = False

    def open(self, text: str) -> None:
        """Begin to tell of something that takes time."""
        self.close()
        self._text, self._detail, self._begun = text, "", time.monotonic()
        self._draw()

    def expect(self, text: str) -> None:
        """Tell of something only if it takes longer than usual."""
        self.close()
        self._text, self._detail, self._begun = text, "", time.monotonic()
        self._shown = self._begun

    def tell(self, detail: str) -> None:
        """Say how far it is: seen on a terminal only."""
        self._detail = detail
        self.beat(after=0.2)

    def beat(self, after: float = BEAT) -> None:
        """Show that it goes on, if nothing was shown for some seconds."""
        if self._text and time.monotonic() - self._shown >= after:
            if self._on_terminal or not self._is_within_line:
                self._draw()
            elif after == BEAT:
                self._write(".")

    def say(self, line: str) -> None:
        """Print a line that stays; what is open goes on below it."""
        self._leave_line()
        self._write(f"{line}\n")

    def close(self, end: str | None = None) -> None:
        """End what is open: with these words, or with the seconds that it took."""
        if not self._text:
            return
        if self._shown <= self._begun:  # what was only expected was over before anything had to be said
            self._text = ""
            return
        end = end or f"{time.monotonic() - self._begun:.0f} s."
        text, self._text = self._text, ""
        if self._on_terminal or not self._is_within_line:
            self._leave_line()
            self._write(f"{text} ")
        else:
            self._write(" ")
        self._write(f"{end}\n")
        self._is_within_line = False

    def drop(self) -> None:
        """End what is open without a word: what went wrong has been said."""
        self._leave_line()
        self._text = ""

    def _draw(self) -> None:
        if self._on_terminal:
            seconds = f"{time.monotonic() - self._begun:.0f} s"
            line = f"{self._text} {seconds}{': ' if self._detail else ''}{self._detail}"
            self._write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        else:
            self._write(f"{self._text} ")
        self._is_within_line = True

    def _leave_line(self) -> None:
        if self._is_within_line:
            self._write("\r\x1b[K" if self._on_terminal else "\n")
        self._is_within_line = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._shown = time.monotonic()


def shown(command: list[str], text: str = "", *, at_once: bool = True) -> int:
    """Run a command and show what it says; return its exit code."""
    progress = Progress()
    if text:
        (progress.open if at_once else progress.expect)(text)
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    if sys.stdout.isatty():  # its tables are to have the colours and the width that they had without us
        environment.update(FORCE_COLOR="1", COLUMNS=str(shutil.get_terminal_size().columns))
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        _relay(process, progress)
        code = process.wait()
    except KeyboardInterrupt:  # the command was interrupted as well
        code = process.wait() or 130
    if code:
        progress.drop()
    progress.close()
    return code


def _relay(process: subprocess.Popen[bytes], progress: Progress) -> None:
    """Show both streams of a process until it has closed them."""
    out, err = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
    with selectors.DefaultSelector() as selector:
        for stream in (out, err):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        rest = b""
        while selector.get_map():
            ready = [key.fileobj for key, _ in selector.select(LOOK)]
            if not ready and process.poll() is not None:  # a Java that it left has its streams still
                break
            # What it logged before it printed something is shown before that.
            chunk = _read(err) if ready and err in _open(selector) else None
            if chunk == b"":
                selector.unregister(err)
            *lines, rest = (rest + (chunk or b"")).split(b"\n")
            for line in lines:
                _show(line.decode("utf-8", "replace").rstrip("\r"), progress)
            if out in ready:
                printed = _read(out)
                if printed == b"":
                    selector.unregister(out)
                elif printed:
                    progress.close()
                    sys.stdout.buffer.write(printed)
                    sys.stdout.buffer.flush()
            progress.beat()
        if rest:
            _show(rest.decode("utf-8", "replace"), progress)


def _open(selector: selectors.BaseSelector) -> list[object]:
    return [key.fileobj for key in selector.get_map().values()]


def _read(stream: IO[bytes]) -> bytes | None:
    """What there is to read: nothing at the end, None where nothing has been written since."""
    try:
        return os.read(stream.fileno(), 65536)
    except BlockingIOError:
        return None


def _show(line: str, progress: Progress) -> None:
    information = _INFORMATION.match(line)
    if line in _NOISE:
        return
    if information:
        progress.tell(information[1])
    elif line.endswith("..."):
        progress.open(line)
    elif _END.search(line):
        progress.close(line)
    else:
        progress.say(line)


def main() -> int:
    """Show the command of the command line."""
    words = sys.argv[1:]
    if words[0] in ("--text", "--expect"):
        return shown(words[2:], words[1], at_once=words[0] == "--text")
    return shown(words)


if __name__ == "__main__":
    sys.exit(main())
