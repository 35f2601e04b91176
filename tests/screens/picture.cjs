// Pictures of the documentation. With BLESS=1 they are written; otherwise a picture must equal the one that is there.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const pixelmatch = require("pixelmatch");
const { PNG } = require("pngjs");

const FOLDER = path.join(__dirname, "../../docs/pictures");
/** Share of pixels that may differ: another version of the browser draws edges of letters in another way. */
const TOLERANCE = 0.02;

/** Compares a picture with `docs/pictures/NAME.png`. The new one is in the folder for temporary files if they differ. */
function compare(name, png) {
  const file = path.join(FOLDER, `${name}.png`);
  if (process.env.BLESS) fs.writeFileSync(file, png);
  const [found, known] = [PNG.sync.read(Buffer.from(png)), PNG.sync.read(fs.readFileSync(file))];
  const { width, height } = known;
  assert.deepStrictEqual([found.width, found.height], [width, height], `size of ${name}`);
  const differing = pixelmatch(found.data, known.data, null, width, height, { threshold: 0.2 });
  if (differing > TOLERANCE * width * height) {
    const copy = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "kerf-screens-")), `${name}.png`);
    fs.writeFileSync(copy, png);
    assert.fail(`${differing} pixels of ${file} differ: look at ${copy}; if it is right, run make screens with BLESS=1`);
  }
}

module.exports = { compare };
