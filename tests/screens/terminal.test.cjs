// `kerf top` in a terminal: its lists, keys and sizes, and a picture of its screen.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, test } = require("node:test");
const puppeteer = require("puppeteer-core");

const { fleet, write } = require("./fleet.cjs");
const { Top } = require("./kerf.cjs");
const { compare } = require("./picture.cjs");

const NODES = 14;
const [COLUMNS, ROWS] = [80, 24];
const [ENTER, ESCAPE] = ["\r", "\x1b"];

let folder;
let file;

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "kerf-top-"));
  file = write(folder, fleet(NODES));
});

after(() => fs.rmSync(folder, { recursive: true, force: true }));

/** Starts `kerf top` in a terminal of this width, gives it to `look`, and ends it with `q`. */
async function shown(columns, look) {
  const top = new Top(file, columns, ROWS);
  await top.shows("$2.");
  await look(top);
  assert.strictEqual(await top.quit(), 0);
  assert.strictEqual(top.terminal.buffer.active.type, "normal", "the screen before kerf top is back");
}

/** Draws what a program wrote to a terminal, as a picture. */
async function draw(written) {
  const xterm = path.dirname(path.dirname(require.resolve("@xterm/xterm")));
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: [...sandbox, "--force-color-profile=srgb"] });
  try {
    const page = await browser.newPage();
    await page.setViewport({ width: 800, height: 480 });
    await page.setContent('<body style="margin:12px;background:#1c1f24"><div id="screen"></div></body>');
    await page.addStyleTag({ path: path.join(xterm, "css/xterm.css") });
    await page.addScriptTag({ path: path.join(xterm, "lib/xterm.js") });
    await page.evaluate((text, cols, rows) => new Promise((resolve) => {
      const theme = { background: "#1c1f24", foreground: "#e6e6e6", cursor: "#1c1f24", cyan: "#5cc8d7" };
      const terminal = new globalThis.Terminal({ cols, rows, theme, fontFamily: "DejaVu Sans Mono", fontSize: 15, cursorInactiveStyle: "none" });
      terminal.open(document.getElementById("screen"));
      terminal.write(text, () => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    }), written, COLUMNS, ROWS);
    return await (await page.$(".xterm-screen")).screenshot();
  } finally {
    await browser.close();
  }
}

test("top shows nodes, and a picture of it", async () => {
  await shown(COLUMNS, async (top) => {
    const screen = top.screen();
    assert.strictEqual(screen[0], "14 nodes, 29 pods, 1 pod without a place, 4 nodes to remove");
    assert.match(screen[2], /^\[Nodes\] /);
    assert.ok(screen.some((line) => /^ip-10-0-0-15\S* +to remove +r7g\.xlarge/.test(line)), screen.join("\n"));
    compare("top", await draw(top.written));
  });
});

test("top changes lists, filters, sorts and explains by keys", async () => {
  await shown(COLUMNS, async (top) => {
    top.press("s");
    await top.shows("by Cpu");
    top.press("/spot\r");
    await top.shows("filter: spot");
    assert.ok(!top.screen().some((line) => line.includes("r7g.xlarge")), top.screen().join("\n"));
    top.press(ENTER);
    await top.shows("Esc back");
    top.press(ESCAPE);
    await top.shows("filter: spot");
    top.press(ESCAPE);
    await top.shows("r7g.xlarge");
    top.press("\t");
    await top.shows("databases");
    top.press("\t");
    await top.shows("ml/train-0");
    top.press("\t");
    await top.shows("Underutilized");
  });
});

test("top fits a terminal of 40 columns", async () => {
  await shown(40, async (top) => {
    const long = top.screen().filter((line) => line.length > 40);
    assert.deepStrictEqual(long, []);
    assert.ok(top.screen().some((line) => line.startsWith("ip-10-0-0-")), top.screen().join("\n"));
  });
});
