// The page of `kerf ui` in a headless browser: what it shows, its keys, "what if", 5,000 nodes, and a hostile name.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, test } = require("node:test");
const axe = require("axe-core");
const puppeteer = require("puppeteer-core");

const { fleet, pod, write } = require("./fleet.cjs");
const { serve } = require("./kerf.cjs");
const { compare } = require("./picture.cjs");

const NODES = 14;
const MANY_NODES = 5000;

let browser;
let folder;

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "kerf-page-"));
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: [...sandbox, "--force-color-profile=srgb", "--lang=en-GB"] });
});

after(async () => {
  await browser?.close();
  fs.rmSync(folder, { recursive: true, force: true });
});

/** Opens the page for these objects, gives it to `look`, and checks that nothing failed in the browser. */
async function shown(objects, look) {
  const server = await serve(write(fs.mkdtempSync(path.join(folder, "files-")), objects));
  const page = await browser.newPage();
  const problems = [];
  let code;
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("requestfailed", (request) => problems.push(`${request.url()}: ${request.failure()?.errorText}`));
  try {
    await page.setViewport({ width: 1280, height: 900 });
    await page.goto(server.url);
    await page.waitForSelector(".node");
    await look(page, server);
    assert.deepStrictEqual(problems, []);
  } finally {
    await page.close();
    code = await server.stop();
  }
  assert.strictEqual(code, 0, "Ctrl-C ends the page");
}

const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

/** Waits until the explanation is open and read, and returns its title and text. */
async function explanation(page) {
  await page.waitForFunction(() => {
    const box = document.getElementById("explanation");
    return box.open && document.getElementById("explanation-text").textContent !== "reading";
  });
  return [await text(page, "#explanation-title"), await text(page, "#explanation-text")];
}

const isClosed = (page) => page.waitForFunction(() => !document.getElementById("explanation").open);

test("page shows nodes by NodePool and zone, in light and dark", async () => {
  await shown(fleet(NODES), async (page) => {
    const titles = await page.$$eval("h3", (all) => all.map((title) => title.textContent));
    assert.strictEqual(titles.length, 9, titles.join("; "));
    assert.strictEqual(titles[0], "batch, us-east-1a: 1 node");
    assert.match(await text(page, "#summary"), /^14 nodes, 29 pods, 1 pod without a place; \$/);
    assert.match(await text(page, "#pending"), /^ml\/train-0: /);
    assert.strictEqual(await page.$$eval('.node[data-state="to remove"]', (all) => all.length), 4);
    assert.match(await text(page, "#commands"), /Underutilized, saves \$/);
    await page.$eval("#summary", (summary) => (summary.textContent = summary.textContent.replace(/at .*/, "at 12:00:00")));
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      assert.deepStrictEqual(violations.map(({ id, nodes }) => [id, nodes[0].html]), [], `rules of accessibility, ${scheme}`);
      compare(scheme === "light" ? "page" : "page-dark", await page.screenshot());
    }
  });
});

test("page filters and orders nodes", async () => {
  await shown(fleet(NODES), async (page) => {
    const names = () => page.$$eval(".node .name", (all) => all.map((name) => name.textContent));
    await page.type("#filter", "databases us-east-1c");
    assert.deepStrictEqual(await names(), ["ip-10-0-0-15.ec2.internal"]);
    await page.$eval("#filter", (filter) => (filter.value = ""));
    await page.type("#filter", "general us-east-1b");
    await page.select("#order", "pods");
    const pods = await page.$$eval(".node", (all) => all.map((node) => Number(/(\d+) pod/.exec(node.textContent)[1])));
    assert.deepStrictEqual(pods, [...pods].sort((one, other) => one - other));
    await page.type("#filter", " nothing");
    assert.strictEqual(await text(page, "#nodes"), "no node");
  });
});

test("page explains a node by keyboard, and gives the focus back", async () => {
  await shown(fleet(NODES), async (page) => {
    await page.focus(".node");
    const label = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    await page.keyboard.press("Enter");
    const [title, words] = await explanation(page);
    assert.ok(label.startsWith(`${title.replace("Node ", "")},`), `${title} for ${label}`);
    assert.match(words, /ANSWER\n/);
    await page.keyboard.press("Escape");
    await isClosed(page);
    assert.strictEqual(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), label);
  });
});

test("page explains a pod without a place, and the cost by a label", async () => {
  await shown(fleet(NODES), async (page) => {
    await page.click("#pending button");
    const [title, words] = await explanation(page);
    assert.strictEqual(title, "Pod ml/train-0");
    assert.match(words, /cpu/);
    await page.keyboard.press("Escape");
    await isClosed(page);
    await page.type("#label", "team");
    await page.click("#cost");
    assert.match((await explanation(page))[1], /LABEL team\n(.*\n)*.*reports: \$/);
  });
});

test("page compares the plan for another setting, and explains a wrong one", async () => {
  await shown(fleet(NODES), async (page) => {
    for (const [change, expected] of [
      ["nodepool.general.spec.disruption.budgets=[{nodes: \"0\"}]", /general|node/],
      ["nodepool.nothing.spec.weight=1", /nothing/],
    ]) {
      await page.$eval("#change", (field) => (field.value = ""));
      await page.type("#change", change);
      await page.keyboard.press("Enter");
      const [title, words] = await explanation(page);
      assert.strictEqual(title, `What if ${change}`);
      assert.match(words, expected);
      await page.keyboard.press("Escape");
      await isClosed(page);
    }
  });
});

test("page shows a hostile name as text", async () => {
  const name = '<img src=x onerror="globalThis.hostile=1"><script>globalThis.hostile=1</script>';
  const hostile = pod("late", ["ml", "late", "1", "1Gi"], { tier: name }, "");
  await shown([...fleet(NODES), hostile], async (page) => {
    await page.waitForFunction(() => document.getElementById("pending").textContent.includes("onerror"));
    assert.strictEqual(await page.evaluate(() => globalThis.hostile), undefined);
    assert.strictEqual(await page.$("#pending img, #pending script"), null);
  });
});

test("page stays usable with 5,000 nodes", { timeout: 300_000 }, async (context) => {
  await shown(fleet(MANY_NODES), async (page) => {
    assert.strictEqual(await page.$$eval(".node", (all) => all.length), MANY_NODES);
    const filter = async (word) => page.evaluate((wanted) => {
      const begin = performance.now();
      const field = document.getElementById("filter");
      field.value = wanted;
      field.dispatchEvent(new Event("input"));
      document.body.getBoundingClientRect();
      return Math.round(performance.now() - begin);
    }, word);
    const durations = [await filter("databases"), await filter("")];
    context.diagnostic(`filter to a quarter and back, with layout: ${durations.join(" and ")} ms`);
    assert.strictEqual(await page.$$eval(".node", (all) => all.length), MANY_NODES);
    await page.click(".node");
    assert.match((await explanation(page))[1], /ANSWER\n/);
  });
});
