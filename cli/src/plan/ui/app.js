// Page of `kerf ui`. Texts of the cluster become text nodes only, so a name cannot become markup.
"use strict";

const REFRESH_MS = 5000;
const PODS_DRAWN_FOR = 500;

const find = (id) => document.getElementById(id);
let data = null;
let shown = "";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function percent(part) {
  return part === null ? "unknown" : `${part} %`;
}

function bar(load) {
  const parts = ["requested", "used"].filter((kind) => load[kind] !== null).map((kind) => {
    const fill = element("i", { class: kind });
    fill.style.width = `${Math.min(load[kind], 100)}%`;
    return fill;
  });
  return element("span", { class: "bar" }, ...parts);
}

function podsOf(node) {
  const row = element("span", { class: "pods" });
  for (const share of node.shares) {
    const pod = element("i", {});
    pod.style.flexBasis = `${share}%`;
    row.append(pod);
  }
  return row;
}

function nodeBox(node, drawsPods) {
  const price = node.price === null ? "unknown price" : `${node.price}/h`;
  const label = `${node.name}, ${node.state}, ${node.type}, ${node.capacityType}, ${price}, ${counted(node.pods, "pod")}, ` +
    `requested CPU ${percent(node.cpu.requested)}, memory ${percent(node.memory.requested)}, ` +
    `used CPU ${percent(node.cpu.used)}, memory ${percent(node.memory.used)}`;
  const box = element(
    "button",
    { type: "button", class: "node", "data-state": node.state, "aria-label": label, title: label },
    element("span", { class: "name" }, node.name),
    element("span", { class: "facts" }, element("span", { class: "state" }, node.state), ` ${counted(node.pods, "pod")} ${price}`),
    element("span", { class: "facts" }, `${node.type} ${node.capacityType}`),
    bar(node.cpu),
    bar(node.memory),
  );
  if (drawsPods) box.append(podsOf(node));
  box.addEventListener("click", () => explain(`node/${node.name}`, `Node ${node.name}`));
  return box;
}

const ORDERS = {
  name: (one, other) => one.name.localeCompare(other.name),
  price: (one, other) => parsePrice(other) - parsePrice(one),
  cpu: (one, other) => (one.cpu.requested ?? 101) - (other.cpu.requested ?? 101),
  pods: (one, other) => one.pods - other.pods,
};

function parsePrice(node) {
  return node.price === null ? 0 : Number(node.price.replace("$", ""));
}

function isKept(node, wanted) {
  const text = [node.name, node.pool, node.type, node.zone, node.capacityType, node.state].join(" ").toLowerCase();
  return wanted.split(/\s+/).every((word) => text.includes(word));
}

