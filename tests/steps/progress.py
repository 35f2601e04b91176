"""Runs long steps of a verb and shows their progress: current work, duration of the last run, share of completed work.

The output of a step goes to its log file. A terminal shows one status line; other outputs get a line every 30 seconds.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# A step that ends within this time prints nothing.
SILENT_SECONDS = 1.0
TERMINAL_INTERVAL = 0.5
LOG_INTERVAL = 30.0
CARGO_WIDTH = "100"
# Lines of the log that a failed step prints.
TAIL_LINES = 40
# Maximum time for an interrupted step to stop its own processes.
STOP_SECONDS = 30

CACHE = Path(os.environ.get("KERF_CACHE") or Path.home() / ".cache" / "kerf")

# A registry, and the text that its client prints when the registry is unreachable.
UNREACHABLE = [
    ("crates", r"failed to (?:download|fetch|query|get) .*|spurious network error|download of config\.json failed|unable to update registry"),
    ("Go modules", r"(?:dial tcp|Get \"https?://[^\"]+\"): .*|proxy\.[a-z.]+: .*no such host|module lookup disabled|connect: connection refused"),
    ("Python packages (PyPI)", r"Retrying \(Retry\(|NewConnectionError|Could not find a version that satisfies|No matching distribution found"),
    ("Debian packages", r"Failed to fetch|Temporary failure resolving|Unable to locate package|Could not connect to"),
    ("Rust toolchains", r"could not download file from|error: component download failed"),
]

# Lines that contain the amount of work: cargo's progress bar, the list of Go packages, the list of tests.
CARGO_BAR = re.compile(r"Building \[[=> ]*\] (\d+)/(\d+)(?:: (.*))?")
GO_TOTAL = re.compile(r"^packages to compile: (\d+)$")
GO_PACKAGE = re.compile(r"^[a-z0-9][\w.-]*(?:/[\w.~-]+)*$")
TESTS_BEGIN = re.compile(r"^running (\d+) tests?$")
TEST_DONE = re.compile(r"^test .* \.\.\. (?:ok|FAILED|ignored.*)$")
# A step of a verb that this step runs.
STEP_BEGIN = re.compile(r"^==> (.*) \([^()]*\)$")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Progress:
    """The amount of work that is done, read from the output of a step."""

    def __init__(self):
        self.done = 0
        self.total = 0
        self.unit = ""
        self.current = ""

    def read(self, line):
        """Updates the counts from one line of output; returns whether the line belongs into the log."""
        if match := CARGO_BAR.search(line):
            self.done, self.total, self.unit = int(match[1]), int(match[2]), "crates"
            self.current = (match[3] or "").strip()
            return False
        if match := GO_TOTAL.match(line):
            self.done, self.total, self.unit = 0, int(match[1]), "packages"
        elif self.unit == "packages" and GO_PACKAGE.match(line):
            self.done, self.current = self.done + 1, line
        elif match := TESTS_BEGIN.match(line):
            if self.unit != "tests":
                self.done, self.total, self.unit, self.current = 0, 0, "tests", ""
            self.total += int(match[1])
        elif TEST_DONE.match(line):
            self.done += 1
        elif match := STEP_BEGIN.match(line):
            self.current = match[1]
        return True

    def text(self):
        """Returns the counts as words, or the name of the inner step; empty while nothing is known."""
        if not self.unit:
            return self.current
        counts = f"{self.done}/{self.total} {self.unit}" if self.total else f"{self.done} {self.unit}"
        return f"{counts}  {self.current}".rstrip()


def duration(seconds):
    """Formats seconds as `41 s` or `5 min 03 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


class Step:
    """One long step: its log, the duration of its last run, and its child process."""

    def __init__(self, name, title, usual):
        self.title = title
        self.log = CACHE / "logs" / f"{name}.log"
        self.learned = CACHE / "steps" / f"{name}.json"
        self.expected = f"{usual}; {last}" if (last := self.last()) else usual
        self.progress = Progress()
        self.child = None
        self.status = None
        self.seconds = 0.0

    def last(self):
        """Returns how long the step took last time; None on the first run."""
        try:
            return f"{duration(json.loads(self.learned.read_text())['seconds'])} last time"
        except (OSError, ValueError, KeyError):
            return None

    def run(self, command, on_line=lambda line: None, environment=None):
        """Runs a command to its end, with each line of output in the log; `on_line` receives the line."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        bar = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": CARGO_WIDTH}
        start = time.monotonic()
        with open(self.log, "w", encoding="utf-8", errors="replace") as log:
            try:
                self.child = subprocess.Popen(
                    command,
                    env={**os.environ, **bar, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                log.write(f"cannot start {shlex.join(command)}: {error}\n")
                self.status = 127
                return
            with self.child:
                self.follow(self.child.stdout, log, on_line)
                status = self.child.wait()
        self.seconds = time.monotonic() - start
        self.status = 128 - status if status < 0 else status
        if self.status == 0 and self.seconds >= SILENT_SECONDS:
            self.learned.parent.mkdir(parents=True, exist_ok=True)
            self.learned.write_text(json.dumps({"seconds": round(self.seconds)}) + "\n")

    def follow(self, output, log, on_line):
        """Copies output into the log, line by line; a carriage return ends a line of cargo's progress bar."""
        rest = b""
        while chunk := os.read(output.fileno(), 1 << 16):
            *lines, rest = re.split(rb"[\r\n]", rest + chunk)
            for line in lines:
                self.take(line, log, on_line)
        self.take(rest, log, on_line)

    def take(self, raw, log, on_line):
        line = TERMINAL_CODES.sub("", raw.decode("utf-8", "replace"))
        if line.strip() and self.progress.read(line):
            log.write(line + "\n")
            log.flush()
            on_line(line)

    def stop(self, number=signal.SIGTERM):
        if self.child and self.child.poll() is None:
            self.child.send_signal(number)

    def report_failure(self):
        """Prints the end of the log, the registry that was not reached if that is the cause, and the log's path."""
        lines = self.log.read_text(errors="replace").splitlines()
        for line in lines[-TAIL_LINES:]:
            print(f"    {line}")
        if registry := unreachable(lines):
            print(f"==> {self.title}: cannot reach the registry of {registry}, which this step needs")
        print(f"==> {self.title}: failed with status {self.status}; the whole log: {self.log}", flush=True)


class Display:
    """The progress of some steps on standard output: in place on a terminal, as lines elsewhere."""

    def __init__(self, title, steps):
        self.steps = steps
        self.title = title
        together = [f"{step.title}: {step.expected}" for step in steps]
        self.expected = " | ".join(together) if len(steps) > 1 else steps[0].expected
        self.terminal = sys.stdout.isatty()
        self.start = time.monotonic()
        self.shown = 0.0
        self.announced = False

    def update(self):
        """Prints what is due: nothing within the first second, then the title, then the status at each interval."""
        elapsed = time.monotonic() - self.start
        if elapsed < SILENT_SECONDS:
            return
        self.announce()
        if elapsed - self.shown >= (TERMINAL_INTERVAL if self.terminal else LOG_INTERVAL):
            self.shown = elapsed
            parts = [step.progress.text() for step in self.steps if step.status is None]
            status = f"    {duration(elapsed)}  {' | '.join(filter(None, parts))}".rstrip()
            if self.terminal:
                width = os.get_terminal_size().columns - 1
                print(f"\r\x1b[K{status[:width]}", end="", flush=True)
            else:
                print(status, flush=True)

    def announce(self):
        if not self.announced:
            print(f"==> {self.title} ({self.expected})", flush=True)
            self.announced = True

    def clear(self):
        if self.terminal and self.announced:
            print("\r\x1b[K", end="", flush=True)

    def finish(self):
        self.clear()
        if self.announced:
            print(f"    done in {duration(time.monotonic() - self.start)}", flush=True)


def run_together(title, work, on_line=lambda line: None, environment=None):
    """Runs steps in parallel, each with its command, and returns the status of the verb.

    The first failure stops the others. Ctrl-C reaches the steps themselves, as processes of the terminal's group; they have
    some time to stop their own processes.
    """
    steps = [step for step, _ in work]
    display = Display(title, steps)
    threads = [threading.Thread(target=step.run, args=(command, on_line, environment)) for step, command in work]
    before = signal.signal(signal.SIGTERM, lambda number, frame: [step.stop() for step in steps])
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(TERMINAL_INTERVAL) if threads[0].is_alive() else time.sleep(TERMINAL_INTERVAL)
            display.update()
            if any(step.status for step in steps):
                break
        return finish(display, steps, threads)
    except KeyboardInterrupt:
        display.clear()
        end_all(steps, threads)
        print(f"==> {title}: interrupted", flush=True)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def finish(display, steps, threads):
    """Reports how the steps ended, and returns the first status that is not 0."""
    failed = next((step for step in steps if step.status), None)
    if failed is None:
        display.finish()
        return 0
    display.announce()
    display.clear()
    end_all(steps, threads)
    failed.report_failure()
    return failed.status


def end_all(steps, threads):
    """Stops every step, and kills those that do not end in time."""
    for step in steps:
        step.stop()
    for thread, step in zip(threads, steps):
        thread.join(STOP_SECONDS)
        step.stop(signal.SIGKILL)
        thread.join()


def unreachable(lines):
    """Returns the registry whose client could not connect, None for any other failure."""
    for line in lines[-TAIL_LINES * 5 :]:
        for registry, pattern in UNREACHABLE:
            if re.search(pattern, line):
                return registry
    return None
