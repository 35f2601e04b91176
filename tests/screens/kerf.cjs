// The program under test: `kerf ui` as a server, and `kerf top` in a pseudo-terminal whose screen an emulator keeps.
"use strict";

const { spawn } = require("node:child_process");
const { Terminal } = require("@xterm/headless");

const { NOW } = require("./fleet.cjs");

const PROGRAM = process.env.KERF_CLI;
/** Time limit of every wait. */
const LIMIT_MS = 60_000;

/** Waits until `found` returns a value; the error names what was awaited, and shows the last state. */
async function eventually(what, found, state) {
  const end = Date.now() + LIMIT_MS;
  for (;;) {
    const value = await found();
    if (value) return value;
    if (Date.now() > end) throw new Error(`no ${what} within ${LIMIT_MS / 1000} s: ${state()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts `kerf ui` with this file, and returns its address and the function that ends it with Ctrl-C. */
async function serve(file) {
  const child = spawn(PROGRAM, ["ui", "--now", NOW, "--port", "0", file], { stdio: ["ignore", "pipe", "pipe"] });
  let [output, errors] = ["", ""];
  child.stdout.on("data", (part) => (output += part));
  child.stderr.on("data", (part) => (errors += part));
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  const url = await eventually("address", () => /http:\S+/.exec(output)?.[0], () => errors);
  const stop = async () => {
    child.kill("SIGINT");
    return ended;
  };
  return { url, stop };
}

/** `kerf top` with this file in a terminal of this size. */
class Top {
  constructor(file, columns, rows) {
    this.terminal = new Terminal({ cols: columns, rows, allowProposedApi: true });
    /** Everything that the program wrote. */
    this.written = "";
    const command = `stty cols ${columns} rows ${rows}; exec "$KERF_CLI" top --now ${NOW} "$FLEET"`;
    const environment = { ...process.env, FLEET: file, TERM: "xterm-256color" };
    delete environment.NO_COLOR;
    this.child = spawn("script", ["-qefc", command, "/dev/null"], { env: environment, stdio: ["pipe", "pipe", "inherit"] });
    this.child.stdout.on("data", (part) => {
      this.written += part;
      this.terminal.write(part);
    });
    this.ended = new Promise((resolve) => this.child.on("exit", resolve));
  }

  /** Returns the lines of the screen. */
  screen() {
    const buffer = this.terminal.buffer.active;
    return Array.from({ length: this.terminal.rows }, (_, row) => buffer.getLine(row)?.translateToString(true) ?? "");
  }

  press(keys) {
    this.child.stdin.write(keys);
  }

  /** Waits until the screen contains the text. */
  async shows(text) {
    await eventually(`"${text}" on the screen`, () => this.screen().some((line) => line.includes(text)), () => `\n${this.screen().join("\n")}`);
  }

  /** Ends the program with `q`, and returns its exit code. */
  async quit() {
    this.press("q");
    return this.ended;
  }
}

module.exports = { Top, eventually, serve };