function showNodes() {
  const wanted = find("filter").value.trim().toLowerCase();
  const kept = data.nodes.filter((node) => isKept(node, wanted)).sort(ORDERS[find("order").value]);
  const groups = new Map();
  for (const node of kept) {
    const name = `${node.pool || "without NodePool"}, ${node.zone || "no zone yet"}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  const drawsPods = kept.length <= PODS_DRAWN_FOR;
  const parts = [...groups.keys()].sort().flatMap((name) => {
    const nodes = groups.get(name);
    const title = element("h3", {}, `${name}: ${counted(nodes.length, "node")}`);
    return [title, element("div", { class: "group" }, ...nodes.map((node) => nodeBox(node, drawsPods)))];
  });
  find("nodes").replaceChildren(...(parts.length ? parts : [element("p", {}, "no node")]));
}

function timelineOf(stages) {
  if (!stages.length) return [];
  const row = element("span", { class: "timeline", "aria-hidden": "true" });
  let before = 0;
  for (const [name, end] of stages) {
    const part = element("i", { title: `${name}: ${(end - before).toFixed(1)} s` });
    part.style.flexGrow = Math.max(end - before, 0);
    row.append(part);
    before = end;
  }
  const words = stages.map(([name, end]) => `${name} ${end.toFixed(1)} s`).join(", ");
  return [row, element("span", { class: "facts" }, words)];
}

function link(text, object, title) {
  const made = element("button", { type: "button", class: "link" }, text);
  made.addEventListener("click", () => explain(object, title));
  return made;
}

function list(id, items, none) {
  find(id).replaceChildren(...(items.length ? items : [element("li", {}, none)]));
}

function showLists() {
  list("commands", data.commands.map((command) => {
    const saving = command.saving === null ? "" : `, saves ${command.saving}/h`;
    const nodes = command.nodes.flatMap((node) => [link(node, `node/${node}`, `Node ${node}`), " "]);
    return element("li", {}, ...nodes, `${command.reason}${saving}: ${command.why}`);
  }), "none");
  list("pending", data.pending.map(({ pod, reason }) =>
    element("li", {}, link(pod, `pod/${pod}`, `Pod ${pod}`), `: ${reason}`)), "none");
  list("decisions", data.decisions.map((decision) => {
    const money = decision.saving ? `, saves ${decision.saving}/h` : decision.price ? `, ${decision.price}/h` : "";
    const message = decision.message ? `: ${decision.message}` : "";
    const time = element("time", { datetime: decision.time }, new Date(decision.time).toLocaleString());
    const text = `${decision.kind} (${decision.reason}) ${decision.objects}${money}${message}`;
    return element("li", {}, time, element("br", {}), text, ...timelineOf(decision.stages));
  }), data.undecided || "none yet");
}

function show() {
  const after = data.costAfter && data.costAfter !== data.cost ? `, after the plan ${data.costAfter}/h` : "";
  const pending = data.pending.length ? `, ${counted(data.pending.length, "pod")} without a place` : "";
  find("summary").textContent =
    `${counted(data.nodes.length, "node")}, ${counted(data.pods, "pod")}${pending}; ${data.cost}/h, ${data.costPerDay} a day${after}; read at ${new Date(data.read).toLocaleTimeString()}`;
  find("problem").textContent = data.problem;
  showNodes();
  showLists();
  showFields();
}

// Fields of NodePools that are changed most often.
const FIELDS = [
  "spec.disruption.consolidateAfter=5m", "spec.disruption.consolidationPolicy=WhenEmpty", "spec.limits.cpu=100",
  "spec.weight=10", "spec.template.spec.requirements=[{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]",
];

function showFields() {
  const pools = [...new Set(data.nodes.map((node) => node.pool).filter(Boolean))].sort();
  const options = pools.flatMap((pool) => FIELDS.map((field) => element("option", { value: `nodepool.${pool}.${field}` })));
  if (options.length !== find("fields").children.length) find("fields").replaceChildren(...options);
}

function hex(text) {
  return [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function explain(object, title) {
  return ask(`why/${object}`, title);
}

async function ask(path, title) {
  find("explanation-title").textContent = title;
  find("explanation-text").textContent = "reading";
  if (!find("explanation").open) find("explanation").showModal();
  try {
    const answer = await fetch(path);
    find("explanation-text").textContent = await answer.text();
  } catch (error) {
    find("explanation-text").textContent = `kerf ui does not answer: ${error.message}`;
  }
}

async function refresh() {
  try {
    const text = await (await fetch("data.json")).text();
    if (text !== shown) {
      data = JSON.parse(text);
      shown = text;
      const focused = document.activeElement?.getAttribute("aria-label");
      show();
      if (focused) [...document.querySelectorAll(".node")].find((box) => box.getAttribute("aria-label") === focused)?.focus();
    }
  } catch (error) {
    find("problem").textContent = `kerf ui does not answer: ${error.message}`;
  }
  setTimeout(refresh, REFRESH_MS);
}

find("tools").addEventListener("submit", (event) => event.preventDefault());
find("filter").addEventListener("input", () => data && showNodes());
find("order").addEventListener("change", () => data && showNodes());
find("cost").addEventListener("click", () => {
  const label = find("label").value.trim();
  explain(label ? `cost/${label}` : "cost", "Cost of the cluster");
});
find("what-if").addEventListener("submit", (event) => {
  event.preventDefault();
  const change = find("change").value.trim();
  if (change) ask(`what-if/${hex(change)}`, `What if ${change}`);
});
refresh();
